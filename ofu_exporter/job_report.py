"""A job's totals as JSON: what the API answers, the state file keeps and a summary is made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, computed_field

from ofu_exporter.jobs import STEP, JobState
from ofu_exporter.records import GpuKey, GpuUsage, Job, JobView

PERCENTILES = (10, 50, 90)


class GpuReport(BaseModel):
    """What one job had of one GPU."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    gpu: str
    uuid: str
    gpu_instance: str = ""
    node: str = ""
    held_seconds: NonNegativeFloat
    observed_seconds: NonNegativeFloat
    utilization_seconds: NonNegativeFloat

    @computed_field  # type: ignore[prop-decorator]
    @property
    def utilization_ratio(self) -> float | None:
        """Mean OFU; None when nothing was observed."""
        return _ratio(self.utilization_seconds, self.observed_seconds)

    @property
    def key(self) -> GpuKey:
        return (self.uuid, self.gpu_instance)


class JobReport(BaseModel):
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
    """The nodes that this report speaks of."""
    simulated: bool = False
    began: float
    """Unix time at which the job was first seen, here and below."""
    ended: float | None = None
    updated: float
    gpus: tuple[GpuReport, ...] = ()
    distribution: dict[int, NonNegativeFloat] = Field(default_factory=dict)
    """Observed seconds by the OFU of their window, in steps of half a percentage point."""

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
        """Share of the time for which the job had its GPUs in which OFU was measured."""
        return _ratio(self.gpu_seconds, _sum(gpu.held_seconds for gpu in self.gpus))

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


def report(view: JobView, node: str, simulated: bool) -> JobReport:
    """What this node says of a job."""
    job = view.job
    return JobReport(
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
            GpuReport(
                gpu=usage.index,
                uuid=usage.key[0],
                gpu_instance=usage.key[1],
                node=node,
                held_seconds=usage.held_seconds,
                observed_seconds=usage.observed_seconds,
                utilization_seconds=usage.utilization_seconds,
            )
            for usage in view.usage
        ),
        distribution=dict(view.distribution),
    )


def resumed(job: JobReport, monotonic: float) -> JobState:
    """A job to go on with as an earlier agent left it; it counts as ended until it is claimed."""
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
            )
            for gpu in job.gpus
        },
        distribution=dict(job.distribution),
        ended=job.updated,
        ended_at=monotonic,
        unseen_since=job.updated,
    )


def merged(reports: Sequence[JobReport]) -> JobReport:
    """Several reports of one job, of other nodes or of earlier runs, as one; they must not be empty."""
    latest = max(reports, key=lambda one: one.updated)
    gpus: dict[GpuKey, GpuReport] = {}
    distribution: dict[int, float] = {}
    for one in reports:
        for gpu in one.gpus:
            gpus[gpu.key] = _added(gpus[gpu.key], gpu) if gpu.key in gpus else gpu
        for step, seconds in one.distribution.items():
            distribution[step] = distribution.get(step, 0.0) + seconds
    running = any(one.ended is None for one in reports)
    return latest.model_copy(
        update={
            "nodes": tuple(dict.fromkeys(node for one in reports for node in one.nodes)),
            "simulated": any(one.simulated for one in reports),
            "began": min(one.began for one in reports),
            "ended": None if running else max(one.ended or 0.0 for one in reports),
            "gpus": tuple(gpus.values()),
            "distribution": distribution,
        }
    )


def _added(first: GpuReport, second: GpuReport) -> GpuReport:
    return second.model_copy(
        update={
            name: getattr(first, name) + getattr(second, name)
            for name in ("held_seconds", "observed_seconds", "utilization_seconds")
        }
    )


def one_line(job: JobReport, of_nodes: int | None = None) -> str:
    """The summary as `key=value` words, for a field such as Slurm's AdminComment.

    `of_nodes` is how many nodes were asked, where some may not have answered.
    """
    percentiles = {name: _percent(value) for name, value in job.window_percentiles.items()}
    words = {
        "ofu": _percent(job.utilization_ratio),
        **percentiles,
        "gpus": str(len(job.gpus)),
        "gpu_hours": f"{job.gpu_seconds / 3600:.2f}",
        "observed": _percent(job.observed_ratio),
        "nodes": f"{len(job.nodes)}/{of_nodes}" if of_nodes else str(len(job.nodes)),
        **({"simulated": "yes"} if job.simulated else {}),
    }
    return " ".join(f"{name}={value}" for name, value in words.items())


def text(job: JobReport) -> str:
    """The summary for people."""
    about = [
        f"{label} {value}"
        for label, value in (
            ("name", job.job_name),
            ("user", job.user),
            ("account", job.account),
            ("partition", job.partition),
            ("array", f"{job.array_job_id}_{job.array_task_id}" if job.array_job_id else ""),
        )
        if value
    ]
    state = "ended" if job.ended is not None else "running"
    lines = [
        f"Job {job.job_id}{''.join(', ' + word for word in about)} ({state})"
        + (" SIMULATED, no GPU was measured" if job.simulated else ""),
        f"OFU {_percent(job.utilization_ratio)} over {job.gpu_seconds / 3600:.2f} GPU-hours, "
        f"{_percent(job.observed_ratio)} of the time it had {len(job.gpus)} "
        f"GPU{'s' if len(job.gpus) != 1 else ''} on {', '.join(job.nodes)}",
    ]
    if job.window_percentiles:
        shares = ", ".join(
            f"{name} {_percent(value)}" for name, value in job.window_percentiles.items()
        )
        lines.append(f"OFU of its windows: {shares}")
    lines += [_gpu_line(gpu) for gpu in job.gpus]
    return "\n".join(lines)


def _gpu_line(gpu: GpuReport) -> str:
    instance = f"/{gpu.gpu_instance}" if gpu.gpu_instance else ""
    return (
        f"  {gpu.node} GPU {gpu.gpu}{instance} ({gpu.uuid}): OFU {_percent(gpu.utilization_ratio)}, "
        f"observed {gpu.observed_seconds:.0f} of {gpu.held_seconds:.0f} s"
    )


def _percent(ratio: float | None) -> str:
    return "none" if ratio is None else f"{100 * ratio:.1f}%"


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator > 0 else None


def _sum(values: Iterable[float]) -> float:
    return math.fsum(values)
