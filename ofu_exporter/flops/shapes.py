"""Describes the shape of a decoder, the blocks of its layers in the field's words, and makes its terms.

A family turns a configuration into a shape; a counting convention turns a shape into terms, most of them its own. So
every convention works for every family that has a shape, or refuses it. Shapes: h hidden, f feed-forward width, V
vocabulary. Everything except matrix products, convolutions and scans (norms, activations, softmax, rotary positions,
residuals) is left out, as in every other counter of the field: it is under 1 % and not on the tensor cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TypeVar

from ofu_exporter.flops.mixers import Mixer
from ofu_exporter.flops.products import embedding, linear, vector
from ofu_exporter.flops.terms import TOKENS, Part, Term, merge

Block = TypeVar("Block")


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

    def terms(self, hidden: int, times: int) -> Iterator[Term]:
        """2 h f multiply-adds per token, 3 h f when gated."""
        part, width = Part.MLP, self.width
        for name in ("gate_proj", "up_proj")[not self.gated :]:
            yield linear(f"mlp.{name}", part, hidden, width, times=times, bias=self.bias)
        yield linear("mlp.down_proj", part, width, hidden, times=times, bias=self.bias)
        yield vector("mlp.activation", self.activation_parameters * times)


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

    def terms(self, hidden: int, times: int) -> Iterator[Term]:
        """Router h E, routed c k l m, latent 2 h l, shared c h s multiply-adds per token.

        k of E experts of width m; c = 3 when gated, else 2; l = h unless the experts run on a latent: a token is
        projected to it once (not once per expert), and back. Shared experts stay at the hidden size.
        """
        part, outer, inside = Part.EXPERTS, self.outer_bias, self.latent or hidden
        yield linear(
            "router", Part.ROUTER, hidden, self.experts, times=times, bias=self.router_bias
        )
        yield vector("router.correction", self.correction_bias * self.experts * times)
        if self.latent is not None:
            for name, sides in (("down", (hidden, inside)), ("up", (inside, hidden))):
                yield linear(f"experts.latent_{name}", part, *sides, times=times, bias=outer)
        stored, used = self.experts * times, self.active * times
        many = partial(linear, times=stored, used=used, bias=self.bias)
        for name in ("gate_proj", "up_proj")[not self.gated :]:
            yield many(f"experts.{name}", part, inside, self.width)
        yield many("experts.down_proj", part, self.width, inside)
        if self.shared_width:
            shared = Mlp(self.shared_width, self.gated, self.bias or outer)
            for term in shared.terms(hidden, times):
                yield replace(term, name=term.name.replace("mlp", "shared_expert"), part=part)
            if self.shared_gate:
                yield linear("shared_expert.gate", Part.ROUTER, hidden, 1, times=times)


FeedForward = Mlp | Experts


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: a mixer of tokens, a feed-forward block, or both."""

    mixer: Mixer | None
    feed_forward: FeedForward | None
    norm_parameters: int = 0
    """Parameters of the layer's own norms, of all of them together."""

    def terms(self, hidden: int, times: int) -> Iterator[Term]:
        """The terms of this number of such layers."""
        for block in (self.mixer, self.feed_forward):
            if block is not None:
                yield from block.terms(hidden, times)
        yield vector("norms", self.norm_parameters * times)


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


def _stack(hidden: int, layers: Iterable[Layer], times: int = 1) -> Iterator[Term]:
    """The terms of a stack of layers. Equal layers are counted together."""
    for layer, number in grouped(layers):
        yield from layer.terms(hidden, number * times)


def encoder(
    hidden: int, layers: Iterable[Layer], stream: str = TOKENS, prefix: str = ""
) -> Iterator[Term]:
    """The terms of layers that attend in both directions over one stream; `prefix` is put before their names."""
    for term in _stack(hidden, layers):
        extent = replace(term.extent, stream=stream, causal=False)
        yield replace(term, name=prefix + term.name, extent=extent)


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

    @property
    def predicting(self) -> tuple[Layer, ...]:
        """The layers of one depth of multi-token prediction."""
        return self.prediction_layers or self.layers[-1:]

    def terms(self, predictions: bool = False) -> tuple[Term, ...]:
        """All terms: embedding, layers, head.

        Each depth of multi-token prediction has a layer like the last one, a projection of [hidden; embedding] and
        the head again (DeepSeek-V3, section 2.2); embedding and head are shared.
        """
        return _merged(self, self.predictions if predictions else 0)

    def each_term(self, depth: int) -> Iterator[Term]:
        hidden, width = self.hidden, self.embedding_width or self.hidden
        yield embedding("embed_tokens", self.vocab, width)
        yield embedding("embed_positions", self.positions, hidden)
        yield vector("embed_norm", self.embedding_norm_parameters, in_layers=False)
        if width != hidden:
            yield linear("project_in", Part.PROJECTION, width, hidden, in_layers=False)
            yield linear("project_out", Part.PROJECTION, hidden, width, in_layers=False)
        yield from _stack(hidden, self.layers)
        if depth:
            yield from _stack(hidden, self.predicting, depth)
            yield linear("mtp.eh_proj", Part.PREDICTION, 2 * hidden, hidden, times=depth)
            yield vector("mtp.norms", (2 * hidden + self.final_norm_parameters) * depth)
        yield vector("final_norm", self.final_norm_parameters, in_layers=False)
        yield self._head(width, 1 + depth)

    def _head(self, width: int, times: int) -> Term:
        """2 h V FLOPs per token and prediction; a head that is tied to the embedding has no parameters of its own."""
        rows, tied = self.head_rows, self.tied and self.labels is None
        parameters = (0 if tied else width * rows) + self.head_bias * rows
        name = "lm_head" if self.labels is None else "score"
        flops = 2 * width * rows * times
        return Term(
            name, Part.HEAD, flops=flops, parameters=parameters, active=parameters, in_layers=False
        )


@lru_cache(16)  # causes are tried in pairs, and few of them change a layer
def _merged(decoder: Decoder, depth: int) -> tuple[Term, ...]:
    return merge(decoder.each_term(depth))
