"""A real Prometheus that holds the history of a small fleet, made from a schedule whose sums anybody can check.

The agents' own series are written as OpenMetrics and read in by promtool. The recording rules are evaluated over them
by Prometheus itself, so what is on record is what the project's rules make of the pages.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ofu_exporter.fleet.chunks import HOURS_AT_ONCE, ChunkReader
from ofu_exporter.fleet.prometheus import LOOK_BACK, PrometheusClient
from tests.deploy.monitoring import VictoriaMetrics, program
from tests.deploy.promtool import ORDER, RULES, groups
from tests.helpers.agent import until
from tests.helpers.prometheus_server import Prometheus, free_port, promql

BEGIN = 1767571200.0
"""2026-01-05 00:00 UTC."""
HOUR = 3600.0
SCRAPE = 60.0
IDLE_WATTS = 50.0
"""Of every GPU in windows without a kernel, whoever has it."""
CREATE_BLOCKS = (
    *("promtool", "tsdb", "create-blocks-from", "openmetrics"),
    # Otherwise it reads the file once for every two hours of it.
    "--max-block-duration=1458h",
)
RETENTION = ("--storage.tsdb.retention.time=100y",)


Put = Callable[[str, str, Iterable[tuple[float, float]]], None]
"""Takes the points of a series: its name, its labels, and times with values."""


class HasUrl(Protocol):
    """A server that is asked."""

    url: str


Server = Callable[[Path], AbstractContextManager[Prometheus]]
"""Runs a Prometheus over what is in a folder."""


@dataclass(frozen=True)
class StoredNode:
    """A node, all of whose GPUs are alike."""

    cluster: str
    name: str
    model: str
    gpus: int
    simulated: float = 0.0
    """Hours from BEGIN on in which its values are simulated."""
    alone: tuple[float, ...] = ()
    """OFU of its GPUs, one after the other, while no job has them: work that no scheduler tells of."""

    away: tuple[float, float] | None = None
    """Hours from BEGIN on in which its page cannot be had; its counters go on."""

    def is_away(self, time: float) -> bool:
        hours = (time - BEGIN) / HOUR
        return self.away is not None and self.away[0] < hours < self.away[1]

    def alone_of(self, gpu: int) -> float:
        return self.alone[gpu] if gpu < len(self.alone) else 0.0


@dataclass(frozen=True)
class ScheduledJob:
    """A job that has whole nodes from one hour to another, hours after BEGIN."""

    job_id: str
    user: str
    nodes: tuple[StoredNode, ...]
    begin: float
    end: float
    ofu: float
    mfu: float | None = None
    measured: float = 1.0
    """Share of the time for which OFU was measured."""
    verdict: str | None = None
    cause: str | None = None
    account: str = "lab"
    name: str = ""
    """`train-USER` where it is empty."""
    framework: str = ""
    """Known to its first node alone, from its second hour on."""
    slow_gpu: int | None = None
    """This GPU of every node does half of what the others do."""
    idle_gpu: int | None = None
    """This GPU of every node does nothing."""

    finding: str = ""
    """What half of the time of its traces went to, on its first node, from its second hour on."""

    def ofu_of(self, gpu: int) -> float:
        return 0.0 if gpu == self.idle_gpu else self.ofu * (0.5 if gpu == self.slow_gpu else 1.0)

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.nodes)

    @property
    def held(self) -> float:
        """GPU-hours."""
        return self.gpus * (self.end - self.begin)

    def labels(self, node: StoredNode, **more: str) -> str:
        return labelled(cluster=node.cluster, instance=node.name, job_id=self.job_id, **more)


def labelled(**labels: str) -> str:
    shown = {name: value for name, value in labels.items() if value and name != "__name__"}
    inside = ",".join(f'{name}="{escaped(value)}"' for name, value in shown.items())
    return f"{{{inside}}}"


def escaped(value: str) -> str:
    """A label's value as pages write it."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def pages(nodes: Iterable[StoredNode], jobs: Sequence[ScheduledJob], hours: float) -> str:
    """The whole history as OpenMetrics: family by family, series by series."""
    families: dict[str, list[str]] = {}
    times = [BEGIN + SCRAPE * step for step in range(round(hours * HOUR / SCRAPE) + 1)]

    def put(name: str, labels: str, points: Iterable[tuple[float, float]]) -> None:
        lines = families.setdefault(name, [])
        lines += [f"{name}{labels} {value!r} {time:.3f}" for time, value in points]

    for node in nodes:
        seen = [time for time in times if not node.is_away(time)]
        put_node(put, node, [job for job in jobs if node in job.nodes], seen)
    for job in jobs:
        for node in job.nodes:
            put_job(put, job, node, [time for time in times if not node.is_away(time)])
    return openmetrics(families)


def openmetrics(families: Mapping[str, Iterable[str]]) -> str:
    """The samples of each family, as a file that promtool reads."""
    lines = []
    for name, samples in families.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# TYPE {name.removesuffix('_total')} {kind}", *samples]
    return "\n".join([*lines, "# EOF", ""])


def put_node(
    put: Put, node: StoredNode, jobs: Sequence[ScheduledJob], times: Sequence[float]
) -> None:
    where = {"cluster": node.cluster, "instance": node.name}
    put("ofu_exporter_build_info", labelled(**where, version="1"), ((t, 1.0) for t in times))
    simulated = ((t, float(t < BEGIN + node.simulated * HOUR)) for t in times)
    put("ofu_exporter_simulated", labelled(**where), simulated)
    for gpu in range(node.gpus):
        which = {**where, "gpu": str(gpu), "uuid": f"GPU-{node.name}-{gpu}"}
        alone = node.alone_of(gpu)
        free = [t for t in times if not any(runs(job, t) for job in jobs)]
        put("ofu_gpu_info", labelled(**which, model=node.model), ((t, 1.0) for t in free))
        put("ofu_gpu_observed_seconds_total", labelled(**which), ((t, t - BEGIN) for t in times))
        idle = ((t, IDLE_WATTS * (t - BEGIN)) for t in times)
        put("ofu_gpu_idle_energy_joules_total", labelled(**which), idle)
        used = [
            (
                t,
                sum((job.ofu_of(gpu) - alone) * seconds_of(job, t) for job in jobs)
                + alone * (t - BEGIN),
            )
            for t in times
        ]
        put("ofu_gpu_utilization_seconds_total", labelled(**which), used)
        for job in jobs:
            shown = [t for t in times if runs(job, t)]
            mine = labelled(**which, model=node.model, job_id=job.job_id)
            put("ofu_gpu_info", mine, ((t, 1.0) for t in shown))


def seconds_of(job: ScheduledJob, time: float) -> float:
    """Seconds for which a job has run at a time."""
    return min(max(0.0, time - BEGIN - job.begin * HOUR), (job.end - job.begin) * HOUR)


def runs(job: ScheduledJob, time: float, longer: float = 0.0) -> bool:
    return BEGIN + job.begin * HOUR <= time <= BEGIN + job.end * HOUR + longer


def put_job(put: Put, job: ScheduledJob, node: StoredNode, times: Sequence[float]) -> None:
    shown = [t for t in times if runs(job, t, 300)]  # totals are served for five minutes longer
    running = [t for t in times if runs(job, t)]
    put_names(put, job, node, shown)
    held = node.gpus
    parts = {"held_gpu": held, "gpu": held * job.measured}
    used = sum(job.ofu_of(gpu) for gpu in range(held)) * job.measured
    parts["utilization"] = used
    if job.mfu is not None:
        parts["compared_gpu"] = held * job.measured
        parts["compared_mfu"] = held * job.measured * job.mfu
        parts["compared_utilization"] = used
    for name, weight in parts.items():
        points = [(t, weight * seconds_of(job, t)) for t in shown]
        put(f"ofu_job_{name}_seconds_total", job.labels(node), points)
    if job.verdict:
        verdict = job.labels(node, verdict=job.verdict)
        put("ofu_job_divergence_verdict", verdict, ((t, 1.0) for t in running))
    if job.cause:
        cause = job.labels(node, cause=job.cause)
        put("ofu_job_divergence_cause", cause, ((t, 1.0) for t in running))
    if job.finding and node == job.nodes[0]:
        traced = [t for t in shown if t >= BEGIN + (job.begin + 1) * HOUR]
        put("ofu_job_traced_seconds_total", job.labels(node), ((t, 4.0) for t in traced))
        cost = job.labels(node, finding=job.finding)
        put("ofu_job_finding_seconds_total", cost, ((t, 2.0) for t in traced))


def put_names(put: Put, job: ScheduledJob, node: StoredNode, shown: Sequence[float]) -> None:
    names = {"job_name": job.name or f"train-{job.user}", "user": job.user, "account": job.account}
    tells = job.framework and node == job.nodes[0]
    told = BEGIN + (job.begin + 1) * HOUR if tells else float("inf")
    labels = {**names, "partition": "gpu"}
    put("ofu_job_info", job.labels(node, **labels), ((t, 1.0) for t in shown if t < told))
    if tells:
        labels["framework"] = job.framework
        put("ofu_job_info", job.labels(node, **labels), ((t, 1.0) for t in shown if t >= told))


def read_in(folder: Path, text: str) -> None:
    """Make blocks of OpenMetrics in `folder`/data."""
    file = folder / "history.om"
    (folder / "data").mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    subprocess.run(
        [*CREATE_BLOCKS, str(file), str(folder / "data")], check=True, capture_output=True
    )
    file.unlink()


@contextmanager
def stored_pages(folder: Path, text: str) -> Iterator[Prometheus]:
    """A Prometheus that has these pages, and nothing else."""
    read_in(folder, text)
    with stored(folder) as prometheus:
        yield prometheus


@contextmanager
def reading(url: str, at_once: int = HOURS_AT_ONCE) -> Iterator[ChunkReader]:
    """Reads from a server, of which nothing may be missing in the end."""
    reader = ChunkReader(PrometheusClient(url), hours_at_once=at_once)
    try:
        yield reader
    finally:
        reader.client.close()
    assert reader.missing == []


ENGINES = ("raw", "recorded", "victoria raw", "victoria recorded")


class Twice(NamedTuple):
    """The same pages twice: alone, and with what the rules that `rules` names record of them."""

    raw: Path
    recorded: Path
    span: tuple[float, float]
    rules: str

    @classmethod
    def of(
        cls, text: str, span: tuple[float, float], rules: str, folder: Callable[[str], Path]
    ) -> Twice:
        made = cls(folder("raw"), folder("recorded"), span, rules)
        read_in(made.raw, text)
        shutil.copytree(made.raw, made.recorded, dirs_exist_ok=True)
        record(made.recorded, *span, rules)
        return made

    @contextmanager
    def served(self, engine: str, empty: Path) -> Iterator[HasUrl]:
        """One of ENGINES that has them; a VictoriaMetrics keeps them in `empty`."""
        if engine in ("raw", "recorded"):
            with stored(getattr(self, engine)) as prometheus:
                yield prometheus
            return
        with stored(self.raw) as prometheus, victoria_with(prometheus, empty) as server:
            if engine == "victoria recorded":
                record_in(server, *self.span, self.rules)
            yield server


def record(folder: Path, begin: float, end: float, text: str, server: Server | None = None) -> None:
    """Evaluate recording rules over what is in `folder`/data, each after those that it builds on.

    Only the rules that `text` names, and what they build on, are evaluated: by a Prometheus over the folder, or by the
    server that is given.
    """
    for layer in layers(text):
        lines: list[str] = []
        with (server or stored)(folder) as prometheus:
            for rule, interval in layer:
                lines += recorded(prometheus, rule, (begin + interval, end), interval)
        read_in(folder, "\n".join([*lines, "# EOF", ""]))


@functools.cache
def layers(text: str) -> list[list[tuple[dict[str, str], float]]]:
    """The rules that `text` names and what they build on, with their intervals: first those that build on none."""
    found: list[list[tuple[dict[str, str], float]]] = []
    every = {
        rule["record"]: (rule, float(group["interval"][:-1]) * _SECONDS[group["interval"][-1]])
        for name in ORDER
        for path in RULES
        for group in groups(path)
        if group["name"] == name
        for rule in group["rules"]
    }
    rules = {name: every[name] for name in needed(text, every)}
    done: set[str] = set()
    while len(done) < len(rules):
        ready = [name for name in rules if name not in done and built_on(name, rules) <= done]
        found.append([rules[name] for name in ready])
        done.update(ready)
    return found


_SECONDS = {"m": 60.0, "h": 3600.0}


def needed(text: str, rules: Mapping[str, tuple[dict[str, str], float]]) -> set[str]:
    """The recorded series that a text names, with all that they build on."""
    found = {name for name in rules if re.search(rf"{name}(?![\w:])", text)}
    return found.union(*(needed(rules[name][0]["expr"], rules) for name in found))


def built_on(name: str, rules: Mapping[str, tuple[dict[str, str], float]]) -> set[str]:
    """The recorded series that a rule reads."""
    return {other for other in rules if re.search(rf"{other}(?![\w:])", rules[name][0]["expr"])}


def recorded(
    prometheus: HasUrl, rule: dict[str, str], times: tuple[float, float], step: float
) -> Iterator[str]:
    """What a rule says, in OpenMetrics."""
    name = rule["record"]
    # vmalert asks for one time, with a step of five minutes
    form = {"start": times[0], "end": times[1], "step": step, **LOOK_BACK}
    found = promql(prometheus.url, rule["expr"], **form)
    if found:
        yield f"# TYPE {name} gauge"
    for one in found:
        labels = labelled(**one["metric"])
        yield from (f"{name}{labels} {value} {time:.3f}" for time, value in one["values"])


@contextmanager
def stored(folder: Path, flags: Sequence[str] = (), **sections: Any) -> Iterator[Prometheus]:
    """A Prometheus over what is in `folder`/data; `sections` of its configuration."""
    prometheus = Prometheus(folder, {}, (*RETENTION, *flags), **sections)
    try:
        until(prometheus.ready)
        yield prometheus
    finally:
        prometheus.stop()


@contextmanager
def victoria_with(prometheus: Prometheus, folder: Path) -> Iterator[VictoriaMetrics]:
    """A VictoriaMetrics that has what this Prometheus has."""
    client = PrometheusClient(prometheus.url)
    lines = [
        f"{series} {value!r} {1000 * time:.0f}"
        for one in client.recorded('{__name__=~".+"}', BEGIN - 1, BEGIN + 1000 * HOUR)
        for series in [one.labels["__name__"] + labelled(**one.labels)]
        for time, value in one.points
    ]
    client.close()
    with empty_victoria(folder) as server:
        put_into(server, lines)
        until(lambda: samples_of(server) == len(lines))
        yield server


@contextmanager
def empty_victoria(folder: Path, *flags: str) -> Iterator[VictoriaMetrics]:
    """A VictoriaMetrics that takes in samples of any time."""
    address = f"127.0.0.1:{free_port()}"
    # What it answered while samples were taken in must not be answered again afterwards.
    every = (f"-httpListenAddr={address}", "-retentionPeriod=100y", "-search.disableCache")
    with program(
        *("victoria-metrics", f"-storageDataPath={folder}", *every, *flags),
        healthy=f"http://{address}/health",
    ):
        yield VictoriaMetrics(address)


def put_into(server: VictoriaMetrics, lines: Sequence[str]) -> None:
    """Import samples, with their times in milliseconds."""
    content = "\n".join(lines).encode()
    for path, body in (("api/v1/import/prometheus", content), ("internal/force_flush", b"")):
        urllib.request.urlopen(f"{server.url}/{path}", body, timeout=300).close()


def record_in(server: VictoriaMetrics, begin: float, end: float, text: str) -> None:
    """Evaluate recording rules in a VictoriaMetrics, as vmalert does."""
    for layer in layers(text):
        found = [
            line[:-4] + line[-3:]  # in milliseconds
            for rule, step in layer
            for times in times_of(begin, end, step)
            for line in recorded(server, rule, times, step)
            if not line.startswith("#")
        ]
        before = samples_of(server)
        put_into(server, found)
        until(lambda: samples_of(server) == before + len(found), seconds=180)  # noqa: B023


def times_of(begin: float, end: float, step: float) -> list[tuple[float, float]]:
    """When rules are evaluated: hourly ones apart, since over a range of times an increase knows what was before."""
    if step < HOUR:
        return [(begin + step, end)]
    return [(begin + step * n, begin + step * n) for n in range(1, round((end - begin) / step) + 1)]


def samples_of(server: VictoriaMetrics) -> int:
    """How many samples a server finds: what it has taken is not all found at once."""
    client = PrometheusClient(server.url)
    try:
        found = client.instant('sum(count_over_time({__name__=~".+"}[60h]))', BEGIN + 59 * HOUR)
    finally:
        client.close()
    return round(found[0].points[0][1]) if found else 0
