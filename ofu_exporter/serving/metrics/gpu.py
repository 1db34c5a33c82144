"""Names the metrics of a GPU (its OFU, the inputs of that, how far to trust it) and what GPUs of one model share."""

from __future__ import annotations

from collections.abc import Callable

from ofu_exporter.serving.metrics.spec import Metric, RowValues, Subject
from ofu_exporter.values.gpu import Rating
from ofu_exporter.values.reading import Window
from ofu_exporter.values.snapshot import GpuView, Snapshot

GPU = Subject[[GpuView, Snapshot]](
    ("gpu", "uuid", "gpu_instance"),
    lambda view, _: (view.gpu.index, view.gpu.uuid, view.gpu.instance),
)


def _info(view: GpuView, snapshot: Snapshot) -> RowValues:
    gpu, rating = view.gpu, view.rating
    alone = view.holders[0].job_id if len(view.holders) == 1 else ""
    labels = (
        gpu.name,
        gpu.pci_bus_id,
        gpu.driver,
        view.source or snapshot.source.name,
        view.window.clock_method if view.window else "",
        rating.origin if rating else "",
        gpu.profile,
        gpu.mig_uuid,
        view.share.basis,
        rating.rated_as if rating else "",
        alone,
    )
    return {labels: 1.0}


def _window(read: Callable[[Window], RowValues]) -> Callable[[GpuView, Snapshot], RowValues]:
    return lambda view, _: read(view.window) if view.window else None


GPU_METRICS: tuple[Metric[[GpuView, Snapshot]], ...] = (
    GPU.gauge(
        "ofu_gpu_info",
        "1, for the labels: clock_method is how the clock is read (cycles, polled, point), rating whose clocks and "
        "peaks count (published, configured), rated_as their name in ofu_model_*, share_basis what a share goes by "
        "(whole, slices, instances), job_id the job that alone has the GPU.",
        _info,
        *("model", "pci_bus_id", "driver", "source", "clock_method", "rating"),
        *("mig_profile", "mig_uuid", "share_basis", "rated_as", "job_id"),
    ),
    GPU.gauge(
        "ofu_gpu_instance_share_ratio",
        "Part of a whole GPU that a MIG instance counts as wherever GPUs are added up; a whole GPU counts as 1.",
        lambda view, _: view.share.ratio if view.share.basis != "whole" else None,
    ),
    GPU.gauge(
        "ofu_gpu_up",
        "Whether OFU is being measured on this GPU.",
        lambda view, _: float(view.reason is None),
    ),
    GPU.gauge(
        "ofu_gpu_unavailable",
        "1 while OFU is not measured on this GPU, with the reason.",
        lambda view, _: {view.reason.value: 1.0} if view.reason else None,
        "reason",
    ),
    GPU.gauge(
        "ofu_gpu_utilization_ratio",
        "OFU of the last complete window: tensor activity x SM clock / tensor clock.",
        _window(lambda window: window.utilization),
    ),
    GPU.counter(
        "ofu_gpu_utilization_seconds",
        "Integral of OFU over the observed time, times the share of the GPU; its rate / that of "
        "ofu_gpu_observed_seconds_total is the mean OFU of any range.",
        lambda view, _: view.utilization_seconds if view.sampled_at is not None else None,
    ),
    GPU.counter(
        "ofu_gpu_observed_seconds",
        "GPU-seconds in which OFU was measured: time x share of the GPU.",
        lambda view, _: view.observed_seconds if view.sampled_at is not None else None,
    ),
    GPU.counter(
        "ofu_gpu_lost_seconds",
        "Observed GPU-seconds in which the peak was not used, by part: clock, no_tensor, empty_sms, idle, or the name "
        "of several where a counter is missing. Utilization + lost - gained is ofu_gpu_observed_seconds_total.",
        lambda view, _: {loss.value: lost for loss, lost in view.sums.lost.items()},
        "part",
    ),
    GPU.counter(
        "ofu_gpu_gained_seconds",
        "What the tensor pipes gained by running above the tensor clock, in observed GPU-seconds.",
        lambda view, _: view.sums.gained if view.sums.lost else None,
    ),
    GPU.counter(
        "ofu_gpu_energy_joules",
        "Energy of the card in the observed time, by its own counter.",
        lambda view, _: view.sums.energy_joules,
    ),
    GPU.counter(
        "ofu_gpu_idle_energy_joules",
        "Part of ofu_gpu_energy_joules_total in windows in which no kernel ran.",
        lambda view, _: view.sums.idle_energy_joules,
    ),
    GPU.gauge(
        "ofu_gpu_tensor_active_ratio",
        "Share of SM cycles of the last window in which a tensor pipe was active.",
        _window(lambda window: window.tensor_active),
    ),
    GPU.gauge(
        "ofu_gpu_pipe_active_ratio",
        "Tensor activity of the last window by pipe, where the GPU tells pipes apart.",
        _window(lambda window: window.pipes),
        "pipe",
    ),
    GPU.gauge(
        "ofu_gpu_sm_clock_hertz",
        "Mean SM clock over the last window.",
        _window(lambda window: window.sm_clock_hz),
    ),
    GPU.gauge(
        "ofu_gpu_utilization_stderr_ratio",
        "Standard error of the last window's OFU, from the clock reads and the age of the counters.",
        _window(lambda window: window.stderr),
    ),
    GPU.gauge(
        "ofu_gpu_window_seconds",
        "Length of the last window.",
        _window(lambda window: window.seconds),
    ),
    GPU.counter(
        "ofu_gpu_rejected_samples",
        "Samples that could not be true and were not used.",
        lambda view, _: view.rejected,
        "reason",
    ),
)

GPU_SHARED = GPU.gauge(
    "ofu_gpu_shared",
    "1 for every job on a GPU that several have at once; its OFU is credited to none of them.",
    lambda view, _: {job.job_id: 1.0 for job in view.holders} if len(view.holders) > 1 else None,
    "job_id",
)
SAMPLE_TIMESTAMP = GPU.gauge(
    "ofu_gpu_sample_timestamp_seconds",
    "Unix time at which the last complete window ended.",
    lambda view, snapshot: None if view.sampled_at is None else snapshot.unix_at(view.sampled_at),
)


def _rating(view: GpuView) -> Rating | None:
    """What the GPU is rated at, if that has a name."""
    return view.rating if view.rating and view.rating.rated_as else None


MODEL = Subject[[GpuView]](
    ("model", "rated_as"), lambda view: (view.gpu.name, view.rating.rated_as if view.rating else "")
)


MODEL_METRICS: tuple[Metric[[GpuView]], ...] = (
    MODEL.gauge(
        "ofu_model_tensor_clock_hertz",
        "Clock that OFU is measured against: the one the published dense peak implies, by clock domain.",
        lambda view: rating.tensor_clock_hz if (rating := _rating(view)) else None,
        "domain",
    ),
    MODEL.gauge(
        "ofu_model_peak_flops",
        "Dense peak of one GPU in FLOP/s by precision.",
        lambda view: rating.peak_flops if (rating := _rating(view)) else None,
        "precision",
    ),
)
