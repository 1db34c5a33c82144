"""Makes the terms of mixers that carry a state along the sequence: Mamba, delta nets.

FLOPs of one forward pass, 2 per multiply-add. Shapes: h hidden, d inner width, G groups, N state, R rank of the time
step. A scan is counted in its closed form; the products that a chunked kernel runs for it depend on its chunks.
"""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.flops.products import depthwise, linear, scan, vector
from ofu_exporter.flops.shapes import DeltaNet, Mamba1, Mamba2
from ofu_exporter.flops.terms import Part, Term

SCAN_FLOPS = 7
"""Forward FLOPs of a state-space scan per token, inner channel and state (Megatron-LM `mamba_layer_flops`)."""
DELTA_PRODUCTS = 4
"""State products of the gated delta rule: KK^T, VK^T, S(a(I-bKK^T)) and SQ (Megatron-LM `gdn_layer_flops`)."""


def mamba2(hidden: int, mixer: Mamba2, times: int) -> Iterator[Term]:
    """h(2 d + 2 G N + H) in, (7/2) d N scan and d h out multiply-adds per token; d = heads * head_dim.

    Mamba-2 (arXiv:2405.21060), section 7; the scan's constant is Megatron-LM's. The chunked kernel executes
    products whose size depends on the chunk, so a counter of the hardware sees more or fewer than the scan's 7.
    """
    inner, groups = mixer.inner, 2 * mixer.groups * mixer.state
    part, bias = Part.PROJECTION, mixer.bias
    inputs = 2 * inner + groups + mixer.heads
    yield linear("mamba.in_proj", part, hidden, inputs, times=times, bias=bias)
    yield depthwise("mamba.conv1d", inner + groups, mixer.kernel, times, mixer.conv_bias)
    yield scan("mamba.scan", SCAN_FLOPS * inner * mixer.state * times)
    out = bias if mixer.out_bias is None else mixer.out_bias
    yield linear("mamba.out_proj", part, inner, hidden, times=times, bias=out)
    yield vector("mamba.vectors", (3 * mixer.heads + mixer.gate_norm * inner) * times)


def mamba1(hidden: int, mixer: Mamba1, times: int) -> Iterator[Term]:
    """h 2d in, d(R + 2N) to step and state, R d step, (7/2) d N scan, d h out multiply-adds per token.

    Mamba (arXiv:2312.00752), section 3.4 and appendix C; d inner width, R rank of the time step.
    """
    inner, rank, state, part = mixer.inner, mixer.step_rank, mixer.state, Part.PROJECTION
    bias = mixer.bias
    yield linear("mamba.in_proj", part, hidden, 2 * inner, times=times, bias=bias)
    yield depthwise("mamba.conv1d", inner, mixer.kernel, times, mixer.conv_bias)
    yield linear("mamba.x_proj", part, inner, rank + 2 * state, times=times)
    yield linear("mamba.dt_proj", part, rank, inner, times=times, bias=True)
    yield scan("mamba.scan", SCAN_FLOPS * inner * state * times)
    yield linear("mamba.out_proj", part, inner, hidden, times=times, bias=bias)
    norms = (rank + 2 * state) if mixer.inner_norms else 0
    yield vector("mamba.vectors", (inner * state + inner + norms) * times)


def delta_net(hidden: int, mixer: DeltaNet, times: int) -> Iterator[Term]:
    """h(2 q + 2 v + 2 heads) in, kernel convolution, 4 heads d_v^2 state, v h out multiply-adds per token.

    Gated delta net (arXiv:2412.06464); the state's constant is Megatron-LM's `gdn_layer_flops`.
    """
    keys, values, heads = mixer.key_dim, mixer.value_dim, mixer.value_heads
    part = Part.PROJECTION
    yield linear("delta.in_proj", part, hidden, 2 * keys + 2 * values + 2 * heads, times=times)
    yield depthwise("delta.conv1d", 2 * keys + values, mixer.kernel, times, False)
    yield scan("delta.state", 2 * DELTA_PRODUCTS * heads * mixer.value_head_dim**2 * times)
    yield linear("delta.out_proj", part, values, hidden, times=times)
    yield vector("delta.vectors", (2 * heads + mixer.value_head_dim) * times)
