"""The kinds of actions: each is a function that yields what it sees in a report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ofu_exporter.fleet.actions.commands import command
from ofu_exporter.fleet.changes_result import ChangeRow, SeriesKind, SlowRow
from ofu_exporter.fleet.history.fleet_history import ClusterJob
from ofu_exporter.fleet.reports.chain_rows import RestartRow
from ofu_exporter.fleet.reports.figures import counted, gpu_count, hours, points, share
from ofu_exporter.fleet.reports.job_rows import is_flagged
from ofu_exporter.fleet.reports.reachable import busy_gap, unused
from ofu_exporter.fleet.reports.result import FleetReport, JobRow
from ofu_exporter.fleet.reports.words import likeliest_words
from ofu_exporter.support.durations import lasting
from ofu_exporter.traces import findings
from ofu_exporter.values.losses import known_sum

LEAST_GAP = 0.2
"""Of the busy GPU-hours; three of four jobs are below an upper quartile."""
MOSTLY_IDLE, ALL_IDLE = 0.5, 0.99
"""Shares of the measured GPU-hours, and of the held ones."""
LEAST_RATIO = 0.1
"""Of the time of the traced ranks."""
REGAINED = 0.9
"""Part of the OFU before a regression, with which it is over."""
OF_JOBS: Sequence[SeriesKind] = ("name", "job")
"""Kinds of series; changes of a model or a node are made of those of jobs."""


class Action(NamedTuple):
    """What can be done, and the jobs that it is about."""

    who: str
    what: str
    """What they did, to be read after `who`."""
    why: str
    next: str
    link: str
    rows: Sequence[JobRow] = ()
    gpu_hours: float | None = None
    """Of these jobs, that can be had back; None where none are known to be."""
    cost: float | None = None
    is_general: bool = False
    """Says less of its jobs than other kinds do, which come first where both have a job."""
    kind: str = ""
    """The name of the function that saw it."""

    @property
    def jobs(self) -> frozenset[ClusterJob]:
        return frozenset(map(_job_of, self.rows))


def _job_of(row: JobRow | RestartRow) -> ClusterJob:
    """The job of a row; one id may be of several users, one after the other."""
    return ClusterJob(row.cluster, row.job_id, row.user)


ActionKind = Callable[[FleetReport], Iterator[Action]]
KINDS: list[ActionKind] = []


def action(kind: ActionKind) -> ActionKind:
    """Marks a kind of action: its name stands in reports."""
    KINDS.append(kind)
    return kind


@action
def below_others(report: FleetReport) -> Iterator[Action]:
    """Jobs whose busy hours stay well below what comparable jobs, or else the target, reach."""
    for rows in by_name(row for row in report.jobs if row.recoverable_gpu_hours is not None):
        gap = sum(busy_gap(row) or 0.0 for row in rows)
        busy = sum(row.observed_gpu_hours - row.idle_gpu_hours for row in rows)
        if busy <= 0 or gap < LEAST_GAP * busy:
            continue
        ofu = sum(row.effective_gpu_hours for row in rows) / busy
        yield Action(
            who=jobs_named(rows),
            what=f"reached an OFU of {share(ofu)} while busy",
            why=f"At the OFU that comparable jobs or the target reach, the same work takes {share(gap / busy)} less "
            "GPU time.",
            next=f"{command(report, rows[0])} shows where its time goes.",
            link="docs/jobs.md",
            rows=rows,
            gpu_hours=gap,
            cost=price_of(rows, gap),
            is_general=True,
        )


@action
def held_idle(report: FleetReport) -> Iterator[Action]:
    """Jobs that held GPUs and let them rest for most of their time."""
    idle = [
        row
        for row in report.jobs
        if row.observed_gpu_hours and unused(row) >= MOSTLY_IDLE * row.observed_gpu_hours
    ]
    for rows in by_name(idle):
        lost = sum(map(unused, rows))
        is_told = all(row.lost_idle_gpu_hours is not None for row in rows)
        what, nothing = (
            ("ran nothing", "No kernel ran")
            if is_told
            else ("did no tensor work", "No tensor work")
        )
        observed = sum(row.observed_gpu_hours for row in rows)
        is_all = lost >= ALL_IDLE * sum(row.held_gpu_hours for row in rows)
        mostly = "" if is_all else " most of the measured time"
        yield Action(
            who=jobs_named(rows),
            what=f"held {_gpus(rows)} and {what}{mostly}",
            why=f"{nothing} in {hours(lost)} of {hours(observed)} measured GPU-hours.",
            next="End it if it hangs or waits for somebody; ask for fewer GPUs, or give such jobs a time limit.",
            link="docs/runbooks.md",
            rows=rows,
            gpu_hours=lost,
            cost=price_of(rows, lost),
        )


@action
def regression(report: FleetReport) -> Iterator[Action]:
    """Jobs that are surely slower than they were before."""
    for change, rows in sure_regressions(report):
        first, lost = rows[0], max(0.0, change.lost_gpu_hours)
        yield Action(
            who=f"{first.job_name or first.shown_name}{_whose(first)}",
            what=f"lost {share(1 - change.factor)} of its OFU on {change.at[:10]}",
            why=why(change),
            next=f"Compare what changed that day (code, data, image, nodes): {command(report, first)}.",
            link="docs/changes.md",
            rows=rows,
            gpu_hours=lost,
            cost=price_of(rows, lost),
        )


def sure_regressions(report: FleetReport) -> Iterator[tuple[ChangeRow, list[JobRow]]]:
    """Those of jobs that are not over, with the jobs of the report that are of the time since then."""
    changes = report.changes.changes if report.changes else []
    for change in changes:
        is_sure = change.sure and change.direction == "regression" and change.kind in OF_JOBS
        if is_sure and not any(_ended(change, other) for other in changes):
            rows = [row for row in report.jobs if _is_of(change, row)]
            if rows:
                yield change, rows


def _ended(change: ChangeRow, other: ChangeRow) -> bool:
    """Whether a later change of the same series brought OFU back to where it had been."""
    is_later = (other.kind, other.labels) == (change.kind, change.labels) and other.at > change.at
    return is_later and other.ofu_after >= REGAINED * change.ofu_before


def why(change: ChangeRow) -> str:
    """Its numbers in a sentence."""
    before, after = share(change.ofu_before), share(change.ofu_after)
    return f"OFU {before} before {change.at[:10]}, {after} after it (sure)."


def _is_of(change: ChangeRow, row: JobRow) -> bool:
    """Whether a job is of the series that changed, by every label that jobs have too, and not of the time before."""
    labels = change.labels.keys() & JobRow.model_fields.keys()
    is_since = change.kind == "job" or row.begin >= change.at
    return is_since and all(str(getattr(row, name) or "") == change.labels[name] for name in labels)


@action
def restarts(report: FleetReport) -> Iterator[Action]:
    """Jobs that restart, and lose GPU-hours until they compute anew what they had computed before."""
    by_job: dict[ClusterJob, list[RestartRow]] = defaultdict(list)
    for each in report.restarts:
        by_job[_job_of(each)].append(each)
    for job in report.jobs:
        rows = by_job.get(_job_of(job))
        if not rows:
            continue
        lost = sum(each.gpu_hours for each in rows)
        count = round(sum(each.restarts for each in rows))
        each_took = "" if not job.gpus else f", {lasting(3600 * lost / job.gpus / count)} each time"
        yield Action(
            who=jobs_named([job]),
            what="restarted once" if count == 1 else f"restarted {count:,} times",
            why=f"Getting back to where it had been took {hours(lost)} GPU-hours{each_took}.",
            next=f"Find out why it restarts, and save more often: {command(report, job)}.",
            link="docs/runbooks.md",
            rows=[job],
            gpu_hours=lost,
            cost=known_sum(each.cost for each in rows),
        )


@action
def slow_node(report: FleetReport) -> Iterator[Action]:
    """GPUs and nodes that surely do less, or have a lower clock, than their peers in the same jobs, each once."""
    subjects: set[str] = set()
    rows = [slow for slow in (report.changes.slow if report.changes else ()) if slow.sure]
    for slow in sorted(rows, key=lambda slow: slow.compared == "ofu"):  # a lower clock proves more
        node = slow.shown_node
        who = node if slow.gpu is None else f"GPU {slow.gpu} of {node}"
        if not subjects & {node, who}:
            subjects.add(who)
            yield _slow(slow, who)


def _slow(slow: SlowRow, who: str) -> Action:
    """A lower clock is a fault of the node. Less work may be: in a job that waits for all its ranks, all do the same
    work in the same time, unless it gives some of them less."""
    beside = f"In {counted(slow.hours, 'hour')} of {counted(len(slow.jobs), 'job')}"
    if slow.compared == "sm_clock":
        return Action(
            who=who,
            what=f"ran at a clock {share(slow.slower)} below that of its peers",
            why=f"{beside}; a job that waits for all its ranks runs at its pace.",
            next="Drain it, and look at its power, temperature and links.",
            link="docs/changes.md",
        )
    return Action(
        who=who,
        what=f"did {share(slow.slower)} less than its peers",
        why=f"{beside}; their division of work may be the reason.",
        next="Run it in the middle of another job: only if it does less there too, drain it, and look at its ECC, PCIe "
        "and NVLink errors.",
        link="docs/changes.md",
    )


@action
def traced(report: FleetReport) -> Iterator[Action]:
    """Jobs whose traces name one thing that costs them much."""
    proven = (row for row in report.jobs if row.finding and _ratio(row) >= LEAST_RATIO)
    for rows in by_name(proven):
        worst = max(rows, key=_ratio)
        lost = sum(row.observed_gpu_hours * _ratio(row) for row in rows)
        meaning, remedy = _explained(worst.finding)
        yield Action(
            who=jobs_named(rows),
            what=f"lost up to {share(worst.finding_ratio)} of the traced time ({worst.finding})",
            why=f"{meaning}Traces prove it; the hours are those if all of the time is like that.",
            next=f"{remedy} {command(report, worst)} shows the job.",
            link="docs/where.md",
            rows=rows,
            gpu_hours=lost,
            cost=price_of(rows, lost),
        )


def _explained(finding: str | None) -> tuple[str, str]:
    """What a finding means, and what helps; one of a newer agent may not be known."""
    for kind in findings.kinds():
        if kind.name == finding:
            return f"{kind.meaning} ", f"What helps: {kind.remedy}"
    return "", "docs/where.md says what helps."


def _ratio(row: JobRow) -> float:
    return row.finding_ratio or 0.0


@action
def wrong_number(report: FleetReport) -> Iterator[Action]:
    """Jobs that report an MFU above what their GPUs did."""
    for rows in by_name(row for row in report.jobs if is_flagged(row)):
        first = rows[0]
        likeliest = f" {likeliest_words(first)}".rstrip()
        numbers = f"--mfu {share(first.mfu)} --ofu {share(first.ofu_compared)}"
        yield Action(
            who=jobs_named(rows),
            what="reported an MFU that the GPUs cannot have done",
            why=f"MFU {share(first.mfu)}, {points(first.error)} points above OFU.{likeliest} "
            "No hours are lost, but plans are made by this number.",
            next=f"Correct the count: `ofu-exporter explain {numbers}` says how.",
            link="docs/explain.md",
            rows=rows,
        )


def price_of(rows: Iterable[JobRow], hours: float) -> float | None:
    """What these GPU-hours of some jobs cost at their mean price; None where one is not known."""
    cost = held_hours = 0.0
    for row in rows:
        if row.cost is None:
            return None
        cost, held_hours = cost + row.cost, held_hours + row.held_gpu_hours
    return hours * cost / held_hours if held_hours else None


def jobs_named(rows: Sequence[JobRow]) -> str:
    """One job, or some of one name with their count."""
    first = rows[0]
    name = f"{first.job_name or f'job {first.shown_name}'}{_whose(first)}"
    return name if len(rows) == 1 else f"{name}, {len(rows):,} jobs"


def _gpus(rows: Sequence[JobRow]) -> str:
    """How many GPUs one job had."""
    return gpu_count(rows[0].gpus) if len(rows) == 1 and rows[0].gpus else "GPUs"


def _whose(row: JobRow) -> str:
    return f" of {row.user}" if row.user else ""


def by_name(rows: Iterable[JobRow]) -> list[list[JobRow]]:
    """Jobs of one name, user and cluster together; one without a name stands alone."""
    groups: dict[tuple[str, ...], list[JobRow]] = {}
    for row in rows:
        key = (row.cluster, row.user, row.job_name or f"\0{row.job_id}")
        groups.setdefault(key, []).append(row)
    return list(groups.values())
