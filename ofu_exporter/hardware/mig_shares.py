"""Computes which part of its GPU each MIG instance is, so that a divided GPU counts as one GPU in every sum.

An instance with G slices of a GPU with N has G/N of it, as in the column "Fraction of SMs" of NVIDIA's MIG User Guide.
The SMs of the instances can be fewer: on some GPUs no instance can use the remaining SMs, but they still count as
part of the GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ofu_exporter.hardware.gpu_models import GpuModel, find_row
from ofu_exporter.hardware.gpu_rows import CHIPS
from ofu_exporter.values.gpu import WHOLE_GPU, Gpu, GpuKey, Share

_PROFILE = re.compile(r"(\d+)g\.\d+gb")


def shares(gpus: Iterable[Gpu], rows: Sequence[GpuModel] = ()) -> dict[GpuKey, Share]:
    """The share of each device in its GPU. `gpus` are all devices that there are, `rows` the user's own GPU rows."""
    parts: dict[str, list[Gpu]] = {}
    by_gpu: dict[GpuKey, Share] = {}
    for gpu in gpus:
        if gpu.instance:
            parts.setdefault(gpu.uuid, []).append(gpu)
        else:
            by_gpu[gpu.key] = WHOLE_GPU
    for instances in parts.values():
        by_gpu.update(_divided(instances, rows))
    return by_gpu


def _divided(instances: Sequence[Gpu], rows: Sequence[GpuModel]) -> dict[GpuKey, Share]:
    """The shares of the instances of one GPU: by their slices, or equal shares if not all slices are known.

    Slices that add up to more than the GPU has count as unknown.
    """
    total = _slices_of_gpu(instances[0], rows)
    slices = [_slices(each) for each in instances]
    counted = [each for each in slices if each]
    if total and len(counted) == len(instances) and sum(counted) <= total:
        return {
            gpu.key: Share(each / total, "slices")
            for gpu, each in zip(instances, counted, strict=True)
        }
    return {gpu.key: Share(1 / len(instances), "instances") for gpu in instances}


def _slices_of_gpu(gpu: Gpu, rows: Sequence[GpuModel]) -> int | None:
    row = find_row(gpu, rows)
    if row is not None and row.chip.compute_capability:
        return row.mig_slices
    of_chips = (
        each for each in CHIPS.values() if each.compute_capability == gpu.compute_capability
    )
    return next((chip.mig_slices for chip in of_chips), None)


def _slices(gpu: Gpu) -> int | None:
    """The compute slices of an instance, from a profile such as 3g.40gb or 1g.10gb+me."""
    profile = _PROFILE.match(gpu.profile)
    return int(profile[1]) if profile else None
