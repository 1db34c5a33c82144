"""Runs what stands around the agents: rules and alerts at a test's pace, Alertmanager, VictoriaMetrics, vmalert."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.deploy.promtool import ALERTS, RULES, groups
from tests.helpers.agent import until
from tests.helpers.prometheus_server import answers, free_port, promql
from tests.helpers.quiet_server import QuietHandler, answering

Alert = dict[str, Any]
_MINUTES_AGO = re.compile(r"\boffset ([1-5])m\b")


def at_a_tests_pace(folder: Path, files: Sequence[Path] = (*RULES, *ALERTS)) -> list[Path]:
    """Copies of rule files that are evaluated every four seconds, and wait for two.

    What they read of minutes ago is of as many evaluations ago; nothing else of an expression is changed.
    """
    copies = []
    for path in files:
        found = groups(path)
        for group in found:
            group["interval"] = "4s"
            for rule in group["rules"]:
                rule["expr"] = _MINUTES_AGO.sub(
                    lambda ago: f"offset {4 * int(ago[1])}s", rule["expr"]
                )
                if "alert" in rule:
                    rule["for"] = "2s"
        copy = folder / f"{path.parent.name}-{path.name}"
        copy.write_text(json.dumps({"groups": found}))
        copies.append(copy)
    return copies


@contextlib.contextmanager
def program(*command: str, healthy: str) -> Iterator[None]:
    """A server that runs until the end of the block; it's there when `healthy` answers."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: answers(healthy))
        yield
    finally:
        process.terminate()
        process.wait(20)


@contextlib.contextmanager
def alertmanager(folder: Path, config: Mapping[str, Any]) -> Iterator[str]:
    """A real Alertmanager; gives its address."""
    folder.mkdir()
    file = folder / "alertmanager.yml"
    file.write_text(json.dumps(config))
    subprocess.run(["amtool", "check-config", str(file)], check=True, capture_output=True)
    address = f"127.0.0.1:{free_port()}"
    with program(
        "prometheus-alertmanager",
        f"--config.file={file}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
        healthy=f"http://{address}/-/ready",
    ):
        yield address


class VictoriaMetrics:
    """Debian's VictoriaMetrics, which scrapes by itself, answers PromQL and takes what vmalert records."""

    def __init__(self, address: str) -> None:
        self.url = f"http://{address}"

    def query(self, expression: str) -> list[dict[str, Any]]:
        return promql(self.url, expression, nocache=1)


@contextlib.contextmanager
def victoria_metrics(folder: Path, scrape_configs: Sequence[Any]) -> Iterator[VictoriaMetrics]:
    folder.mkdir()
    file = folder / "scrape.yml"
    file.write_text(json.dumps({"scrape_configs": scrape_configs}))
    address = f"127.0.0.1:{free_port()}"
    with program(
        "victoria-metrics",
        f"-storageDataPath={folder / 'data'}",
        f"-httpListenAddr={address}",
        f"-promscrape.config={file}",
        "-search.latencyOffset=0s",  # or the newest samples stay hidden for half a minute
        healthy=f"http://{address}/health",
    ):
        yield VictoriaMetrics(address)


@contextlib.contextmanager
def vmalert(rules: Sequence[Path], data: VictoriaMetrics, notifier: str) -> Iterator[None]:
    address = f"127.0.0.1:{free_port()}"
    with program(
        "vmalert",
        *(f"-rule={path}" for path in rules),
        f"-datasource.url={data.url}",
        f"-remoteWrite.url={data.url}",
        "-remoteWrite.flushInterval=1s",
        f"-notifier.url=http://{notifier}",
        "-external.label=evaluated_by=vmalert",
        f"-httpListenAddr={address}",
        healthy=f"http://{address}/health",
    ):
        yield


class Receiver:
    """What Alertmanager notified of, in its order."""

    def __init__(self) -> None:
        self.alerts: list[Alert] = []

    def names(self, **labels: str) -> list[str]:
        """The alerts with these labels."""
        return [
            alert["labels"]["alertname"]
            for alert in list(self.alerts)
            if labels.items() <= alert["labels"].items()
        ]


@contextlib.contextmanager
def receiver() -> Iterator[tuple[Receiver, str]]:
    """A web hook; gives what it received, and its URL."""
    received = Receiver()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            received.alerts.extend(json.loads(self.sent())["alerts"])
            self.reply()

    with answering(Handler) as server:
        yield received, f"{server.url}/"
