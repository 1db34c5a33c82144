"""Says what a report needs to know of its job's GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ofu_exporter.hardware.gpu_models import find_row
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.snapshot import GpuView


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs of a job on this node: what a report needs to know of them."""

    number: int = 0
    name: str = ""
    """The GPUs' name in NVML; "" where their names differ."""
    present: frozenset[str] = frozenset()
    """The names of all GPUs of the node, of other jobs too."""
    peaks: Mapping[str, float] = field(default_factory=dict)
    """Dense FLOP/s of one GPU, in each precision that all of them have; the mean where they differ."""

    @property
    def is_in_table(self) -> bool:
        """Whether the GPUs are of one model whose peaks the table has."""
        return bool(self.peaks) and find_row(Gpu(index="", uuid="", name=self.name)) is not None


def hardware_of(views: Iterable[GpuView], present: frozenset[str] = frozenset()) -> Hardware:
    """The GPUs of a job, for its reports; `present` are the names of all GPUs of the node."""
    gpus = list(views)
    rated = [view.rating.peak_flops if view.rating else {} for view in gpus]
    common = set.intersection(*({*peaks} for peaks in rated)) if rated else set()
    peaks = {name: math.fsum(each[name] for each in rated) / len(rated) for name in sorted(common)}
    names = {view.gpu.name for view in gpus}
    name = names.pop() if len(names) == 1 else ""
    return Hardware(len(gpus), name, present, peaks)
