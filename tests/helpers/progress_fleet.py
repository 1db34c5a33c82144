"""A fleet with planted starts, hangs, stragglers, pauses and steps done again, as pages, and what each was by plan.

A job is a row of stretches; each is alike on all of its GPUs but for the one that stands while the others wait. The
truth is the sum of the stretches' GPU-seconds: nothing of the package computes it.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from tests.deploy.monitoring import VictoriaMetrics
from tests.helpers.agent import until
from tests.helpers.stored_fleet import (
    BEGIN,
    HOUR,
    empty_victoria,
    labelled,
    openmetrics,
    put_into,
    samples_of,
)

Kind = Literal["start", "work", "hang", "straggler", "pause", "checkpoint", "evaluation", "again"]
GPUS = 4
"""Of a node."""
MODEL = "NVIDIA H100 80GB HBM3"
SCRAPE = 30.0
LATE = 4.0
"""Seconds after the minute of a scrape."""
REPORT = 60.0
"""Seconds between reports of steps, and so between two looks at what is done again."""


class Rates(NamedTuple):
    """What a GPU does in a second of a stretch."""

    idle: float
    """Share of the time in which no kernel runs."""
    ofu: float


DOES: dict[Kind, Rates] = {
    "start": Rates(0.93, 0.0),
    "work": Rates(0.06, 0.42),
    "hang": Rates(1.0, 0.0),
    "straggler": Rates(0.02, 0.0),
    "pause": Rates(0.97, 0.0),
    "checkpoint": Rates(0.98, 0.0),
    "evaluation": Rates(0.15, 0.2),
    "again": Rates(0.06, 0.42),
}
STANDS = Rates(0.99, 0.0)
"""The GPU for which the others wait, in a `straggler`: they spin in a collective."""
STATED: dict[Kind, str] = {
    "start": "starting",
    "checkpoint": "checkpoint",
    "evaluation": "evaluation",
    "again": "done_again",
}
"""The reasons that agents count, by what they count."""
SHORT = 60.0
"""A checkpoint that is shorter leaves no minute idle, and is what the job says; a longer one is a minute idle."""


class Stretch(NamedTuple):
    kind: Kind
    seconds: float

    def reasons(self, gpus: int) -> Iterator[tuple[str, float]]:
        """The GPU-seconds that were no progress, by reason."""
        whole = gpus * self.seconds
        if self.kind == "straggler":
            yield "held_idle", self.seconds
            yield "alone", (gpus - 1) * self.seconds
        elif self.kind in ("hang", "pause") or (
            self.kind == "checkpoint" and self.seconds >= SHORT
        ):
            yield "held_idle", whole
        elif self.kind in STATED:
            yield STATED[self.kind], whole


@dataclass
class PlannedRun:
    """A job that has its nodes once."""

    job_id: str
    nodes: Sequence[str]
    begin: float
    """Seconds after BEGIN."""
    stretches: list[Stretch]
    user: str = "ada"
    account: str = "lab"
    states_steps: bool = True

    @property
    def gpus(self) -> int:
        return GPUS * len(self.nodes)

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.stretches)

    @property
    def end(self) -> float:
        return self.begin + self.seconds

    def spans(self) -> Iterator[tuple[float, float, Stretch]]:
        at = self.begin
        for each in self.stretches:
            yield at, at + each.seconds, each
            at += each.seconds

    def used(self, kinds: Iterable[Kind]) -> float:
        """GPU-seconds of peak in stretches of some kinds."""
        return sum(
            self.gpus * s.seconds * DOES[s.kind].ofu for s in self.stretches if s.kind in kinds
        )


@dataclass
class ProgressFleet:
    nodes: Sequence[str]
    runs: Sequence[PlannedRun]
    hours: float
    missed: float = 0.0
    """Share of the scrapes that fail."""
    restarts: dict[str, float] = field(default_factory=dict)
    """When the agent of a node is started anew, seconds after BEGIN: it is away for 20 s, and its GPUs' counters begin
    at 0; those of jobs go on from its state file."""
    away: dict[str, tuple[float, float]] = field(default_factory=dict)
    """From and until when a node does not answer, in seconds after BEGIN; what it has counted goes on."""
    seed: int = 1

    @property
    def installed(self) -> float:
        """GPU-hours, of a node that is gone for good until then."""
        end = self.hours * HOUR
        lasts = (
            begin if until >= end else end
            for begin, until in (self.away.get(node, (end, end)) for node in self.nodes)
        )
        return GPUS * sum(lasts) / HOUR

    def held(self) -> dict[str, float]:
        """GPU-hours by job."""
        found: dict[str, float] = defaultdict(float)
        for run in self.runs:
            found[run.job_id] += run.gpus * run.seconds / HOUR
        return dict(found)

    def lost(self) -> dict[tuple[str, str], float]:
        """GPU-hours that were no progress, by job and reason."""
        found: dict[tuple[str, str], float] = defaultdict(float)
        for run in self.runs:
            for stretch in run.stretches:
                for reason, seconds in stretch.reasons(run.gpus):
                    found[run.job_id, reason] += seconds / HOUR
        return dict(found)

    def used(self, *kinds: Kind) -> float:
        """GPU-hours at the full peak, in stretches of some kinds."""
        return sum(run.used(kinds) for run in self.runs) / HOUR

    def pages(self) -> str:
        """All scrapes, as OpenMetrics."""
        families: dict[str, dict[str, list[str]]] = defaultdict(dict)
        for node in self.nodes:
            known: dict[tuple[str, Labels], tuple[str, list[str]]] = {}
            for at, samples in self._page(node):
                time = f"{BEGIN + at:.3f}"
                for name, labels, value in samples:
                    if (name, labels) not in known:
                        series = name + labelled(cluster="a", instance=node, **dict(labels))
                        known[name, labels] = series, families[name].setdefault(series, [])
                    series, lines = known[name, labels]
                    lines.append(f"{series} {value!r} {time}")
        return openmetrics(
            {
                name: itertools.chain(*(found[each] for each in sorted(found)))
                for name, found in families.items()
            }
        )

    def _times(self, node: str) -> Iterator[float]:
        chance = random.Random(f"{self.seed} {node}")
        restart = self.restarts.get(node, -1000.0)
        away, back = self.away.get(node, (-1.0, -1.0))
        for step in range(round(self.hours * HOUR / SCRAPE)):
            at = LATE + SCRAPE * step
            is_missed = chance.random() < self.missed
            if not (is_missed or 0 <= at - restart < 20 or away <= at < back):
                yield at

    def _page(self, node: str) -> Iterator[tuple[float, Iterator[Sample]]]:
        runs = [run for run in self.runs if node in run.nodes]
        times = [(run.begin, run.end, run) for run in runs]
        first, others = (Totals(gpu_rows(runs, node, gpu, self.hours * HOUR)) for gpu in range(2))
        jobs = {job: Totals(job_rows(runs, node, job)) for job in {run.job_id for run in runs}}
        restart = self.restarts.get(node)
        which = [(("gpu", f"{gpu}"), ("uuid", f"GPU-{node}-{gpu}")) for gpu in range(GPUS)]
        for at in self._times(node):
            holder = next((run for begin, end, run in times if begin <= at <= end), None)
            since = restart if restart is not None and at > restart else 0.0
            alike = [one.between(since, at) for one in (first, others)]
            shown = [run for begin, end, run in times if begin <= at <= end + 300]
            shown = [run for run in shown if holder is None or run is holder]
            of_jobs = (job_page(run, jobs[run.job_id], at, runs) for run in shown)
            of_gpus = gpu_page(holder, which, alike)
            yield at, itertools.chain([BUILD], of_gpus, *of_jobs)


Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]
"""The name, the labels and the value of a series."""
BUILD: Sample = ("ofu_exporter_build_info", (("version", "1"),), 1.0)


def gpu_page(
    holder: PlannedRun | None,
    which: Sequence[Labels],
    alike: Sequence[Mapping[tuple[str, str], float]],
) -> Iterator[Sample]:
    more: Labels = (("model", MODEL), *((("job_id", holder.job_id),) if holder else ()))
    for gpu, labels in enumerate(which):
        yield "ofu_gpu_info", labels + more, 1.0
        for (kind, part), value in alike[min(gpu, 1)].items():
            parted = (*labels, ("part", part)) if part else labels
            yield f"ofu_gpu_{kind}_seconds_total", parted, value


def job_page(
    run: PlannedRun, totals: Totals, at: float, runs: Sequence[PlannedRun]
) -> Iterator[Sample]:
    job = (("job_id", run.job_id),)
    names = (("job_name", f"train-{run.job_id}"), ("user", run.user), ("account", run.account))
    yield "ofu_job_info", (*job, *names, ("partition", "gpu")), 1.0
    for (kind, part), value in totals.between(0.0, at).items():
        if kind == "lost_progress_gpu":
            if part == "starting" or run.states_steps:
                yield f"ofu_job_{kind}_seconds_total", (*job, ("reason", part)), value
        else:
            labels = (*job, ("part", part)) if part else job
            yield f"ofu_job_{kind}_seconds_total", labels, value
    if run.states_steps:
        worked = sum(
            max(0.0, min(at, end) - begin)
            for each in runs
            if each.job_id == run.job_id
            for begin, end, stretch in each.spans()
            if stretch.kind == "work"
        )
        yield "ofu_job_step", job, float(worked // 2)


Row = tuple[float, float, dict[tuple[str, str], float]]
"""From and until when, and how much each counter grows in a second."""


def gpu_rows(runs: Sequence[PlannedRun], node: str, gpu: int, end: float) -> Iterator[Row]:
    at = 0.0
    for run in sorted(runs, key=lambda each: each.begin):
        yield at, run.begin, _gpu(Rates(1.0, 0.0))
        for begin, to, stretch in run.spans():
            stands = stretch.kind == "straggler" and gpu == 0 and node == run.nodes[0]
            yield begin, to, _gpu(STANDS if stands else DOES[stretch.kind])
        at = run.end
    yield at, end, _gpu(Rates(1.0, 0.0))


def _gpu(rates: Rates) -> dict[tuple[str, str], float]:
    return {
        ("observed", ""): 1.0,
        ("utilization", ""): rates.ofu,
        ("lost", "idle"): rates.idle,
        ("lost", "no_tensor"): 1 - rates.idle - rates.ofu,
    }


def job_rows(runs: Sequence[PlannedRun], node: str, job_id: str) -> Iterator[Row]:
    """Reports tell what is done again at their end; the rest grows as it comes."""
    for run in runs:
        if run.job_id != job_id:
            continue
        for begin, to, stretch in run.spans():
            every = [
                _gpu(
                    STANDS
                    if stretch.kind == "straggler" and gpu == 0 and node == run.nodes[0]
                    else DOES[stretch.kind]
                )
                for gpu in range(GPUS)
            ]
            of_job: dict[tuple[str, str], float] = {
                ("held_gpu", ""): float(GPUS),
                ("gpu", ""): float(GPUS),
                **{
                    key: sum(each[key] for each in every)
                    for key in (("utilization", ""), ("lost", "idle"), ("lost", "no_tensor"))
                },
            }
            for reason in STATED.values():
                of_job["lost_progress_gpu", reason] = 0.0
            if stretch.kind in STATED and stretch.kind != "again":
                of_job["lost_progress_gpu", STATED[stretch.kind]] = float(GPUS)
            yield begin, to, of_job
            if stretch.kind == "again":
                yield from _jumps(begin, to)


def _jumps(begin: float, to: float) -> Iterator[Row]:
    """What is done again between two reports, counted within a second of the later one."""
    at = begin
    while at < to:
        length = min(REPORT, to - at)
        at += length
        yield at, at + 1, {("lost_progress_gpu", "done_again"): GPUS * length}


class Totals:
    """Counters that grow evenly within each row of a plan. They are asked for in the order of time."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)
        assert all(a[0] <= b[0] for a, b in itertools.pairwise(self._rows)), "in order"
        self._none = {key: 0.0 for _, _, rates in self._rows for key in rates}
        self._whole: dict[float, tuple[int, dict[tuple[str, str], float]]] = {}
        """By begin: how many rows have ended, and what they are in all."""

    def between(self, begin: float, end: float) -> dict[tuple[str, str], float]:
        ended, whole = self._whole.get(begin, (0, self._none))
        while ended < len(self._rows) and self._rows[ended][1] <= end:
            whole = _grown(whole, self._rows[ended], begin, end)
            ended += 1
        self._whole[begin] = ended, whole
        found = whole
        for row in itertools.islice(self._rows, ended, None):
            if row[0] >= end:
                break
            found = _grown(found, row, begin, end)
        return found


def _grown(
    totals: dict[tuple[str, str], float], row: Row, begin: float, end: float
) -> dict[tuple[str, str], float]:
    """The totals with what a row adds in this time."""
    start, to, rates = row
    seconds = min(end, to) - max(begin, start)
    if seconds <= 0:
        return totals
    return {**totals, **{key: totals[key] + rate * seconds for key, rate in rates.items()}}


@contextmanager
def victoria(text: str, folder: Path) -> Iterator[VictoriaMetrics]:
    """A VictoriaMetrics that has these pages."""
    in_milliseconds = re.sub(r"\.(\d{3})$", r"\1", text, flags=re.MULTILINE)
    lines = [line for line in in_milliseconds.splitlines() if line[0] != "#"]
    with empty_victoria(folder) as server:
        put_into(server, lines)
        until(lambda: samples_of(server) == len(lines))
        yield server


def planned(seed: int, hours: float = 8.0, jobs: int = 10) -> ProgressFleet:
    """Ten jobs on a node or more each, to which everything happens; some are requeued, or continued by a new job."""
    chance = random.Random(seed)
    runs: list[PlannedRun] = []
    nodes: list[str] = []
    for number in range(jobs):
        size = chance.choice((1, 1, 2, 3))
        mine = [f"n{len(nodes) + each}:9846" for each in range(size)]
        nodes += mine
        job, at, left = f"{100 + number}", chance.uniform(60, 1800), hours * HOUR
        states_steps = number % 5 != 4
        for run in range(chance.choice((1, 2, 3))):
            stretches = [*_happenings(chance, states_steps, is_first=run == 0)]
            made = PlannedRun(job, mine, at, stretches, f"user{number % 3}", "lab", states_steps)
            if made.end > left - 400:
                break
            runs.append(made)
            at = made.end + chance.uniform(330, 900)
            if chance.random() < 0.4:
                job = f"{200 + 10 * number + run}"  # a new job continues the old one
    restarts = {nodes[0]: 2.5 * HOUR, nodes[-1]: 4.2 * HOUR}
    return ProgressFleet(nodes, runs, hours, missed=0.03, restarts=restarts, seed=seed)


def with_vanished(fleet: ProgressFleet) -> ProgressFleet:
    """The same with a node that is gone for good in the middle of a job, whose others then stand until it is started
    again on another node, and with two that do not answer for half an hour: in steps that are done again, and beyond
    the end of an hour."""
    chance = random.Random(fleet.seed)
    lost = next(run for run in fleet.runs if len(run.nodes) > 1 and run.seconds > 6000)
    gone, at = lost.nodes[-1], lost.begin + chance.uniform(2500, lost.seconds - 1500)
    others = lost.nodes[:-1]
    runs = []
    for run in fleet.runs:
        if run is lost:
            cut = [
                Stretch(s.kind, min(to, at) - begin) for begin, to, s in run.spans() if begin < at
            ]
            runs.append(replace(run, stretches=cut))
            stands = replace(run, nodes=others, begin=at, stretches=[Stretch("hang", 900)])
            runs.append(stands)
        elif gone in run.nodes:
            nodes = [*others, f"spare-{gone}"] if run.begin > at else run.nodes
            runs.append(replace(run, nodes=nodes))
        else:
            runs.append(run)
    away = {gone: (at, 2 * fleet.hours * HOUR)}
    whole = [run for run in fleet.runs if not {*run.nodes} & {*lost.nodes, *fleet.restarts}]
    starts_again = next(run for run in whole if run.stretches[1].kind == "again")
    begin = starts_again.begin + starts_again.stretches[0].seconds + chance.uniform(0, 300)
    away[starts_again.nodes[0]] = (begin, begin + 1800)
    node, hour = next(
        (run.nodes[-1], hour * HOUR)
        for run, hour in itertools.product(whole, (2, 3, 4, 5))
        if run.begin + 1300 < hour * HOUR < run.end - 1300
        if run.nodes[-1] not in starts_again.nodes
    )
    away[node] = (hour - chance.uniform(600, 1200), hour + chance.uniform(600, 1200))
    nodes = [*fleet.nodes, f"spare-{gone}"]
    return replace(fleet, nodes=nodes, runs=runs, away=away)


def _happenings(chance: random.Random, states_steps: bool, is_first: bool) -> Iterator[Stretch]:
    yield Stretch("start", chance.uniform(90, 900))
    if not is_first and states_steps:
        yield Stretch("again", chance.uniform(120, 1800))
    kinds: tuple[Kind, ...] = ("hang", "straggler", "pause")
    kinds += ("checkpoint", "checkpoint", "evaluation") if states_steps else ()
    for _ in range(chance.randint(3, 8)):
        yield Stretch("work", chance.uniform(300, 1500))
        kind = chance.choice(kinds)
        is_short = kind == "checkpoint" and chance.random() < 0.5
        longest = 1200 if kind == "hang" else 500
        yield Stretch(kind, chance.uniform(10, 45) if is_short else chance.uniform(150, longest))
    yield Stretch("work", chance.uniform(200, 600))


def healthy(jobs: int, hours: float = 1.5) -> ProgressFleet:
    """Jobs of a node each that start, work and save for some seconds now and then."""
    chance = random.Random(7)
    runs = []
    for number in range(jobs):
        stretches = [Stretch("start", chance.uniform(100, 500))]
        begin = chance.uniform(30, 600)
        while (left := hours * HOUR - begin - sum(each.seconds for each in stretches)) > 900:
            stretches.append(Stretch("work", chance.uniform(300, min(1200, left - 100))))
            stretches.append(Stretch("checkpoint", chance.uniform(3, 40)))
        stretches.append(Stretch("work", 300))
        runs.append(
            PlannedRun(str(number), [f"n{number}:9846"], begin, stretches, f"u{number % 9}")
        )
    return ProgressFleet([run.nodes[0] for run in runs], runs, hours, missed=0.02)
