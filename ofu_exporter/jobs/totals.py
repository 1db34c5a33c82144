"""A job's totals as JSON, which the API serves, the state file keeps and summaries are made from."""

from __future__ import annotations

import functools
import itertools
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Literal

from pydantic import BaseModel, Field, NonNegativeFloat, NonNegativeInt, computed_field

from ofu_exporter.jobs.gpu_totals import GpuTotals, RunTotals, UnixTime, of_sums
from ofu_exporter.jobs.reported_mfu import ReportedMfu, merged_reported
from ofu_exporter.jobs.served_totals import ServedTotals, merged_served
from ofu_exporter.ofu.ownership.job_state import DISTRIBUTION_STEP, JobState
from ofu_exporter.ofu.ownership.starting import MOST_STARTS, settled, so_far
from ofu_exporter.support.percent import ratio
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.instant import Instant, Span
from ofu_exporter.values.job import GpuUsage, Job, Run, Start
from ofu_exporter.values.losses import NO_LOSSES, LossSums, known_sum
from ofu_exporter.values.reported import Reported, ReportsView
from ofu_exporter.values.snapshot import JobView

PERCENTILES = (10, 50, 90)
_JOB_FIELDS = (
    *("scheduler", "job_id", "user", "account", "partition", "namespace"),
    *("array_job_id", "array_task_id", "uid", "aliases"),
)
_VIEW_FIELDS = ("began", "held_since", "ended", "updated", "restarts")
_SECONDS = (
    *("held_seconds", "observed_seconds", "utilization_seconds"),
    *("waiting_seconds", "shared_seconds"),
)
_REPORTED = tuple(each.name for each in fields(Reported))
"""Fields that have the same name where they come from."""


class JobTotals(BaseModel, frozen=True, extra="ignore", allow_inf_nan=False):
    """What is known of one job, on one node or, merged, on several."""

    version: Literal[1] = 1
    scheduler: str
    job_id: str
    job_name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    namespace: str = ""
    array_job_id: str = ""
    array_task_id: str = ""
    uid: str = ""
    aliases: tuple[str, ...] = ()
    """Other ids under which the job may report: those of its pods."""
    nodes: tuple[str, ...] = ()
    """The nodes whose totals these are."""
    simulated: bool = False
    began: UnixTime
    """Unix time at which the job was first seen; the next two are Unix times as well."""
    ended: UnixTime | None = None
    updated: UnixTime
    held_since: UnixTime | None = None
    """Unix time since which its GPUs were counted as held, where that is before it was seen."""
    gpus: tuple[GpuTotals, ...] = ()
    runs: tuple[RunTotals, ...] = ()
    """Every run that the totals cover, on every node, in the order in which they began."""
    distribution: dict[int, NonNegativeFloat] = Field(default_factory=dict)
    """Observed GPU-seconds by the OFU of their window, in steps of half a percentage point."""
    reported: ReportedMfu | None = None
    """None where the job has reported nothing."""
    starting_seconds: NonNegativeFloat | None = None
    """Measured GPU-seconds before runs did lasting tensor work or stated a step; None where no start was watched."""
    is_starting: bool = False
    starts: tuple[tuple[float, float | None], ...] = ()
    """Unix times of its last starts that were watched: from and until; null while one lasts."""
    restarts: NonNegativeInt = 0
    """How often it was started again, as far as its scheduler and the agents know."""
    served: tuple[ServedTotals, ...] = ()
    """What its pulled engines served, by model."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def utilization_ratio(self) -> float | None:
        """Mean OFU over all observed GPU-seconds; None when nothing was observed."""
        return ratio(math.fsum(gpu.utilization_seconds for gpu in self.gpus), self.gpu_seconds)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def gpu_seconds(self) -> float:
        """GPU-seconds in which OFU was measured."""
        return math.fsum(gpu.observed_seconds for gpu in self.gpus)

    @property
    def sums(self) -> LossSums:
        """Where the rest of the peak went, over all GPUs."""
        return functools.reduce(LossSums.plus, (gpu.sums for gpu in self.gpus), NO_LOSSES)

    @property
    def gpu_count(self) -> float:
        """How many GPUs the job's last run had; a MIG instance is a part of one."""
        return math.fsum(gpu.share_ratio for gpu in self.gpus if gpu.in_last_run)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def observed_ratio(self) -> float | None:
        """Share of the held time in which OFU was measured; what it waited or was not alone does not count as held
        here."""
        return ratio(self.gpu_seconds, math.fsum(gpu.ran_seconds for gpu in self.gpus))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def memory_ratio(self) -> float | None:
        """Share of the cycles in which its GPUs' memory moved data; None where nobody counts them."""
        memory = self.sums.memory
        return memory and ratio(memory.busy_seconds, memory.seconds)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def memory_bytes_per_second(self) -> float | None:
        """What the memory of one GPU moved, the mean, by that share; None where a GPU's bandwidth is not known."""
        memory = self.sums.memory
        if memory is None or memory.moved_bytes is None:
            return None
        return ratio(memory.moved_bytes, memory.seconds)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def waiting_gpu_seconds(self) -> float | None:
        """GPU-seconds for which the job had GPUs before a program of it started; None where nobody says."""
        return known_sum(gpu.waiting_seconds for gpu in self.gpus)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def shared_gpu_seconds(self) -> float | None:
        """GPU-seconds for which the job had GPUs together with other jobs; None where it never did."""
        return known_sum(gpu.shared_seconds for gpu in self.gpus)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def window_percentiles(self) -> dict[str, float]:
        """Percentiles: in 10, 50 and 90 % of the observed time, the OFU of a window was below them."""
        if not self.distribution:
            return {}
        return {f"p{percent}": self._percentile(percent) for percent in PERCENTILES}

    def _percentile(self, percent: int) -> float:
        steps = sorted(self.distribution)
        passed = list(itertools.accumulate(self.distribution[step] for step in steps))
        wanted = percent / 100 * math.fsum(self.distribution.values())
        return steps[min(bisect_left(passed, wanted), len(steps) - 1)] * DISTRIBUTION_STEP


def totals_of(view: JobView, node: str, simulated: bool) -> JobTotals:
    """A job's totals on this node."""
    return JobTotals(
        **_copied(view.job, _JOB_FIELDS),
        job_name=view.job.name,
        nodes=(node,),
        simulated=simulated,
        **_copied(view, _VIEW_FIELDS),
        starting_seconds=(so_far if view.ended is None else settled)(view.start).seconds,
        starts=view.starts,
        is_starting=view.start.is_open and view.ended is None,
        gpus=tuple(
            GpuTotals(
                gpu=usage.index,
                uuid=usage.key.uuid,
                gpu_instance=usage.key.instance,
                node=node,
                share_ratio=usage.share,
                in_last_run=usage.in_last_run,
                **_copied(usage, _SECONDS),
                **of_sums(usage.sums),
            )
            for usage in view.usage.values()
        ),
        runs=tuple(RunTotals(node=node, **run._asdict()) for run in view.runs),
        distribution=dict(view.distribution),
        reported=_reported(view.reports) if view.reports else None,
    )


def _reported(view: ReportsView) -> ReportedMfu:
    return ReportedMfu(**view.total._asdict(), **_copied(view, _REPORTED))


def resumed_job(job: JobTotals, now: Instant) -> JobState:
    """The state of a job as an earlier agent left it; the job counts as ended until a scheduler claims it."""
    runs = [Run(**_copied(run, Run._fields)) for run in job.runs]
    worked = runs[-1].worked_since if runs else None
    return JobState(
        job=Job(**_copied(job, _JOB_FIELDS), name=job.job_name),
        began=job.began,
        held_since=job.held_since,
        earlier=tuple(runs[:-1]),
        run_began=runs[-1].began if runs else None,
        usage={
            gpu.key: GpuUsage(
                index=gpu.gpu,
                key=gpu.key,
                **_copied(gpu, _SECONDS),
                share=gpu.share_ratio,
                in_last_run=gpu.in_last_run,
                sums=gpu.sums,
            )
            for gpu in job.gpus
        },
        distribution=dict(job.distribution),
        ended=job.updated if job.ended is None else job.ended,
        ended_at=now.monotonic if job.ended is None else now.at_unix(job.ended).monotonic,
        unseen_since=job.updated if job.ended is None else None,
        start=_start(job, worked, now),
        restarts=job.restarts,
    )


def _start(job: JobTotals, worked: float | None, now: Instant) -> Start:
    """Its starts; the last one goes on if it had not ended."""
    last, before = job.starts[-1:], job.starts[:-1]
    return Start(
        job.starting_seconds,
        job.is_starting,
        worked and now.at_unix(worked).monotonic,
        since=last[0][0] if last else None,
        earlier=tuple(Span(since, since if until is None else until) for since, until in before),
    )


def _copied(source: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def merged(totals: Sequence[JobTotals]) -> JobTotals:
    """One job's totals on several nodes or in several runs as one; `totals` must not be empty."""
    latest = max(totals, key=lambda one: one.updated)
    distribution: dict[int, float] = {}
    runs = [run for one in totals for run in one.runs]
    for one in totals:
        for step, seconds in one.distribution.items():
            distribution[step] = distribution.get(step, 0.0) + seconds
    running = any(one.ended is None for one in totals)
    reported = [one.reported for one in totals if one.reported]
    whole = latest.model_copy(
        update={
            "nodes": tuple(dict.fromkeys(node for one in totals for node in one.nodes)),
            "simulated": any(one.simulated for one in totals),
            "began": min(one.began for one in totals),
            "held_since": min((at for one in totals if (at := one.held_since)), default=None),
            "ended": None if running else max(one.ended or 0.0 for one in totals),
            "gpus": tuple(_gpus(totals, max((run.began for run in runs), default=-math.inf))),
            "runs": tuple(sorted(runs, key=lambda run: (run.began, run.node))),
            "distribution": distribution,
            "starting_seconds": known_sum(one.starting_seconds for one in totals),
            "is_starting": any(one.is_starting for one in totals),
            "starts": _last_starts(totals),
            "restarts": max(one.restarts for one in totals),
        }
    )
    of_reports = merged_reported(reported, min(whole.gpu_count, 1.0))
    served = merged_served(each for one in totals for each in one.served)
    return whole.model_copy(update={"reported": of_reports, "served": served})


def _gpus(totals: Sequence[JobTotals], last_began: float) -> Iterable[GpuTotals]:
    """Each GPU once; `last_began` is when the last run of all began."""
    gpus: dict[GpuKey, GpuTotals] = {}
    for one in totals:
        is_last = not one.runs or one.ended is None or one.ended > last_began
        for each in one.gpus:
            gpu = each.model_copy(update={"in_last_run": each.in_last_run and is_last})
            gpus[gpu.key] = _added(gpus[gpu.key], gpu) if gpu.key in gpus else gpu
    return gpus.values()


def _last_starts(totals: Sequence[JobTotals]) -> tuple[tuple[float, float | None], ...]:
    starts = {each for one in totals for each in one.starts}
    return tuple(sorted(starts, key=lambda each: each[0])[-MOST_STARTS:])


def _added(first: GpuTotals, second: GpuTotals) -> GpuTotals:
    sums = {
        name: getattr(first, name) + getattr(second, name)
        for name in ("held_seconds", "observed_seconds", "utilization_seconds")
    }
    both = (first, second)
    known_sums = {
        "waiting_seconds": known_sum(one.waiting_seconds for one in both),
        "shared_seconds": known_sum(one.shared_seconds for one in both),
    }
    losses = of_sums(first.sums.plus(second.sums))
    last = {"in_last_run": first.in_last_run or second.in_last_run}
    return second.model_copy(update={**sums, **known_sums, **losses, **last})
