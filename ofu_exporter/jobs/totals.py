"""A job's totals as JSON, which the API answers with, the state file keeps and a summary is made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, computed_field

from ofu_exporter.ofu import divergence
from ofu_exporter.ofu.job_state import STEP, JobState
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import GpuUsage, Job
from ofu_exporter.values.reported import Adjusted, Causes, Compared, ReportsView, Verdict
from ofu_exporter.values.snapshot import JobView

PERCENTILES = (10, 50, 90)


class GpuTotals(BaseModel):
    """What one job had of one GPU."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    gpu: str
    uuid: str
    gpu_instance: str = ""
    node: str = ""
    held_seconds: NonNegativeFloat
    observed_seconds: NonNegativeFloat
    utilization_seconds: NonNegativeFloat
    waiting_seconds: NonNegativeFloat | None = None
    """Part of the held time in which no program of the job had started; None where nobody says whether one had."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def utilization_ratio(self) -> float | None:
        """Mean OFU; None when nothing was observed."""
        return _ratio(self.utilization_seconds, self.observed_seconds)

    @property
    def key(self) -> GpuKey:
        return (self.uuid, self.gpu_instance)


class ReportedMfu(BaseModel):
    """What a job reported of itself, and how it compares with OFU over the same seconds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    mfu_seconds: NonNegativeFloat = 0.0
    """Integral of the reported MFU over the compared GPU-seconds."""
    utilization_seconds: NonNegativeFloat = 0.0
    """Integral of OFU over the same GPU-seconds."""
    gpu_seconds: NonNegativeFloat = 0.0
    """GPU-seconds that a report and OFU both cover."""
    variance: NonNegativeFloat = 0.0
    """Variance of the utilization seconds; s^2."""
    last: float | None = None
    """Unix time up to which the job has reported."""
    peak_flops: float | None = None
    """Dense peak of one GPU that the MFU divides by."""
    precision: dict[str, float] | None = None
    """Shares of the FLOPs that the job reported, and that this peak is for."""
    recent_mfu_ratio: float | None = None
    """Mean reported MFU over the last minutes."""
    recent_verdict: Verdict = Verdict.INSUFFICIENT_DATA
    """Verdict on the last minutes."""
    verdict: Verdict = Verdict.INSUFFICIENT_DATA
    """Verdict on all that was compared; of several nodes together by the default thresholds."""
    causes: Causes | None = None
    """Causes of the recent verdict."""
    outcomes: dict[str, int] = Field(default_factory=dict)
    """Reports by what became of them."""
    adjusted: Adjusted | None = None
    """None where the job has not reported what tiles add."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def mfu_ratio(self) -> float | None:
        """Mean reported MFU; None where no OFU was observed beside it."""
        return _ratio(self.mfu_seconds, self.gpu_seconds)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def utilization_ratio(self) -> float | None:
        """Mean OFU over the same GPU-seconds."""
        return _ratio(self.utilization_seconds, self.gpu_seconds)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def adjusted_utilization_ratio(self) -> float | None:
        """Mean OFU without what tiles add, since that is known; at most so much where the overhead is a lower bound."""
        sums = self.adjusted
        return _ratio(sums.utilization_seconds, sums.gpu_seconds) if sums else None


class JobTotals(BaseModel):
    """What is known of one job, on one node or, merged, on several."""

    model_config = ConfigDict(frozen=True, extra="ignore")

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
    nodes: tuple[str, ...] = ()
    """The nodes whose totals these are."""
    simulated: bool = False
    began: float
    """Unix time at which the job was first seen; the next two are Unix times as well."""
    ended: float | None = None
    updated: float
    gpus: tuple[GpuTotals, ...] = ()
    distribution: dict[int, NonNegativeFloat] = Field(default_factory=dict)
    """Observed seconds by the OFU of their window, in steps of half a percentage point."""
    reported: ReportedMfu | None = None
    """None where the job has reported nothing."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def utilization_ratio(self) -> float | None:
        """Mean OFU over all observed GPU-seconds; None when nothing was observed."""
        return _ratio(_sum(gpu.utilization_seconds for gpu in self.gpus), self.gpu_seconds)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def gpu_seconds(self) -> float:
        """GPU-seconds in which OFU was measured."""
        return _sum(gpu.observed_seconds for gpu in self.gpus)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def observed_ratio(self) -> float | None:
        """Share of the time for which the job had its GPUs, without that before it ran, in which OFU was measured."""
        ran = _sum(gpu.held_seconds - (gpu.waiting_seconds or 0.0) for gpu in self.gpus)
        return _ratio(self.gpu_seconds, ran)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def waiting_gpu_seconds(self) -> float | None:
        """GPU-seconds for which the job had GPUs before a program of it started; None where nobody says."""
        known = [gpu.waiting_seconds for gpu in self.gpus if gpu.waiting_seconds is not None]
        return _sum(known) if known else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def window_percentiles(self) -> dict[str, float]:
        """OFU that a window stayed below in 10, 50 and 90 % of the observed time."""
        if not self.distribution:
            return {}
        return {f"p{percent}": self._percentile(percent) for percent in PERCENTILES}

    def _percentile(self, percent: int) -> float:
        ordered = sorted(self.distribution.items())
        wanted = percent / 100 * _sum(self.distribution.values())
        passed = 0.0
        for step, seconds in ordered:
            passed += seconds
            if passed >= wanted:
                return step * STEP
        return ordered[-1][0] * STEP


def totals_of(view: JobView, node: str, simulated: bool) -> JobTotals:
    """A job's totals on this node."""
    job = view.job
    return JobTotals(
        scheduler=job.scheduler,
        job_id=job.job_id,
        job_name=job.name,
        user=job.user,
        account=job.account,
        partition=job.partition,
        namespace=job.namespace,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id,
        uid=job.uid,
        nodes=(node,),
        simulated=simulated,
        began=view.began,
        ended=view.ended,
        updated=view.updated,
        gpus=tuple(
            GpuTotals(
                gpu=usage.index,
                uuid=usage.key[0],
                gpu_instance=usage.key[1],
                node=node,
                held_seconds=usage.held_seconds,
                observed_seconds=usage.observed_seconds,
                utilization_seconds=usage.utilization_seconds,
                waiting_seconds=usage.waiting_seconds,
            )
            for usage in view.usage
        ),
        distribution=dict(view.distribution),
        reported=None if view.reports is None else _reported(view.reports),
    )


def _reported(reports: ReportsView) -> ReportedMfu:
    return ReportedMfu(
        **reports.total._asdict(),
        last=reports.at,
        peak_flops=reports.peak_flops,
        precision=None if reports.precision is None else dict(reports.precision),
        recent_mfu_ratio=reports.mfu,
        recent_verdict=reports.verdict,
        verdict=reports.total_verdict,
        causes=reports.causes,
        outcomes=dict(reports.outcomes),
        adjusted=reports.adjusted,
    )


def resumed(job: JobTotals, monotonic: float) -> JobState:
    """The state of a job as an earlier agent left it; the job counts as ended until a scheduler claims it."""
    return JobState(
        job=Job(
            scheduler=job.scheduler,
            job_id=job.job_id,
            name=job.job_name,
            user=job.user,
            account=job.account,
            partition=job.partition,
            namespace=job.namespace,
            array_job_id=job.array_job_id,
            array_task_id=job.array_task_id,
            uid=job.uid,
        ),
        began=job.began,
        usage={
            gpu.key: GpuUsage(
                index=gpu.gpu,
                key=gpu.key,
                held_seconds=gpu.held_seconds,
                observed_seconds=gpu.observed_seconds,
                utilization_seconds=gpu.utilization_seconds,
                waiting_seconds=gpu.waiting_seconds,
            )
            for gpu in job.gpus
        },
        distribution=dict(job.distribution),
        ended=job.updated,
        ended_at=monotonic,
        unseen_since=job.updated,
    )


def merged(parts: Sequence[JobTotals]) -> JobTotals:
    """One job's totals on several nodes or in several runs as one; `parts` must not be empty."""
    latest = max(parts, key=lambda one: one.updated)
    gpus: dict[GpuKey, GpuTotals] = {}
    distribution: dict[int, float] = {}
    for one in parts:
        for gpu in one.gpus:
            gpus[gpu.key] = _added(gpus[gpu.key], gpu) if gpu.key in gpus else gpu
        for step, seconds in one.distribution.items():
            distribution[step] = distribution.get(step, 0.0) + seconds
    running = any(one.ended is None for one in parts)
    return latest.model_copy(
        update={
            "nodes": tuple(dict.fromkeys(node for one in parts for node in one.nodes)),
            "simulated": any(one.simulated for one in parts),
            "began": min(one.began for one in parts),
            "ended": None if running else max(one.ended or 0.0 for one in parts),
            "gpus": tuple(gpus.values()),
            "distribution": distribution,
            "reported": _merged_reported([one.reported for one in parts if one.reported]),
        }
    )


def _merged_reported(parts: Sequence[ReportedMfu]) -> ReportedMfu | None:
    """Sums are added; what describes a moment is from the part with the last report."""
    if not parts:
        return None
    ordered = sorted(parts, key=lambda one: one.last or 0.0)
    latest = ordered[-1]
    if len(parts) == 1:
        return latest
    outcomes: Counter[str] = Counter()
    for one in parts:
        outcomes.update(one.outcomes)
    sums = {name: _sum(getattr(one, name) for one in parts) for name in Compared._fields}
    verdict = divergence.verdict(Compared(**sums))
    adjusted = _merged_adjusted([one.adjusted for one in ordered if one.adjusted])
    return latest.model_copy(
        update={**sums, "outcomes": dict(outcomes), "verdict": verdict, "adjusted": adjusted}
    )


def _merged_adjusted(parts: Sequence[Adjusted]) -> Adjusted | None:
    """Sums are added, the overhead is the last one; one lower bound makes the whole a lower bound."""
    if not parts:
        return None
    return replace(
        parts[-1],
        bound="lower" if any(one.bound == "lower" for one in parts) else parts[-1].bound,
        utilization_seconds=_sum(one.utilization_seconds for one in parts),
        gpu_seconds=_sum(one.gpu_seconds for one in parts),
    )


def _added(first: GpuTotals, second: GpuTotals) -> GpuTotals:
    known = [one.waiting_seconds for one in (first, second) if one.waiting_seconds is not None]
    sums = {
        name: getattr(first, name) + getattr(second, name)
        for name in ("held_seconds", "observed_seconds", "utilization_seconds")
    }
    return second.model_copy(update={**sums, "waiting_seconds": _sum(known) if known else None})


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator > 0 else None


def _sum(values: Iterable[float]) -> float:
    return math.fsum(values)
