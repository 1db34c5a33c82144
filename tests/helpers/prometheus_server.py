"""Runs a real Prometheus, Debian's, and asks it or whoever answers as it does."""

from __future__ import annotations

import functools
import json
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.helpers.programs import has_flag


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def agent_flag() -> str:
    """What has the installed Prometheus run in agent mode."""
    is_new = has_flag("prometheus", "--[no-]agent ")
    return "--agent" if is_new else "--enable-feature=agent"


@functools.cache
def overlapping() -> Sequence[str]:
    """What has a Prometheus before 2.39 read blocks of the same time; newer ones always do."""
    flag = "--storage.tsdb.allow-overlapping-blocks"
    return [flag] if has_flag("prometheus", flag) else []


def answers(url: str) -> bool:
    try:
        # Whoever waits asks often, and to read the authorities takes longer than all else.
        return httpx.get(url, timeout=5, verify=False).status_code == 200
    except httpx.HTTPError:
        return False


def promql(url: str, expression: str, /, **form: object) -> list[dict[str, Any]]:
    """The series of an answer at a `time`; over a time with its `start`, `end` and `step`."""
    kind = "query_range" if "end" in form else "query"
    asked = urllib.parse.urlencode({"query": expression, **form})
    with urllib.request.urlopen(f"{url}/api/v1/{kind}?{asked}", timeout=300) as answer:
        series: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return series


class Prometheus:
    """Debian's Prometheus on a port of its own."""

    def __init__(
        self,
        folder: Path,
        targets: Mapping[str, str],
        flags: Sequence[str] = (),
        /,
        **sections: Any,
    ) -> None:
        """Keeps its data in `folder`/data and scrapes the targets, by job name, every second.

        `sections`: other sections of prometheus.yml, or its own scrape_configs.
        """
        self.port = free_port()
        jobs = [
            {"job_name": name, "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
            for name, target in targets.items()
        ]
        config = folder / "prometheus.yml"
        config.write_text(json.dumps({"scrape_configs": jobs, **sections}))  # JSON is YAML
        if jobs or sections:
            check = ["promtool", "check", "config", str(config)]
            subprocess.run(check, check=True, capture_output=True)
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--log.level=error",
                *overlapping(),
                *flags,
            ]
        )

    def query(self, expression: str, at: float) -> list[dict[str, Any]]:
        return promql(self.url, expression, time=at)

    def ready(self) -> bool:
        return answers(f"{self.url}/-/ready")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)
