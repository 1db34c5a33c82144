"""One GPU as its source describes it, and the clocks and peaks that it is measured against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ofu_exporter.values.text import show

LOW_PRECISION = "low_precision"
"""Clock domain of FP8, FP16, BF16, TF32, INT8 and everything else that is not FP64."""
FP64 = "fp64"
"""Clock domain of FP64 tensor instructions (arXiv:2605.20799, section IV-D)."""

LOWEST_CLOCK_HZ, ABSURD_CLOCK_HZ = 1e6, 4e9
"""No SM that runs is slower or faster than this, whatever the card: such a value is in another unit."""

_TEXTS = (
    *("index", "uuid", "instance", "profile", "name", "pci_bus_id", "pci_device_id", "driver"),
    "mig_uuid",
)


class GpuKey(NamedTuple):
    """What identifies a measured device."""

    uuid: str
    instance: str
    """The id of the MIG GPU instance; "" for a whole GPU."""


def unnamed(index: str) -> str:
    """What stands for the uuid of a GPU that has not said yet which it is."""
    return f"index-{index}"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, or one MIG instance of a GPU, as its source describes it. None or "" = the source does not say."""

    index: str
    uuid: str
    instance: str = ""
    profile: str = ""
    name: str = ""
    pci_bus_id: str = ""
    pci_device_id: str = ""
    """Four hexadecimal digits, lower case, of NVIDIA's vendor id 10de."""
    driver: str = ""
    sm_count: int | None = None
    compute_capability: tuple[int, int] | None = None
    max_sm_clock_hz: float | None = None
    """None also where the source names a value that cannot be a clock."""
    memory_bytes: int | None = None
    minor: int | None = None
    """N of /dev/nvidiaN, by which Slurm and some device plugins name the GPU."""
    mig_uuid: str = ""
    is_vgpu: bool = False
    """Whether the driver says that this is a vGPU inside a virtual machine."""

    def __post_init__(self) -> None:
        show(self, _TEXTS)
        most = self.max_sm_clock_hz
        if most is not None and not LOWEST_CLOCK_HZ <= most <= ABSURD_CLOCK_HZ:
            object.__setattr__(self, "max_sm_clock_hz", None)

    @property
    def key(self) -> GpuKey:
        return GpuKey(self.uuid, self.instance)

    @property
    def is_unnamed(self) -> bool:
        """Whether it has not said yet which GPU it is."""
        return self.uuid == unnamed(self.index)

    @property
    def place(self) -> str:
        """INDEX, or INDEX/INSTANCE of a MIG instance."""
        return f"{self.index}/{self.instance}" if self.instance else self.index


class Share(NamedTuple):
    """The part of a whole GPU that a device counts as, wherever GPUs are added up."""

    ratio: float
    basis: Literal["whole", "slices", "instances"]
    """How it is known: a whole GPU, the slices of a MIG instance, or, if these are not known, 1 / the number of
    instances."""


WHOLE_GPU = Share(1.0, "whole")


class LinkPeaks(NamedTuple):
    """The rated speed of a GPU's links, in bytes per second and direction."""

    pcie: float
    nvlink: float
    """0 = the model has none."""


@dataclass(frozen=True, slots=True)
class Rating:
    """The clocks and peaks that one GPU is measured against."""

    tensor_clock_hz: Mapping[str, float]
    """Highest clock of the tensor pipe per clock domain (`low_precision`, `fp64`)."""
    peak_flops: Mapping[str, float]
    """Dense peak per precision; empty when not known."""
    origin: str
    """Where the rating is from: published (the table), configured (the user's row), or estimated (from the card's own
    maximum SM clock; `validate` uses this to find the figures of a new row)."""
    model: str = ""
    """Key of the row, "" when estimated."""
    rated_as: str = ""
    """Name of these clocks and peaks, "" when estimated: two devices have the same one only if they are rated alike."""
    max_sm_clock_hz: float | None = None
    """Highest SM clock of the model. A value far above it is that of another field."""
    sm_count: int | None = None
    """SMs of the model, for a source that does not say how many the GPU has."""
    links: LinkPeaks | None = None
    """None where the model's links are not known."""
    memory_bytes_per_second: float | None = None
    """What its memory can move; None where that is not known, and for a MIG instance."""
    counts_in_turns: bool = False
    """Whether the card cannot count everything at once, so that DCGM measures its counters in turns (before Hopper)."""
