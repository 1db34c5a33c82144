"""Plans the passes of a step over each term: forward, backward, and forward again where activations are recomputed.

A linear layer's backward pass is two products of the size of the forward one, for the gradients of its input and of
its weights (Megatron-LM, arXiv:2104.04473, appendix); an attention core has two as well. So a trained term costs 3
forwards, a frozen one 2 when a gradient passes through it, and 1 when none does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.terms import Exact, Part, Term


class Recompute(str, Enum):
    """Which activations are computed a second time in the backward pass."""

    NONE = "none"
    SELECTIVE = "selective"
    """The attention cores only (arXiv:2205.05198, section 5)."""
    FULL = "full"
    """Every layer; the parts outside the layers (embedding, head) keep their activations."""


def check_recompute(forward_only: bool | None, recompute: Recompute | str | None) -> None:
    """Raise ConfigError for recomputation in a job without backward passes."""
    if forward_only and recompute not in (None, Recompute.NONE):
        raise ConfigError("recompute: a forward-only pass has no activations to compute again")


ADAPTER_TARGETS = tuple(f"{side}_proj" for side in ("q", "k", "v", "o", "gate", "up", "down"))
"""The linear layers that get adapters, unless the user names others."""


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank adapters (arXiv:2106.09685) of frozen linear layers."""

    rank: int
    targets: tuple[str, ...] = ADAPTER_TARGETS
    """Last parts of the names of terms, such as `q_proj`."""


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes of one step. By default everything is trained, without recomputation."""

    forward_only: bool = False
    recompute: Recompute = Recompute.NONE
    recompute_layers: int | None = None
    """How many layers are recomputed, each counted as an average one; None = all."""
    frozen: frozenset[str] = frozenset()
    """Towers whose weights are not trained. A frozen tower after a trained one still passes gradients."""
    lora: Lora | None = None
    reference: bool = False
    """Whether a frozen copy, without adapters, runs forward over the same samples: the reference of DPO."""
    repeats: int = 1
    """How often the model runs per step and sample: timesteps, guidance passes, epochs over one batch."""

    def __post_init__(self) -> None:
        check_recompute(self.forward_only, self.recompute)
        if self.recompute is Recompute.NONE and self.recompute_layers is not None:
            needed = "also give recompute, which says what is recomputed in them"
            raise ConfigError(f"recompute_layers: {needed}")
        if self.lora is not None and self.lora.rank < 1:
            raise ConfigError(f"lora rank: {self.lora.rank} is below 1")
        if self.repeats < 1:
            raise ConfigError(f"repeats: {self.repeats} is below 1")


@dataclass(frozen=True, slots=True)
class TermPasses:
    """A term and what each pass over it costs, in forward passes."""

    term: Term
    backward: Exact
    recomputed: Exact
    reference: int = 0

    @property
    def model(self) -> Exact:
        """What the model needs, the forward pass included: the numerator of MFU."""
        return 1 + self.backward + self.reference


def plan(
    terms: Iterable[Term],
    passes: Passes,
    towers: tuple[str, ...],
    layers: int,
    recompute_all: bool = False,
) -> list[TermPasses]:
    """The passes of a step over each term, adapters included, of a model with these towers and this number of layers.

    With `recompute_all`, full recomputation repeats the whole forward pass, not only the layers. Raises ConfigError for
    a tower, a target or a number of layers that the model does not have.
    """
    _check(passes, towers, layers)
    counted = list(terms)
    adapters = list(_adapters(counted, passes.lora)) if passes.lora else []
    trained = {term.tower for term in adapters} if passes.lora else {*towers} - passes.frozen
    # A gradient passes through the trained towers, and through the last, which follows all the others.
    reached = {*trained, towers[-1]} if trained else set()
    share = Fraction(passes.recompute_layers or layers or 1, layers or 1)
    runs = []
    for number, term in enumerate([*counted, *adapters]):
        is_trained = number >= len(counted) if passes.lora else term.tower in trained
        has_backward = not passes.forward_only and term.tower in reached
        backward = _backward(term, is_trained) if has_backward else 0
        again = backward and _runs_again(term, passes.recompute, recompute_all)
        reference = int(passes.reference and number < len(counted))
        runs.append(TermPasses(term, backward, share if again else 0, reference))
    return runs


def _check(passes: Passes, towers: tuple[str, ...], layers: int) -> None:
    if unknown := sorted(passes.frozen - {*towers}):
        raise ConfigError(f"frozen: no part {', '.join(unknown)}; known: {', '.join(towers)}")
    recomputed = passes.recompute_layers
    if recomputed is not None and not 1 <= recomputed <= layers:
        wrong = f"{recomputed} is not between 1 and the model's {layers}"
        raise ConfigError(f"recompute_layers: {wrong}")


def _backward(term: Term, trained: bool) -> Exact:
    inputs, weights = term.gradients or ((1, 1) if term.has_weights else (2, 0))
    return inputs + weights if trained or not term.has_weights else inputs


def _runs_again(term: Term, recompute: Recompute, everything: bool) -> bool:
    if recompute is Recompute.SELECTIVE:
        return term.part is Part.CORE
    return recompute is Recompute.FULL and (term.in_layers or everything)


def _adapters(terms: list[Term], lora: Lora) -> Iterator[Term]:
    """Two matrices of `rank` columns beside each targeted matrix: rank * (inputs + outputs) weights."""
    met = set()
    for term in terms:
        target = term.name.rpartition(".")[2]
        if target not in lora.targets:
            continue
        met.add(target)
        if term.linear is None:
            raise ConfigError(f"lora targets: {term.name} has no sides of its own to adapt")
        weights = lora.rank * (term.linear.inputs + term.linear.outputs)
        yield replace(
            term,
            name=f"{term.name}.lora",
            flops=2 * weights * term.linear.used,
            parameters=weights * term.linear.stored,
            active=weights * min(term.linear.used, term.linear.stored),
            linear=None,
            gradients=None,
        )
    if not met:
        names = ", ".join(sorted({term.name.rpartition(".")[2] for term in terms if term.linear}))
        raise ConfigError(f"lora targets: none of {', '.join(lora.targets)} here; known: {names}")
