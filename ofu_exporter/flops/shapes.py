"""Describes the shape of a decoder: the blocks of its layers, in the field's words.

A family turns a configuration into a shape; a counting convention turns a shape into terms. So every convention
works for every family that has a shape, or refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

Block = TypeVar("Block")


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
    window: int | None = None
    chunk: int | None = None
    """Tokens of a chunk; attention stays inside it (windows of an image, local layers of Llama 4)."""

    @property
    def query_dim(self) -> int:
        return self.heads * self.head_dim

    @property
    def key_dim(self) -> int:
        return self.groups * self.head_dim


@dataclass(frozen=True, slots=True)
class Indexer:
    """Scores every key for every query with small heads, so that attention runs on the best (DeepSeek-V3.2)."""

    heads: int
    head_dim: int


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
    bias: bool = False
    keys: int | None = None
    """How many keys a query attends to, if an indexer chooses them."""
    indexer: Indexer | None = None
    """The layer's own indexer; None if it uses another layer's choice."""

    @property
    def query_dim(self) -> int:
        return self.heads * (self.nope_dim + self.rope_dim)


@dataclass(frozen=True, slots=True)
class Mamba2:
    """A Mamba-2 mixer (arXiv:2405.21060)."""

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    conv_bias: bool = True
    bias: bool = False
    out_bias: bool | None = None
    """Whether the output projection has a bias; None = like the input projection."""
    gate_norm: bool = True
    """Whether the gated output is normalised (not in Falcon-H1)."""

    @property
    def inner(self) -> int:
        """Width of the scan: heads times head dimension, which need not be twice the hidden size."""
        return self.heads * self.head_dim


@dataclass(frozen=True, slots=True)
class Mamba1:
    """A Mamba mixer with a selective scan (arXiv:2312.00752)."""

    inner: int
    state: int
    kernel: int
    step_rank: int
    conv_bias: bool = True
    bias: bool = False
    inner_norms: bool = False
    """Whether time step, B and C are normalised (Jamba)."""


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """A gated delta net (arXiv:2412.06464)."""

    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    kernel: int

    @property
    def key_dim(self) -> int:
        return self.key_heads * self.key_head_dim

    @property
    def value_dim(self) -> int:
        return self.value_heads * self.value_head_dim


@dataclass(frozen=True, slots=True)
class Mlp:
    """A feed-forward block: two matrices, or three when it is gated (SwiGLU, GeGLU)."""

    width: int
    gated: bool
    bias: bool = False
    activation_parameters: int = 0
    """Parameters of an activation that learns its shape (xIELU of Apertus, arXiv:2411.13010)."""

    @property
    def matrices(self) -> int:
        return 3 if self.gated else 2


@dataclass(frozen=True, slots=True)
class Experts:
    """A sparse feed-forward block: each token goes to `active` of `experts`, and to the shared one."""

    experts: int
    active: int
    width: int
    gated: bool
    shared_width: int = 0
    """Width of all shared experts together."""
    shared_gate: bool = False
    latent: int | None = None
    """Width to which activations are projected down before the routed experts, and up after them."""
    bias: bool = False
    router_bias: bool = False
    outer_bias: bool = False
    """Whether the shared experts and the projections to a latent have biases of their own."""
    correction_bias: bool = False
    """Whether each expert has a score bias that balances the load (DeepSeek-V3)."""

    @property
    def matrices(self) -> int:
        return 3 if self.gated else 2


Mixer = GroupedAttention | LatentAttention | Mamba2 | Mamba1 | DeltaNet
FeedForward = Mlp | Experts


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: a mixer of tokens, a feed-forward block, or both."""

    mixer: Mixer | None
    feed_forward: FeedForward | None
    norm_parameters: int = 0
    """Parameters of the layer's own norms, of all of them together."""


def grouped(layers: Iterable[Layer]) -> list[tuple[Layer, int]]:
    """Each different layer and how many there are of it, in the order of first appearance."""
    # A model has few different layers, and comparing two costs less than hashing all of their fields.
    groups: list[tuple[Layer, int]] = []
    for layer in layers:
        for index, (other, number) in enumerate(groups):
            if other is layer or other == layer:
                groups[index] = (other, number + 1)
                break
        else:
            groups.append((layer, 1))
    return groups


@dataclass(frozen=True, slots=True)
class Decoder:
    """A language model that reads its own past."""

    hidden: int
    vocab: int
    tied: bool
    layers: tuple[Layer, ...]
    final_norm_parameters: int
    positions: int = 0
    """Rows of a table of learned positions; 0 = positions are not learned."""
    embedding_norm_parameters: int = 0
    embedding_width: int | None = None
    """Width of the embedding if it is not the hidden size and is projected to that (OPT-350M)."""
    head_bias: bool = False
    labels: int | None = None
    """Rows of a classifier that replaces the head over the vocabulary."""
    predictions: int = 0
    """Depths of multi-token prediction that the configuration names (DeepSeek-V3, arXiv:2412.19437)."""
    prediction_layers: tuple[Layer, ...] = ()
    """The layers of one depth, if that is not one layer like the last."""

    @property
    def head_rows(self) -> int:
        """Width of the head's output: the vocabulary, or labels."""
        return self.vocab if self.labels is None else self.labels

    def mixers(self, kind: type[Block]) -> list[Block]:
        """The mixers of one kind, one per layer that has it."""
        return [layer.mixer for layer in self.layers if isinstance(layer.mixer, kind)]

    def feed_forwards(self, kind: type[Block]) -> list[Block]:
        """The feed-forward blocks of one kind, one per layer that has it."""
        return [layer.feed_forward for layer in self.layers if isinstance(layer.feed_forward, kind)]

    def predicting(self, depth: int) -> tuple[Layer, ...]:
        """The layers of multi-token prediction, for `depth` depths."""
        return (self.prediction_layers or self.layers[-1:]) * depth


Norms = Callable[[int], int]
"""Returns the parameters of one norm over a number of features."""


def rms_norm(features: int) -> int:
    """One scale per feature (arXiv:1910.07467)."""
    return features


def no_norm(features: int) -> int:
    """A norm without parameters (OLMo, arXiv:2402.00838)."""
    return 0 * features


def layer_norm(features: int) -> int:
    """A scale and a shift per feature (arXiv:1607.06450)."""
    return 2 * features
