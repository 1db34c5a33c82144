"""Describes a whole node as JSON in one answer: its sources, GPUs and jobs, as `ofu-exporter top` shows them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from pydantic import BaseModel, Field

from ofu_exporter import __version__
from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.history import GPU_STEP_SECONDS, History
from ofu_exporter.values.gpu import Rating
from ofu_exporter.values.losses import Bottleneck, Bounds, Loss, Losses
from ofu_exporter.values.reading import Window
from ofu_exporter.values.reported import LikelyCause, Verdict
from ofu_exporter.values.snapshot import GpuView, JobView, Snapshot, SourceHealth


class WindowJson(BaseModel, allow_inf_nan=False):
    """The last window. null = not measured."""

    seconds: float
    utilization_ratio: float | None = Field(description="OFU.")
    stderr_ratio: float | None = Field(description="Its standard error.")
    overstated_ratio: float = Field(
        default=0.0,
        description="By how much the OFU may be too high besides: NVML's clock can be up to 13 % too high, and this "
        "window has no cycle counters.",
    )
    tensor_active_ratio: float | None
    sm_clock_hz: float | None
    clock_method: str = Field(description="cycles, polled or point.")
    clock_limits: tuple[str, ...] | None = Field(
        default=None, description="What held the SM clock down at its end; null = nobody says."
    )
    lost_ratio: dict[Loss, float] = Field(
        default_factory=dict,
        description="Where the rest of the peak went, by part; with the OFU it adds up to 1. clock is negative where "
        "the pipes ran above the tensor clock.",
    )
    lost_is_estimate: bool = Field(
        default=False,
        description="Whether the card counts in turns, so that these parts are of other instants.",
    )
    no_tensor_bounds: dict[Bottleneck, Bounds] = Field(
        default_factory=dict,
        description="The smallest and the largest share of the window that each cause may have in no_tensor.",
    )
    activity: dict[str, float] = Field(
        default_factory=dict,
        description="What else was measured: shares 0..1, bytes per second of the links, joules.",
    )


class GpuJson(BaseModel, frozen=True, allow_inf_nan=False):
    """One GPU, or one MIG instance of it."""

    gpu: str = Field(description="Index on the node.")
    uuid: str
    gpu_instance: str
    name: str
    simulated: bool = Field(description="Whether the values are made up and no GPU was measured.")
    mig_uuid: str = Field(description="Name of the MIG instance in CUDA; empty for a whole GPU.")
    share_ratio: float = Field(
        gt=0, le=1, description="Part of a whole GPU that it counts as in sums."
    )
    share_basis: str = Field(description="What that goes by: whole, slices or instances.")
    sampled: float | None = Field(
        description="Unix time at which the last window with an OFU ended."
    )
    jobs: tuple[str, ...] = Field(description="Ids of the jobs that have it now.")
    unavailable: str | None = Field(description="Why OFU is not measured; null while it is.")
    detail: str = Field(description="More of why, such as the row of an unknown model to write.")
    utilization_seconds: float = Field(description="Integral of OFU over the observed GPU-seconds.")
    observed_seconds: float = Field(
        description="GPU-seconds in which OFU was measured: time x share."
    )
    lost_seconds: dict[Loss, float] = Field(
        default_factory=dict, description="Observed GPU-seconds in which the peak was not used."
    )
    gained_seconds: float = Field(
        default=0.0, description="What the tensor pipes gained above the tensor clock."
    )
    energy_joules: float | None = Field(
        default=None, description="In the observed time, by the card's own counter."
    )
    tensor_clock_hz: dict[str, float] = Field(description="By clock domain.")
    peak_flops: dict[str, float] = Field(description="Dense FLOP/s by precision.")
    window: WindowJson | None


def gpu_state(view: GpuView, snapshot: Snapshot) -> GpuJson:
    rating = view.rating
    return GpuJson(
        gpu=view.gpu.index,
        uuid=view.gpu.uuid,
        gpu_instance=view.gpu.instance,
        name=view.gpu.name,
        simulated=_is_simulated(view, snapshot),
        mig_uuid=view.gpu.mig_uuid,
        share_ratio=view.share.ratio,
        share_basis=view.share.basis,
        sampled=None if view.sampled_at is None else snapshot.unix_at(view.sampled_at),
        jobs=tuple(job.job_id for job in view.holders),
        unavailable=None if view.reason is None else view.reason.value,
        detail=view.detail if view.reason is not None else "",
        utilization_seconds=view.utilization_seconds,
        observed_seconds=view.observed_seconds,
        lost_seconds=dict(view.sums.lost),
        gained_seconds=view.sums.gained,
        energy_joules=view.sums.energy_joules,
        tensor_clock_hz=dict(rating.tensor_clock_hz) if rating else {},
        peak_flops=dict(rating.peak_flops) if rating else {},
        window=None if view.window is None else _window(view.window, rating),
    )


def _window(window: Window, rating: Rating | None) -> WindowJson:
    return WindowJson(
        seconds=window.seconds,
        utilization_ratio=window.utilization,
        stderr_ratio=window.stderr,
        overstated_ratio=window.overstated,
        tensor_active_ratio=window.tensor_active,
        sm_clock_hz=window.sm_clock_hz,
        clock_method=window.clock_method,
        clock_limits=None
        if window.clock_limits is None
        else tuple(limit.value for limit in window.clock_limits),
        lost_ratio=dict(window.losses),
        lost_is_estimate=bool(rating and rating.counts_in_turns and _splits(window.losses)),
        no_tensor_bounds={
            bottleneck: Bounds(*(each / window.gpu_seconds for each in bounds))
            for bottleneck, bounds in window.sums.bottlenecks.items()
        },
        activity={
            name: value for name, value in window.activity._asdict().items() if value is not None
        },
    )


def _splits(losses: Losses) -> bool:
    """Whether the parts come from more counters than that of the tensor pipes."""
    return bool(losses) and Loss.WITHOUT_TENSOR not in losses


def _is_simulated(view: GpuView, snapshot: Snapshot) -> bool:
    """Whether the source that reads a GPU makes up its values; the first source reads what names no other."""
    others = (health for health in snapshot.other_sources if health.name == view.source)
    return next(others, snapshot.source).simulated


IDLE_RATIO = 0.001
"""Below this OFU a GPU did no tensor work to speak of."""
GPU_GROUP, JOB_GROUP = 6, 2
"""Steps of the history that make one minute of `last_hour`."""
MOST_POINTS = 360
"""Most points that a reader takes; there are 60."""
JOB_TEXTS = ("scheduler", "job_id", "user", "account", "partition", "namespace")
MINUTES = "OFU of each minute of the last hour, oldest first; null where nothing was measured."


class SourceJson(BaseModel):
    """A source that GPUs are read through, or that was tried."""

    source: str
    up: bool
    simulated: bool
    recorded: str = Field(default="", description="The recording that is played; empty = none.")
    reason: str | None = Field(description="Why it cannot be read; null while it is.")
    detail: str
    advice: str = Field(description="What to do about the reason.")


class NodeGpu(GpuJson, frozen=True):
    """One GPU or MIG instance, with its last hour."""

    profile: str = Field(description="MIG profile.")
    driver: str
    source: str
    advice: str = Field(description="What to do where it is not measured.")
    idle_seconds: float | None = Field(
        description="How long it has done no tensor work, an hour at most; null = not measured now."
    )
    last_hour: list[float | None] = Field(max_length=MOST_POINTS, description=MINUTES)


class NodeJob(BaseModel, allow_inf_nan=False):
    """One job on this node, in short; /v1/jobs/{job_id} has all of it."""

    scheduler: str
    job_id: str
    job_name: str
    user: str
    account: str
    partition: str
    namespace: str
    began: float = Field(description="Unix time at which it was first seen here.")
    ended: float | None = Field(description="null while it holds a GPU.")
    gpus: tuple[str, ...] = Field(description="GPUs that it has or had here, INDEX or INDEX/MIG.")
    gpu_count: float = Field(
        description="How many of these its last run has or had; a MIG instance is a part of one."
    )
    utilization_ratio: float | None = Field(description="OFU over all that was observed.")
    observed_seconds: float = Field(description="GPU-seconds in which OFU was measured.")
    held_seconds: float = Field(description="GPU-seconds for which it had GPUs.")
    compared_utilization_ratio: float | None = Field(
        description="OFU of the last minutes that reports cover as well."
    )
    compared_seconds: float = Field(description="GPU-seconds of these minutes.")
    mfu_ratio: float | None = Field(description="MFU reported for these minutes.")
    verdict: Verdict | None = Field(description="On these minutes; null = it reports nothing.")
    causes: tuple[LikelyCause, ...] = Field(description="Of a difference, likeliest first.")
    last_hour: list[float | None] = Field(max_length=MOST_POINTS, description=MINUTES)


class NodeJson(BaseModel, allow_inf_nan=False):
    """A node, as of its last snapshot."""

    node: str
    version: str = Field(description="Of the agent.")
    unix: float | None = Field(description="Unix time of the snapshot; null before the first.")
    age_seconds: float = Field(description="Age of the snapshot when this was answered.")
    paused: bool = Field(description="Whether the agent was told to let go of the GPUs.")
    pause_file: str = Field(
        default="", description="The file that the agent looks for to let go of them."
    )
    utilization_ratio: float | None = Field(description="Mean OFU of the GPUs measured now.")
    sources: list[SourceJson]
    gpus: list[NodeGpu]
    jobs: list[NodeJob]


def node_state(
    snapshot: Snapshot | None, history: History, node: str, age: float, faults: Faults
) -> NodeJson:
    """The JSON of a snapshot, which is `age` seconds old. What cannot be described costs itself."""
    if snapshot is None:
        return NodeJson(
            node=node,
            version=__version__,
            unix=None,
            age_seconds=0.0,
            paused=False,
            utilization_ratio=None,
            sources=[],
            gpus=[],
            jobs=[],
        )
    healths = (snapshot.source, *snapshot.other_sources)
    return NodeJson(
        node=node,
        version=__version__,
        unix=snapshot.unix or None,
        age_seconds=max(0.0, age),
        paused=snapshot.paused,
        utilization_ratio=mean_ofu(
            (view.window.utilization if view.window else None, view.share.ratio)
            for view in snapshot.gpus
        ),
        sources=[_source(health) for health in healths],
        gpus=faults.made("/v1/node", lambda view: _gpu(view, snapshot, history), snapshot.gpus),
        jobs=faults.made("/v1/node", lambda view: _job(view, history), snapshot.jobs),
    )


def mean_ofu(measured: Iterable[tuple[float | None, float]]) -> float | None:
    """The mean of OFUs, each weighed by its share of a GPU; None counts as not measured."""
    weighed = [(ofu, share) for ofu, share in measured if ofu is not None]
    whole = math.fsum(share for _, share in weighed)
    return math.fsum(ofu * share for ofu, share in weighed) / whole if whole else None


def _source(health: SourceHealth) -> SourceJson:
    reason = health.reason
    return SourceJson(
        source=health.name,
        up=health.up,
        simulated=health.simulated,
        recorded=health.recorded,
        reason=None if reason is None else reason.value,
        detail=health.detail,
        advice="" if reason is None else reason.advice,
    )


def _gpu(view: GpuView, snapshot: Snapshot, history: History) -> NodeGpu:
    steps = history.gpu(view.gpu.key)
    ofu = view.window.utilization if view.window else None
    return NodeGpu(
        **gpu_state(view, snapshot).model_dump(),
        profile=view.gpu.profile,
        driver=view.gpu.driver,
        source=view.source or snapshot.source.name,
        advice="" if view.reason is None else view.reason.advice,
        idle_seconds=None if ofu is None else idle_seconds(ofu, steps),
        last_hour=_rounded(history.gpu(view.gpu.key, GPU_GROUP)),
    )


def idle_seconds(ofu: float, steps: Iterable[float | None]) -> float:
    """How long a GPU has done no tensor work up to its last window, by the steps of its last hour."""
    if ofu >= IDLE_RATIO:
        return 0.0
    idle = 0
    # A window is read after its end, and the last steps may be of the time since.
    for step in itertools.dropwhile(lambda step: step is None, reversed([*steps])):
        if step is None or step >= IDLE_RATIO:
            break
        idle += 1
    return idle * GPU_STEP_SECONDS


def _job(view: JobView, history: History) -> NodeJob:
    job, reports, observed = view.job, view.reports, view.observed_seconds
    ofu, _ = history.job(job.key, JOB_GROUP)
    return NodeJob(
        **{name: getattr(job, name) for name in JOB_TEXTS},
        job_name=job.name,
        began=view.began,
        ended=view.ended,
        gpus=tuple(
            usage.index + (f"/{usage.key.instance}" if usage.key.instance else "")
            for usage in view.usage.values()
        ),
        gpu_count=view.gpu_count,
        utilization_ratio=view.utilization_seconds / observed if observed > 0 else None,
        observed_seconds=observed,
        held_seconds=view.held_seconds,
        compared_utilization_ratio=reports.horizon.ofu if reports else None,
        compared_seconds=reports.horizon.gpu_seconds if reports else 0.0,
        mfu_ratio=reports.recent_mfu_ratio if reports else None,
        verdict=reports.recent_verdict if reports else None,
        causes=reports.causes.fitting if reports and reports.causes else (),
        last_hour=_rounded(ofu),
    )


def _rounded(points: Iterable[float | None]) -> list[float | None]:
    return [None if point is None else round(point, 4) for point in points]
