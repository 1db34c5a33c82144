"""Describes the mixers of tokens that layers have, attention or a state along the sequence, and makes their terms.

FLOPs of one forward pass, 2 per multiply-add. Shapes: h hidden, q = heads * head_dim, kv = groups * head_dim, d inner
width, G groups, N state, R rank. A scan is counted in its closed form; the products that a chunked kernel runs for it
depend on its chunks. Attention is that of a decoder, causal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ofu_exporter.flops.products import core, depthwise, layer_norm, linear, scan, vector
from ofu_exporter.flops.terms import Extent, Part, Per, Term

SCAN_FLOPS = 7
"""Forward FLOPs of a state-space scan per token, inner channel and state (Megatron-LM `mamba_layer_flops`)."""
DELTA_PRODUCTS = 4
"""State products of the gated delta rule: KK^T, VK^T, S(a(I-bKK^T)) and SQ (Megatron-LM `gdn_layer_flops`)."""


@dataclass(frozen=True, slots=True)
class GroupedAttention:
    """Multi-head attention; with fewer key/value groups than heads: GQA (arXiv:2305.13245)."""

    heads: int
    groups: int
    head_dim: int
    qkv_bias: bool = False
    out_bias: bool = False
    norm_parameters: int = 0
    """Parameters of query and key norms, and of attention sinks."""
    gated: bool = False
    """Whether a gate as wide as the queries multiplies the output (Qwen3-Next)."""
    head_gates: bool = False
    """Whether a gate of one number a head multiplies the output (Step-3.7)."""
    window: int | None = None
    chunk: int | None = None
    """Tokens of a chunk; attention stays inside it (windows of an image, local layers of Llama 4)."""
    value_head_dim: int | None = None
    """Head dimension of values, where it is not that of queries and keys (MiMo-V2)."""
    values_are_keys: bool = False
    """Whether the keys are the values too, without a projection of their own (global layers of Gemma 4)."""

    @property
    def query_dim(self) -> int:
        return self.heads * self.head_dim

    @property
    def key_dim(self) -> int:
        return self.groups * self.head_dim

    @property
    def output_dim(self) -> int:
        """Width of what the heads give together, which is that of the queries unless values are narrower."""
        return self.heads * (self.value_head_dim or self.head_dim)

    def terms(self, hidden: int, times: int) -> Iterator[Term]:
        """h(q + 2 kv) + q h multiply-adds per token (+ h q with a gate, h heads with one of heads), 2 q per pair.

        Sizes are those of values as wide as keys.
        Groups make the projections of key and value smaller, but never the core, because every head attends.
        """
        query, part, bias = self.query_dim, Part.PROJECTION, self.qkv_bias
        outputs = self.output_dim
        values = self.groups * (self.value_head_dim or self.head_dim)
        sides = {"q_proj": query, "k_proj": self.key_dim, "v_proj": values}
        if self.values_are_keys:
            del sides["v_proj"]
        if self.gated:
            sides["gate_proj"] = query
        if self.head_gates:
            sides["head_gates"] = self.heads
        for name, width in sides.items():
            yield linear(f"attention.{name}", part, hidden, width, times=times, bias=bias)
        within = f" (window {self.window})" if self.window else ""
        within = f" (chunk {self.chunk})" if self.chunk else within
        extent = Extent(Per.PAIR, causal=True, window=self.window, chunk=self.chunk)
        yield core(query, outputs, times, extent, f"attention.core{within}")
        yield linear("attention.o_proj", part, outputs, hidden, times=times, bias=self.out_bias)
        yield vector("attention.norms", self.norm_parameters * times)


@dataclass(frozen=True, slots=True)
class Indexer:
    """Scores every key for every query with small heads, so that attention runs on the best (DeepSeek-V3.2)."""

    heads: int
    head_dim: int

    def terms(self, hidden: int, rank: int, times: int) -> Iterator[Term]:
        """R heads d + h (d + heads) multiply-adds per token, heads (d + 1) per pair, each of the past.

        DeepSeek-V3.2 (arXiv:2512.02556), eq. 1: one key of d for all heads, whose scores are weighed and summed.
        `rank` is the width from which the queries are projected.
        """
        wide, part = self.heads * self.head_dim, Part.PROJECTION
        yield linear("indexer.q_proj", part, rank, wide, times=times)
        yield linear("indexer.k_proj", part, hidden, self.head_dim, times=times)
        yield linear("indexer.weights", part, hidden, self.heads, times=times)
        yield core(wide, self.heads, times, Extent(Per.PAIR, causal=True), "indexer.scores")
        yield vector("indexer.norm", layer_norm(self.head_dim) * times)


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1)."""

    heads: int
    query_rank: int | None
    key_value_rank: int
    nope_dim: int
    """Head dimension of queries and keys that carries no position."""
    rope_dim: int
    value_dim: int
    bias: bool
    keys: int | None = None
    """How many keys a query attends to, if an indexer chooses them."""
    indexer: Indexer | None = None
    """The layer's own indexer; None if it uses another layer's choice."""

    def terms(self, hidden: int, times: int) -> Iterator[Term]:
        """Projections through ranks, and a core of 2 * heads * (nope + rope + value) per pair.

        DeepSeek-V2, eq. 9-19; the key's rope part is one head, shared by all.
        """
        heads, rank, rows = self.heads, self.query_rank, self.key_value_rank
        query, values = heads * (self.nope_dim + self.rope_dim), heads * self.value_dim
        part, bias = Part.PROJECTION, self.bias
        if rank is None:
            yield linear("attention.q_proj", part, hidden, query, times=times)
        else:
            yield linear("attention.q_a_proj", part, hidden, rank, times=times, bias=bias)
            yield linear("attention.q_b_proj", part, rank, query, times=times)
            yield vector("attention.norms", rank * times)
        latent = rows + self.rope_dim
        yield linear("attention.kv_a_proj", part, hidden, latent, times=times, bias=bias)
        yield vector("attention.norms", rows * times)
        both = heads * self.nope_dim + values
        yield linear("attention.kv_b_proj", part, rows, both, times=times)
        chosen = f" ({self.keys} keys)" if self.keys else ""
        # The number of best keys in a query's past is that of a window of the same size.
        extent = Extent(Per.PAIR, causal=True, window=self.keys)
        yield core(query, values, times, extent, f"attention.core{chosen}")
        yield linear("attention.o_proj", part, values, hidden, times=times, bias=bias)
        if self.indexer is not None:
            yield from self.indexer.terms(hidden, rank or hidden, times)


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """Attention to a window, and to keys of which each stands for several tokens (DeepSeek-V4, section 2.3).

    One head is key and value of all queries; the output goes through groups of heads and a rank.
    """

    heads: int
    head_dim: int
    query_rank: int
    output_groups: int
    output_rank: int
    window: int
    streams: int
    """Parallel residual streams, which hyper-connections mix around attention and feed-forward block (section 2.2)."""
    rate: int | None
    """Tokens of a compressed key; None: there is the window alone."""
    keys: int | None
    """How many compressed keys a query attends to, which the indexer chooses; None: all of its past."""
    indexer: Indexer | None

    def terms(self, hidden: int, times: int) -> Iterator[Term]:
        """h r_q + r_q q + h d + q r_o + G r_o h multiply-adds per token; 2 q per pair of the window, and per `rate`.

        n streams cost 2 n h (n^2 + 2 n) for their weights and 2 n^2 h to mix them.
        """
        part, query, n = Part.PROJECTION, self.heads * self.head_dim, self.streams
        groups, rank = self.output_groups, self.output_rank
        yield linear("attention.q_a_proj", part, hidden, self.query_rank, times=times)
        yield linear("attention.q_b_proj", part, self.query_rank, query, times=times)
        yield linear("attention.kv_proj", part, hidden, self.head_dim, times=times)
        yield linear("attention.o_a_proj", part, query // groups, rank, times=times * groups)
        yield linear("attention.o_b_proj", part, groups * rank, hidden, times=times)
        yield vector("attention.norms", (self.query_rank + self.head_dim + self.heads) * times)
        near = Extent(Per.PAIR, causal=True, window=self.window)
        yield core(query, query, times, near, f"attention.core (window {self.window})")
        if self.rate is not None:
            yield from self._compressed(hidden, self.rate, times)
        weights = n * (n + 2)
        yield linear("streams.weights", part, n * hidden, weights, times=2 * times)
        yield vector("streams.scales", 2 * (weights + 3) * times)
        yield Term("streams.mix", Part.CORE, flops=4 * n * n * hidden * times)

    def _compressed(self, hidden: int, rate: int, times: int) -> Iterator[Term]:
        query = self.heads * self.head_dim
        yield from self._keys("compressor", hidden, self.head_dim, times)
        seen = None if self.keys is None else self.keys * rate
        far = Extent(Per.PAIR, causal=True, window=seen, merged=rate)
        yield core(query, query, times, far, f"attention.core ({rate} tokens a key)")
        if self.indexer is None:
            return
        heads, dim = self.indexer.heads, self.indexer.head_dim
        yield from self._keys("indexer", hidden, dim, times)
        part, wide = Part.PROJECTION, heads * dim
        yield linear("indexer.q_proj", part, self.query_rank, wide, times=times)
        yield linear("indexer.weights", part, hidden, heads, times=times)
        past = Extent(Per.PAIR, causal=True, merged=rate)
        yield core(wide, heads, times, past, "indexer.scores")

    def _keys(self, name: str, hidden: int, dim: int, times: int) -> Iterator[Term]:
        """Keys and their weights in the mean over `rate` tokens; where they are chosen, over twice as many."""
        wide = dim * (1 if self.indexer is None else 2)
        for side in ("kv_proj", "gate_proj"):
            yield linear(f"{name}.{side}", Part.PROJECTION, hidden, wide, times=times)
        yield vector(f"{name}.vectors", ((self.rate or 0) * wide + dim) * times)


@dataclass(frozen=True, slots=True)
class Mamba2:
    """A Mamba-2 mixer (arXiv:2405.21060)."""

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    conv_bias: bool
    bias: bool
    out_bias: bool | None = None
    """Whether the output projection has a bias; None = like the input projection."""
    gate_norm: bool = True
    """Whether the gated output is normalised (not in Falcon-H1)."""

    @property
    def inner(self) -> int:
        """Width of the scan: heads times head dimension, which need not be twice the hidden size."""
        return self.heads * self.head_dim

    def terms(self, hidden: int, times: int) -> Iterator[Term]:
        """h(2 d + 2 G N + heads) in, (7/2) d N scan and d h out multiply-adds per token.

        Section 7 of the paper; the scan's constant is Megatron-LM's. The chunked kernel executes products whose size
        depends on the chunk, so a counter of the hardware sees more or fewer than the scan's 7.
        """
        inner, groups = self.inner, 2 * self.groups * self.state
        part, bias = Part.PROJECTION, self.bias
        inputs = 2 * inner + groups + self.heads
        yield linear("mamba.in_proj", part, hidden, inputs, times=times, bias=bias)
        yield depthwise("mamba.conv1d", inner + groups, self.kernel, times, self.conv_bias)
        yield scan("mamba.scan", SCAN_FLOPS * inner * self.state * times)
        out = bias if self.out_bias is None else self.out_bias
        yield linear("mamba.out_proj", part, inner, hidden, times=times, bias=out)
        yield vector("mamba.vectors", (3 * self.heads + self.gate_norm * inner) * times)


@dataclass(frozen=True, slots=True)
class Mamba1:
    """A Mamba mixer with a selective scan (arXiv:2312.00752)."""

    inner: int
    state: int
    kernel: int
    step_rank: int
    conv_bias: bool
    bias: bool
    inner_norms: bool = False
    """Whether time step, B and C are normalised (Jamba)."""

    def terms(self, hidden: int, times: int) -> Iterator[Term]:
        """h 2d in, d(R + 2N) to step and state, R d step, (7/2) d N scan, d h out multiply-adds per token.

        Section 3.4 and appendix C of the paper; R is the rank of the time step.
        """
        inner, both, part = self.inner, self.step_rank + 2 * self.state, Part.PROJECTION
        yield linear("mamba.in_proj", part, hidden, 2 * inner, times=times, bias=self.bias)
        yield depthwise("mamba.conv1d", inner, self.kernel, times, self.conv_bias)
        yield linear("mamba.x_proj", part, inner, both, times=times)
        yield linear("mamba.dt_proj", part, self.step_rank, inner, times=times, bias=True)
        yield scan("mamba.scan", SCAN_FLOPS * inner * self.state * times)
        yield linear("mamba.out_proj", part, inner, hidden, times=times, bias=self.bias)
        norms = self.inner_norms * both
        yield vector("mamba.vectors", (inner * self.state + inner + norms) * times)


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """A gated delta net (arXiv:2412.06464)."""

    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    kernel: int

    @property
    def value_dim(self) -> int:
        return self.value_heads * self.value_head_dim

    def terms(self, hidden: int, times: int) -> Iterator[Term]:
        """h(2 q + 2 v + 2 heads) in, kernel convolution, 4 heads d_v^2 state, v h out multiply-adds per token.

        The state's constant is Megatron-LM's `gdn_layer_flops`.
        """
        keys, values, heads = self.key_heads * self.key_head_dim, self.value_dim, self.value_heads
        part, inputs = Part.PROJECTION, 2 * keys + 2 * values + 2 * heads
        yield linear("delta.in_proj", part, hidden, inputs, times=times)
        yield depthwise("delta.conv1d", 2 * keys + values, self.kernel, times, False)
        yield scan("delta.state", 2 * DELTA_PRODUCTS * heads * self.value_head_dim**2 * times)
        yield linear("delta.out_proj", part, values, hidden, times=times)
        yield vector("delta.vectors", (2 * heads + self.value_head_dim) * times)


Mixer = GroupedAttention | LatentAttention | CompressedAttention | Mamba2 | Mamba1 | DeltaNet
