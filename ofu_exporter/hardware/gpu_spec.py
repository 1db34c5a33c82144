"""Defines a row of the GPU table: a model, the chip that it shares with others, and what follows from both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ofu_exporter.values.gpu import LinkPeaks

PRECISIONS: Final = (
    "fp64",
    "tf32",
    "bf16",
    "fp16",
    "fp16_acc16",
    "fp8",
    "fp8_acc16",
    "int8",
    "int4",
    "fp6",
    "fp4",
)
"""Every precision a row may have. `_acc16` accumulates in 16 bits; bf16, fp16 and fp8 without it in 32."""
IMPLIED = 0.005
"""Largest relative difference between a row's peak and the published one at which its clock counts as the implied
one."""


@dataclass(frozen=True, slots=True)
class Chip:
    """What the models of one architecture variant share."""

    arch: str
    compute_capability: tuple[int, int] | None
    """The capability that CUDA reports. NVML may report another one on a relabelled card."""
    flops_per_cycle_per_sm: Mapping[str, int]
    """Dense, two per multiply-add, per precision."""
    mig_slices: int | None = None
    """Most MIG instances of a GPU (MIG User Guide, "Supported GPUs"); None = not known, or it cannot be divided."""


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One GPU model. None or empty = not known."""

    key: str
    chip: Chip
    names: tuple[str, ...]
    """Names as NVML reports them."""
    pci_device_ids: tuple[str, ...]
    """Four hexadecimal digits, lower case, of NVIDIA's vendor id 10de."""
    sm_count: int | None
    tensor_clock_hz: float | None
    """Rated clock of the tensor pipe for everything but FP64."""
    fp64_clock_hz: float | None
    """Rated clock of FP64 tensor instructions; None = the same as tensor_clock_hz."""
    max_sm_clock_hz: float | None = None
    """Maximum SM clock as NVML reports it; not what the peak is quoted at."""
    mig_slices: int | None = None
    """As of the chip, unless the model has another number."""
    memory_gib: tuple[int, ...] = ()
    published_peak_flops: Mapping[str, float] = field(default_factory=dict)
    """Dense FLOP/s as published; peaks are recomputed from it only where FLOPs per cycle are not known."""
    memory_bytes_per_second: float | None = None
    """The rated bandwidth, reads and writes together: what a share of busy memory cycles is of."""
    links: LinkPeaks | None = None
    """What bytes per second of links are compared with."""
    source: str = ""
    confidence: str = ""
    """high, medium or low: how well the sources agree."""
    note: str = ""
    disputed: Mapping[str, str] = field(default_factory=dict)
    """Precision -> why its peak is in doubt; a peak in doubt may differ from the published one."""
    relabelled: bool = False
    """Whether this model is known to be sold under a name that belongs to another model's family."""
    origin: str = "published"

    def clock_hz(self, precision: str) -> float | None:
        """The rated clock of the domain that the precision runs in."""
        if precision == "fp64" and self.fp64_clock_hz is not None:
            return self.fp64_clock_hz
        return self.tensor_clock_hz

    @property
    def has_implied_clock(self) -> bool:
        """Whether an undisputed published peak implies the tensor clock, up to rounding."""
        precision = "bf16" if "bf16" in self.published_peak_flops else "fp16"
        published = self.published_peak_flops.get(precision)
        if published is None or precision in self.disputed or not self.chip.flops_per_cycle_per_sm:
            return False
        off = abs((self.peak_flops(precision) or 0.0) - published)
        is_rounded = published % 1e12 == 0 and off <= 0.5e12
        return is_rounded or off <= IMPLIED * published

    def peak_flops(self, precision: str) -> float | None:
        """Dense FLOP/s: computed, or as published for a part whose FLOPs per cycle are not known."""
        rate = self.chip.flops_per_cycle_per_sm.get(precision)
        clock_hz = self.clock_hz(precision)
        if rate is None:
            return self.published_peak_flops.get(precision)
        if self.sm_count is None or clock_hz is None:
            return None
        return self.sm_count * rate * clock_hz
