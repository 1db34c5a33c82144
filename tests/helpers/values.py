"""Makes the values that tests are about, with everything that does not matter left to defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ofu_exporter.values.gpu import Gpu, Rating
from ofu_exporter.values.reading import (
    NO_ACTIVITY,
    Activity,
    ClockSample,
    CycleTotals,
    Fault,
    Reading,
)
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import SourceHealth

H100 = "NVIDIA H100 80GB HBM3"
H100_RATING = Rating(
    tensor_clock_hz={"low_precision": 1830e6, "fp64": 1980e6},
    peak_flops={"bf16": 989.4e12},
    origin="published",
    model="H100-SXM5-80GB",
    max_sm_clock_hz=1980e6,
)


def gpu(index: int = 0, uuid: str = "", name: str = H100, instance: str = "") -> Gpu:
    return Gpu(
        index=str(index),
        uuid=uuid or f"GPU-{index:04d}",
        instance=instance,
        name=name,
        pci_device_id="2330" if name == H100 else "",
        sm_count=132 if name == H100 else None,
        compute_capability=(9, 0) if name == H100 else None,
        max_sm_clock_hz=1980e6 if name == H100 else None,
    )


def polled(start: float, end: float, hz: Sequence[float]) -> tuple[ClockSample, ...]:
    """Clock reads spread evenly over (start, end]."""
    step = (end - start) / len(hz)
    return tuple(ClockSample(start + step * (i + 1), value) for i, value in enumerate(hz))


def reading(
    start: float = 0.0,
    end: float = 5.0,
    tensor: float | None = 0.5,
    hz: Sequence[float] = (1400e6,) * 10,
    device: Gpu | None = None,
    pipes: Mapping[str, float] | None = None,
    cycles: tuple[float, float] | None = None,
    activity: Activity = NO_ACTIVITY,
) -> Reading:
    return Reading(
        gpu=device or gpu(),
        start=start,
        end=end,
        tensor_active=tensor,
        pipes=pipes or {},
        clocks=polled(start, end, hz) if hz else (),
        cycles=CycleTotals(*cycles) if cycles else None,
        activity=activity,
    )


def fault(at: float, reason: Reason = Reason.LOST, device: Gpu | None = None) -> Fault:
    return Fault(device or gpu(), at, reason, "detail")


def health(name: str = "nvml", simulated: bool = False) -> SourceHealth:
    return SourceHealth(name, up=True, reason=None, simulated=simulated)


class FakeClock:
    """A clock that moves when told."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
