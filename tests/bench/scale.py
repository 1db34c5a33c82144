"""What a fleet costs the system that keeps its series: `python -m tests.bench.scale --nodes 1000 --minutes 10`.

`ofu-exporter fleet simulate` serves the nodes, 8 GPUs each, with a job that reports on every two of them. A real
Prometheus scrapes all of them every 15 s and evaluates the rules, or hands what it scrapes to VictoriaMetrics
(`--into victoriametrics`) as deploy/scale/remote-write does. Printed is a row of the table in docs/scale.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.bench.process import cpu_seconds, resident_mib
from tests.deploy.promtool import ALERTS, RULES
from tests.helpers.agent import COMMAND, until
from tests.helpers.prometheus_server import agent_flag, answers, free_port, promql

GPUS = 8
SCRAPE = 15
QUERIES = {
    "fleet": "sum(rate(ofu_gpu_utilization_seconds_total[5m])) / sum(rate(ofu_gpu_observed_seconds_total[5m]))",
    "job": "sum(rate(ofu_job_utilization_seconds_total{job_id=~'.*1'}[5m]))"
    " / sum(rate(ofu_job_gpu_seconds_total{job_id=~'.*1'}[5m]))",
}
"""Asked of the raw series: what a report of the fleet, and of a tenth of its jobs, reads without rules."""
HEADER = (
    "| GPUs | nodes up | series | a node | samples/s | memory, MiB | CPU, cores "
    "| fleet query, s | jobs query, s |"
)


def specification(nodes: int) -> str:
    jobs = max(nodes // 2, 1)
    return json.dumps(
        {
            "seed": 1,
            "length": "2d",
            "nodes": [{"name": "n", "count": nodes, "model": "H100", "gpus": GPUS}],
            "jobs": [
                {
                    "name": "train",
                    "users": [f"user{number}" for number in range(50)],
                    "account": "research",
                    "gpus": 2 * GPUS if nodes > 1 else GPUS,
                    "count": jobs,
                    "start": "0m",
                    "every": "0m",
                    "lasts": "2d",
                    "mfu": 0.4,
                    "report": {},
                }
            ],
        }
    )


def asked(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=120) as answer:
        return json.load(answer)


@contextlib.contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()  # nothing that it has is kept
        process.wait()


@contextlib.contextmanager
def simulated(nodes: int, folder: Path) -> Iterator[tuple[str, int]]:
    """The address of a fleet, and the simulator's process."""
    spec = folder / "fleet.yaml"
    spec.write_text(specification(nodes))
    address = f"127.0.0.1:{free_port()}"
    with running(*COMMAND, "fleet", "simulate", str(spec), "--listen", address) as process:
        until(lambda: answers(f"http://{address}/sd"), seconds=120)
        yield address, process.pid


def configuration(fleet: str, folder: Path, remote: str) -> Path:
    config: dict[str, Any] = {
        "global": {"scrape_interval": f"{SCRAPE}s", "evaluation_interval": "1m"},
        "scrape_configs": [{"job_name": "ofu", "http_sd_configs": [{"url": f"http://{fleet}/sd"}]}],
    }
    if remote:
        config["remote_write"] = [{"url": f"{remote}/api/v1/write"}]
    else:
        config["rule_files"] = [str(path) for path in (*RULES, *ALERTS)]
    path = folder / "prometheus.yml"
    path.write_text(json.dumps(config))
    return path


class Storage:
    """A Prometheus or a VictoriaMetrics, and what may be asked of both."""

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self.pid = pid

    def value(self, query: str) -> float:
        return sum(float(each["value"][1]) for each in promql(self.url, query))

    def seconds(self, query: str, times: int = 5) -> float:
        """The quickest of several answers, as whoever asks sees it."""

        def once() -> float:
            begin = time.perf_counter()
            self.value(query)
            return time.perf_counter() - begin

        return min(once() for _ in range(times))

    def series(self) -> int:
        status = asked(f"{self.url}/api/v1/status/tsdb")["data"]
        return int(status.get("headStats", {}).get("numSeries", 0) or status["totalSeries"])

    def memory(self) -> float:
        return resident_mib(self.pid, "VmRSS")


@contextlib.contextmanager
def prometheus(fleet: str, folder: Path, remote: str = "") -> Iterator[Storage]:
    url = f"http://127.0.0.1:{free_port()}"
    data = folder / ("agent" if remote else "tsdb")
    flags = [agent_flag(), f"--storage.agent.path={data}"]
    own = [f"--storage.tsdb.path={data}"]
    with running(
        "prometheus",
        f"--config.file={configuration(fleet, folder, remote)}",
        f"--web.listen-address={url.removeprefix('http://')}",
        *(flags if remote else own),
    ) as process:
        until(lambda: answers(f"{url}/-/ready"), seconds=120)
        yield Storage(url, process.pid)


@contextlib.contextmanager
def victoriametrics(fleet: str, folder: Path) -> Iterator[Storage]:
    url = f"http://127.0.0.1:{free_port()}"
    data = folder / "vm"
    listen = f"-httpListenAddr={url.removeprefix('http://')}"
    rules = [f"-rule={path.parent}/*.yaml" for path in (RULES[0], ALERTS[0])]
    with running("victoria-metrics", listen, f"-storageDataPath={data}") as process:
        until(lambda: answers(f"{url}/health"), seconds=120)
        urls = [f"-{name}.url={url}" for name in ("datasource", "remoteWrite", "remoteRead")]
        alerts = f"-httpListenAddr=127.0.0.1:{free_port()}"
        with (
            prometheus(fleet, folder, url),
            running("vmalert", *rules, *urls, alerts, "-notifier.url=http://127.0.0.1:9"),
        ):
            yield Storage(url, process.pid)


def kept(storage: Storage, nodes: int, minutes: float) -> str:
    """How many targets were up at the worst moment after the first two minutes, and which share of scrapes failed."""
    span = f"{max(60 * minutes - 120, SCRAPE):.0f}s"
    fewest = storage.value(f"min_over_time(sum(up)[{span}:{SCRAPE}s])")
    scrapes = storage.value(f"sum(count_over_time(up[{span}]))")
    failed = scrapes - storage.value(f"sum(sum_over_time(up[{span}]))")
    return f"{fewest:.0f} of {nodes} up at the worst moment, {failed:.0f} of {scrapes:.0f} scrapes failed"


def row(nodes: int, minutes: float, into: str) -> str:
    store = prometheus if into == "prometheus" else victoriametrics
    with (
        tempfile.TemporaryDirectory() as name,
        simulated(nodes, Path(name)) as (fleet, simulator),
        store(fleet, Path(name)) as storage,
    ):
        begin = time.monotonic()
        until(lambda: time.monotonic() > begin + 60 * minutes / 2, seconds=2 * 60 * minutes)
        cpu, own, middle = cpu_seconds(storage.pid), cpu_seconds(simulator), time.monotonic()
        until(lambda: time.monotonic() > begin + 60 * minutes, seconds=2 * 60 * minutes)
        lasted = time.monotonic() - middle
        cores = (cpu_seconds(storage.pid) - cpu) / lasted
        used = (cpu_seconds(simulator) - own) / lasted
        most = resident_mib(simulator, "VmHWM")
        print(f"simulator: {used:.2f} cores, {most:.0f} MiB at most", file=sys.stderr)
        print(f"targets: {kept(storage, nodes, minutes)}", file=sys.stderr)
        series = storage.series()
        cells = (
            f"{nodes * GPUS:,}",
            f"{storage.value('sum(up)'):.0f}",
            f"{series:,}",
            f"{series / nodes:.0f}",
            f"{storage.value('sum(scrape_samples_scraped)') / SCRAPE:,.0f}",
            f"{storage.memory():.0f}",
            f"{cores:.2f}",
            *(f"{storage.seconds(query):.3f}" for query in QUERIES.values()),
        )
        return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[12, 125, 1000])
    parser.add_argument("--minutes", type=float, default=10.0, help="for each number of nodes")
    parser.add_argument("--into", choices=("prometheus", "victoriametrics"), default="prometheus")
    given = parser.parse_args(arguments)
    print(f"load of other programs: {os.getloadavg()[0]:.1f}", file=sys.stderr)
    print(f"{HEADER}\n|{'---|' * HEADER.count(' | ')}---|", flush=True)
    for nodes in given.nodes:
        print(row(nodes, given.minutes, given.into), flush=True)


if __name__ == "__main__":
    main()
