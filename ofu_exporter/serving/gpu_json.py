"""Describes a GPU as JSON: what it is, what was measured in its last window, and which jobs have it."""

from __future__ import annotations

from pydantic import BaseModel, Field

from ofu_exporter.values.losses import Bounds, Cause, Loss, Losses
from ofu_exporter.values.snapshot import GpuView, Snapshot


class WindowJson(BaseModel, allow_inf_nan=False):
    """The last window. null = not measured."""

    seconds: float
    utilization_ratio: float | None = Field(description="OFU.")
    stderr_ratio: float | None = Field(description="Its standard error from the clock reads.")
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
    no_tensor_bounds: dict[Cause, Bounds] = Field(
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
    share_ratio: float = Field(description="Part of a whole GPU that it counts as in sums.")
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
    """The JSON of a GPU of a snapshot."""
    window, rating = view.window, view.rating
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
        window=None
        if window is None
        else WindowJson(
            seconds=window.seconds,
            utilization_ratio=window.utilization,
            stderr_ratio=window.stderr,
            tensor_active_ratio=window.tensor_active,
            sm_clock_hz=window.sm_clock_hz,
            clock_method=window.clock_method,
            clock_limits=None
            if window.clock_limits is None
            else tuple(limit.value for limit in window.clock_limits),
            lost_ratio=dict(window.losses),
            lost_is_estimate=bool(rating and rating.counts_in_turns and _splits(window.losses)),
            no_tensor_bounds={
                cause: Bounds(*(each / window.gpu_seconds for each in bounds))
                for cause, bounds in window.sums.causes.items()
            },
            activity={
                name: value
                for name, value in window.activity._asdict().items()
                if value is not None
            },
        ),
    )


def _splits(losses: Losses) -> bool:
    """Whether the parts come from more counters than that of the tensor pipes."""
    return bool(losses) and Loss.WITHOUT_TENSOR not in losses


def _is_simulated(view: GpuView, snapshot: Snapshot) -> bool:
    """Whether the source that reads a GPU makes up its values; the first source reads what names no other."""
    others = (health for health in snapshot.other_sources if health.name == view.source)
    return next(others, snapshot.source).simulated
