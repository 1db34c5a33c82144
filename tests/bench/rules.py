"""What the rules cost Prometheus, or VictoriaMetrics under vmalert, with 1,000 jobs on 8,000 GPUs and a day of history.

    taskset -c 0,1 python -m tests.bench.rules [--victoria-metrics]

The history is made as text: what a scrape every 15 s of the last hour brought, and what the rules recorded in the last
day. Then the real engine is asked for every rule. Printed is the CPU time of its process, the mean of several
evaluations: what else runs on the machine makes that little longer. Writing what a rule found is not in it.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.bench.process import cpu_seconds
from tests.deploy.promtool import ALERTS, RULES, groups
from tests.helpers.agent import until
from tests.helpers.prometheus_server import Prometheus, answers, promql
from tests.helpers.slurm_cluster import free_ports

SCRAPE = 15
GPUS_PER_NODE = 8
CREATE_BLOCKS = ("promtool", "tsdb", "create-blocks-from", "openmetrics")
Sample = tuple[str, float]
"""A series and its value."""


MODEL = "NVIDIA H100 80GB HBM3"
USERS = 200
LOOK_BACK = 300
"""How long Prometheus sees a sample, in seconds."""
MORE = {
    "verdict": ',verdict="agree"',
    "cause": ',cause="no_known_cause"',
    "reports": ',outcome="accepted"',
}
"""Further labels of what is recorded of jobs, by a part of the name."""
RECORDED = [rule["record"] for path in RULES for group in groups(path) for rule in group["rules"]]
OF_A_DAY = frozenset(
    f"{level}:ofu_job_{what}_seconds:rate5m"
    for level in ("job", "cluster")
    for what in ("utilization", "gpu")
)
OF_AN_HOUR = frozenset(
    {
        "job:ofu_job_info:topk1",
        "gpu:ofu_gpu_info:topk1",
        "job_gpu:ofu:ratio_rate5m",
        "job_gpu:ofu_gpu_sm_clock_hertz:avg15m",
        "job_gpu:ofu_gpu_tensor_active:avg15m",
    }
)
"""What rules read over as long a time; all else is read as of now."""
OF_AGENTS = {
    ("up", ""): 1.0,
    ("ofu_exporter_build_info", ',version="1"'): 1.0,
    ("ofu_exporter_simulated", ""): 0.0,
    ("ofu_exporter_paused", ""): 0.0,
    ("ofu_exporter_scheduler_up", ',scheduler="slurm"'): 1.0,
    ("ofu_exporter_missed_deadlines_total", ""): 0.0,
    ("ofu_exporter_config_last_reload_successful", ""): 1.0,
    ("ofu_exporter_config_reloads_total", ',outcome="failed"'): 0.0,
    ("ofu_exporter_state_writes_total", ',outcome="failed"'): 0.0,
    ("process_resident_memory_bytes", ""): 5e7,
    ("process_start_time_seconds", ""): 1.7e9,
}
"""What each agent says of itself, by name and further labels, whenever it is asked."""


LOST = {"clock": 0.4, "no_tensor": 1.4, "empty_sms": 0.6, "idle": 0.4}
"""Lost GPU-seconds a second of a job's four GPUs on a node: with the 1.2 that are used they are 4."""


class Fleet:
    """Jobs on nodes that are all alike, as a function of time. Every job has GPUs on two nodes."""

    def __init__(self, jobs: int, gpus_per_job: int, begin: float) -> None:
        self.jobs = range(jobs)
        self.gpus = range(jobs * gpus_per_job)
        self._per_job = gpus_per_job
        self._begin = begin

    def owner(self, gpu: int) -> int:
        """A job's GPUs are spread in halves, so that most jobs span two nodes."""
        return (gpu + GPUS_PER_NODE // 2) // self._per_job % len(self.jobs)

    def place(self, gpu: int) -> str:
        return f'instance="n{gpu // GPUS_PER_NODE}",gpu="{gpu % GPUS_PER_NODE}",uuid="GPU-{gpu}"'

    def parts(self) -> set[tuple[int, int]]:
        """Jobs and the nodes that they are on."""
        return {(self.owner(gpu), gpu // GPUS_PER_NODE) for gpu in self.gpus}

    @property
    def nodes(self) -> list[str]:
        return [f"n{number}" for number in range(math.ceil(len(self.gpus) / GPUS_PER_NODE))]

    def names(self, job: int) -> str:
        return (
            f'job_id="{job}",job_name="train-{job % 40}",user="user{job % USERS}",'
            f'account="a{job % 20}",partition="p{job % 4}",scheduler="slurm"'
        )

    def scraped(self, at: float) -> Iterator[Sample]:
        """What the pages of all nodes hold at a time."""
        elapsed = at - self._begin
        for gpu in self.gpus:
            here = self.place(gpu)
            ofu = 0.3 + 0.2 * math.sin(gpu)
            described = f'model="{MODEL}",job_id="{self.owner(gpu)}"'
            yield f"ofu_gpu_info{{{here},{described}}}", 1
            yield f"ofu_gpu_up{{{here}}}", 1
            yield f"ofu_gpu_utilization_seconds_total{{{here}}}", ofu * elapsed
            yield f"ofu_gpu_observed_seconds_total{{{here}}}", elapsed
            yield f'ofu_gpu_lost_seconds_total{{{here},part="idle"}}', 0.05 * elapsed
            yield f"ofu_gpu_idle_energy_joules_total{{{here}}}", 50.0 * elapsed
            yield f"ofu_gpu_tensor_active_ratio{{{here}}}", ofu * 1.3
            yield f"ofu_gpu_sm_clock_hertz{{{here}}}", 1.4e9
            yield f"ofu_gpu_sample_timestamp_seconds{{{here}}}", at - 2
        for instance in self.nodes:
            yield f'ofu_exporter_snapshot_timestamp_seconds{{instance="{instance}"}}', at
            for (name, labels), value in OF_AGENTS.items():
                yield f'{name}{{instance="{instance}",job="ofu"{labels}}}', value
        for job, node in self.parts():
            here = f'instance="n{node}",job_id="{job}"'
            yield f'ofu_job_info{{instance="n{node}",{self.names(job)}}}', 1
            for name, rate in (("", 4.0), ("held_", 4.0), ("compared_", 4.0)):
                yield f"ofu_job_{name}gpu_seconds_total{{{here}}}", rate * elapsed
            for name, rate in (
                ("utilization", 1.2),
                ("compared_utilization", 1.2),
                ("compared_mfu", 1.1),
            ):
                yield f"ofu_job_{name}_seconds_total{{{here}}}", rate * elapsed
            for part, rate in LOST.items():
                yield f'ofu_job_lost_seconds_total{{{here},part="{part}"}}', rate * elapsed
            yield f'ofu_job_lost_progress_gpu_seconds_total{{{here},reason="starting"}}', 60.0
            yield f"ofu_job_gained_seconds_total{{{here}}}", 0.0
            yield f"ofu_job_energy_joules_total{{{here}}}", 2000.0 * elapsed
            for name, rate in (("memory_busy", 2.0), ("memory_gpu", 4.0)):
                yield f"ofu_job_{name}_seconds_total{{{here}}}", rate * elapsed
            yield f'ofu_job_reports_total{{{here},outcome="accepted"}}', elapsed / 10
            yield f"ofu_job_report_timestamp_seconds{{{here}}}", at
            yield f'ofu_job_divergence_verdict{{{here},verdict="agree"}}', 1

    def recorded(self, at: float, before: float) -> Iterator[Sample]:
        """What the rules recorded at a time, of what other rules read `before` seconds earlier."""
        value = 0.4 + 0.1 * math.sin(at / 600)
        for name in RECORDED:
            if is_read(name, at, before):
                yield from ((f"{name}{{{labels}}}", value) for labels in self.entities(name))

    def entities(self, name: str) -> Iterator[str]:
        """The labels of the series that a recorded name has."""
        level = name.partition(":")[0]
        if level == "job":
            also = next((label for part, label in MORE.items() if part in name), "")
            yield from (self.names(job) + also for job in self.jobs)
        elif level == "job_model":
            yield from (f'job_id="{job}",model="{MODEL}"' for job in self.jobs)
        elif level == "job_gpu":
            yield from (f'{self.place(gpu)},job_id="{self.owner(gpu)}"' for gpu in self.gpus)
        elif level == "gpu":
            yield from (f'{self.place(gpu)},model="{MODEL}"' for gpu in self.gpus)
        elif level == "node":
            yield from (f'instance="{node}",model="{MODEL}"' for node in self.nodes)
        elif level == "owner":
            yield from (
                f'user="user{user}",account="a{user % 20}",partition="p{user % 4}"'
                for user in range(USERS)
            )
        else:
            yield f'{level}="{MODEL if level == "model" else ""}"'


def is_read(name: str, at: float, before: float) -> bool:
    """Whether a rule reads what was recorded under a name at a time."""
    if name.endswith("avg30m"):
        return at % 3600 == 0
    if name in OF_AN_HOUR:
        return before <= 3600 + LOOK_BACK
    return name in OF_A_DAY or before <= LOOK_BACK


class VictoriaMetrics:
    """A real one, which vmalert would ask, without the cache that would answer a second question."""

    def __init__(self, folder: Path) -> None:
        address = f"127.0.0.1:{free_ports(1)[0]}"
        self.url = f"http://{address}"
        data = f"-storageDataPath={folder / 'victoria'}"
        flags = (data, f"-httpListenAddr={address}", "-search.disableCache", "-retentionPeriod=5y")
        self.process = subprocess.Popen(["victoria-metrics", *flags], stderr=subprocess.DEVNULL)
        until(self.ready, seconds=120)

    def ready(self) -> bool:
        return answers(f"{self.url}/health")

    def load(self, text: Path) -> None:
        with text.open("rb") as file:
            self._post("api/v1/import/prometheus", file, str(text.stat().st_size))
        self._post("internal/force_flush", b"", "0")

    def query(self, expression: str, at: float) -> object:
        return promql(self.url, expression, time=at)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def _post(self, path: str, body: object, length: str) -> None:
        headers = {"Content-Length": length, "Content-Type": "text/plain"}
        request = urllib.request.Request(f"{self.url}/{path}", body, headers)  # type: ignore[arg-type]
        urllib.request.urlopen(request, timeout=600).close()


def loaded_by_promtool(text: Path) -> None:
    """Make blocks for a Prometheus that starts afterwards."""
    data = str(text.parent / "data")
    subprocess.run([*CREATE_BLOCKS, str(text), data], check=True, capture_output=True)


Load = Callable[[Path], None]
Engine = Prometheus | VictoriaMetrics


def imported(fleet: Fleet, hours: float, until_: float, folder: Path, load: Load) -> None:
    """Load the history hour by hour, because a day of text is large."""
    text = folder / "history.txt"
    for hour in range(math.ceil(hours), 0, -1):
        begin = until_ - hour * 3600
        with text.open("w") as file:
            for second in range(0, 3600, SCRAPE):
                at = begin + second
                if second % 60 == 0:
                    write(file.write, fleet.recorded(at, until_ - at), at)
                if hour == 1:
                    write(file.write, fleet.scraped(at), at)
            file.write("# EOF\n")
        load(text)
    text.unlink()


def write(to: Callable[[str], object], samples: Iterable[Sample], at: float) -> None:
    """Samples of one time as lines of OpenMetrics."""
    to("".join(f"{series} {value:.9g} {at:.0f}\n" for series, value in samples))


def is_idle(pid: int) -> bool:
    """Whether it has put its blocks in order, as they lie elsewhere after a day: it looks for that once a minute."""
    before = cpu_seconds(pid)
    time.sleep(75)
    return cpu_seconds(pid) - before < 1.0


def cost(prometheus: Engine, expression: str, at: float, times: int) -> float:
    """CPU seconds of one evaluation. Only the number of its series is answered, so that no answer is written out."""
    counted = f"count({expression})"
    prometheus.query(counted, at)
    before = cpu_seconds(prometheus.process.pid)
    for _ in range(times):
        prometheus.query(counted, at)
    return (cpu_seconds(prometheus.process.pid) - before) / times


def measure(options: argparse.Namespace, folder: Path) -> None:
    now = time.time() // 60 * 60
    victoria = VictoriaMetrics(folder) if options.victoria_metrics else None
    fleet = Fleet(options.jobs, options.gpus_per_job, now - 86400)
    load = victoria.load if victoria else loaded_by_promtool
    imported(fleet, options.hours, now, folder, load)
    prometheus = victoria or Prometheus(folder, {})
    try:
        until(prometheus.ready, seconds=120)
        until(lambda: is_idle(prometheus.process.pid), seconds=1200)
        report(prometheus, now - SCRAPE, options.times)
    finally:
        prometheus.stop()


def report(prometheus: Engine, at: float, times: int) -> None:
    print(
        "| group | evaluated every | rules | CPU s | slowest rule | s |\n|---|---|---|---|---|---|"
    )
    for path in RULES:
        for group in groups(path):
            rules = {
                rule["record"]: cost(prometheus, rule["expr"], at, times) for rule in group["rules"]
            }
            slowest = max(rules, key=lambda rule: rules[rule])
            print(
                f"| {group['name']} | {group['interval']} | {len(rules)} | {sum(rules.values()):.2f} "
                f"| `{slowest}` | {rules[slowest]:.2f} |",
                flush=True,
            )
    alerts = {
        path.stem: sum(
            cost(prometheus, rule["expr"], at, times)
            for group in groups(path)
            for rule in group["rules"]
        )
        for path in ALERTS
    }
    slowest = max(alerts, key=lambda alert: alerts[alert])
    print(
        f"| all alerts | 1m | {len(alerts)} | {sum(alerts.values()):.2f} "
        f"| {slowest} | {alerts[slowest]:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--gpus-per-job", type=int, default=8)
    parser.add_argument("--hours", type=float, default=24.5, help="of history")
    parser.add_argument("--times", type=int, default=5, help="evaluations that the mean is of")
    parser.add_argument("--victoria-metrics", action="store_true", help="instead of Prometheus")
    with tempfile.TemporaryDirectory() as folder:
        measure(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
