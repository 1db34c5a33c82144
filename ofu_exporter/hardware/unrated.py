"""Says why a GPU has no OFU because of its kind: it is a vGPU, has no tensor pipes, or is in no row."""

from __future__ import annotations

import json
import re

from ofu_exporter.hardware import gpu_models
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reasons import Reason

_VGPU = re.compile(r"(?:NVIDIA|GRID) .*-\d+(?:-\d+)?[ABCQ](?:ME)?")
"""Such as `GRID T4-16Q` and `NVIDIA A100-1-5CME`: the name of a board, a size and a vGPU series."""
_NO_TENSOR_PIPES = re.compile(
    r"tesla [kmp]\d.*|geforce gtx? .*|titan xp?\b.*|quadro (gp|[kmp])\d.*"
    r"|(quadro )?t(400e?|500|550|600|1000|1200|2000)\b.*"
)
"""Kepler, Maxwell, Pascal, and the Turing chips without tensor cores, by a normalised name."""
FIRST_WITH_TENSOR_PIPES = (7, 0)
"""Compute capability of Volta."""


def explain(gpu: Gpu, reason: Reason, detail: str = "") -> tuple[Reason, str]:
    """The given reason and detail, or those of the GPU's kind if these explain them."""
    if reason not in (Reason.NOT_SUPPORTED, Reason.NO_TENSOR_COUNTER, Reason.UNKNOWN_MODEL):
        return reason, detail
    if is_vgpu(gpu):
        return Reason.VGPU, f"{gpu.name or 'the GPU'} is a vGPU, not a whole GPU"
    if has_no_tensor_pipes(gpu):
        return Reason.NO_TENSOR_PIPES, f"{gpu.name or 'the GPU'} has none"
    return reason, row_to_write(gpu) if reason is Reason.UNKNOWN_MODEL else detail


def is_vgpu(gpu: Gpu) -> bool:
    """Whether the driver or the name says that this is a vGPU inside a virtual machine."""
    return gpu.is_vgpu or _VGPU.fullmatch(gpu.name) is not None


def has_no_tensor_pipes(gpu: Gpu) -> bool:
    """Whether the GPU is known to have no tensor pipes."""
    capability = gpu.compute_capability
    if capability is not None and capability < FIRST_WITH_TENSOR_PIPES:
        return True
    return _NO_TENSOR_PIPES.fullmatch(gpu_models.normalise(gpu.name)) is not None


def row_to_write(gpu: Gpu) -> str:
    """The setting that gives an unknown model an OFU, as one line of YAML in which only the clock is missing."""
    named = {"name": gpu.name or gpu.pci_device_id, "pci_device_id": gpu.pci_device_id}
    fields = [f"{key}: {json.dumps(value)}" for key, value in named.items() if value]
    if not fields:
        return "the source tells neither the model's name nor its PCI device id"
    is_known = gpu_models.find_row(gpu) is not None
    why = "its row has no clock" if is_known else "the model is not in the table"
    row = ", ".join([*fields, "tensor_clock_hz: HZ"])
    most = f", at most {gpu.max_sm_clock_hz:.0f}" if gpu.max_sm_clock_hz else ""
    return (
        f"{why}; write `gpus: [{{{row}}}]`, "
        f"HZ = published dense FLOP/s / (SMs * FLOPs per cycle per SM){most}"
    )
