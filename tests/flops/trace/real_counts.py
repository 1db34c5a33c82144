"""Counts what torch executes of a small model with weights, on inputs that a test writes down itself."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


def real_forward(module: Any, inputs: Mapping[str, Any]) -> int:
    """FLOPs of a forward pass over tensors with values, by torch's own counter alone."""
    torch, attention, counter = (
        importlib.import_module(name)
        for name in ("torch", "torch.nn.attention", "torch.utils.flop_counter")
    )
    mode = counter.FlopCounterMode(display=False)
    plain = torch.backends.mkldnn.flags(
        enabled=False
    )  # its LSTM is one operator that is not counted
    with plain, torch.no_grad(), attention.sdpa_kernel(attention.SDPBackend.MATH), mode:
        module.eval()(**inputs)
    total: int = mode.get_total_flops()
    return total
