"""Counts the FLOPs of one step of a model: the terms of a convention, run as often as the step runs them."""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import conventions, families
from ofu_exporter.flops.conventions import Convention
from ofu_exporter.flops.fields import Fields, neutral
from ofu_exporter.flops.lengths import Lengths
from ofu_exporter.flops.models import Counting, Model, NotDefined, Parameters, own_terms, parameters
from ofu_exporter.flops.passes import Passes, TermPasses, plan
from ofu_exporter.flops.terms import TOKENS, Exact, Term, total, whole


@dataclass(frozen=True, slots=True)
class TermCount:
    """The FLOPs of one term in one step over all GPUs."""

    term: Term
    forward: Exact
    backward: Exact
    recomputed: Exact
    padding: Exact
    """FLOPs of padding tokens in all passes, which the hardware runs but the model does not need."""

    @property
    def model(self) -> Exact:
        """FLOPs of the term that the model needs: forward and backward once."""
        return self.forward + self.backward


@dataclass(frozen=True, slots=True)
class Count:
    """The FLOPs of one optimizer step over all GPUs."""

    family: str
    convention: str
    parameters: Parameters
    lines: tuple[TermCount, ...]
    tokens: Exact
    """Tokens of the main streams in the step; a count per token divides by them, and tokens/s counts them."""
    sequences: int
    warnings: tuple[str, ...]

    @property
    def model_flops_per_step(self) -> Exact:
        """FLOPs that the model needs: forward and backward once. The numerator of MFU."""
        return total(line.model for line in self.lines)

    @property
    def hardware_flops_per_step(self) -> Exact:
        """FLOPs that the hardware runs, including recomputed activations and padding. The numerator of HFU."""
        more = (line.recomputed + line.padding for line in self.lines)
        return total((self.model_flops_per_step, *more))

    @property
    def model_flops_per_token(self) -> Exact:
        """Model FLOPs over the tokens of the step: exact, so it may be a fraction."""
        return whole(Fraction(self.model_flops_per_step) / Fraction(self.tokens))

    @property
    def hardware_flops_per_token(self) -> Exact:
        """Hardware FLOPs over the tokens of the step."""
        return whole(Fraction(self.hardware_flops_per_step) / Fraction(self.tokens))

    @property
    def model_flops_per_sequence(self) -> Exact:
        """Model FLOPs over the sequences of the step, which is the mean if they are unequal."""
        return whole(Fraction(self.model_flops_per_step) / self.sequences)

    def per_token(self, line: TermCount) -> Exact:
        return whole(Fraction(line.model) / Fraction(self.tokens))


@dataclass(frozen=True, slots=True)
class Total:
    """Several counts of one step together, such as actor, reference and reward model of GRPO."""

    counts: tuple[Count, ...]

    @property
    def model_flops_per_step(self) -> Exact:
        return total(count.model_flops_per_step for count in self.counts)

    @property
    def hardware_flops_per_step(self) -> Exact:
        """The sum over the counts, with recomputed activations and padding."""
        return total(count.hardware_flops_per_step for count in self.counts)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Each warning of the counts once."""
        return tuple(dict.fromkeys(text for count in self.counts for text in count.warnings))


@dataclass(frozen=True, slots=True)
class How:
    """Everything that changes the count besides the model and its lengths."""

    convention: str = conventions.OWN
    counting: Counting = field(default_factory=Counting)
    passes: Passes = field(default_factory=Passes)


def read(config: Mapping[str, object], ignore: Iterable[str] = ()) -> Model:
    """The model of a configuration: Hugging Face's config.json or diffusers' transformer/config.json, unchanged.

    `ignore` names unknown fields that change no matrix product. Raises ConfigError for a field that is missing,
    negative, contradictory or unknown, which it names, and for an architecture that no family reads, with the nearest.
    """
    if "recipe_version" in config:
        from ofu_exporter.flops import recipes  # noqa: PLC0415 - pydantic takes milliseconds

        return recipes.read(config).model()
    architecture = _architecture(config)
    family = families.family_of(architecture)
    fields = Fields(config, neutral(family) | {*ignore})
    fields.has("architectures")
    read_by_family = families.load(family).read(fields, architecture)
    model = replace(read_by_family, longest=_longest(config))
    if not (unknown := ", ".join(fields.finish())):
        return model
    return replace(model, notes=(f"unknown fields taken to change no matrix product: {unknown}",))


def read_file(path: Path, ignore: Iterable[str] = ()) -> Model:
    """The model of a configuration in a JSON file, a folder or the local cache. Raises ConfigError, which names it."""
    from ofu_exporter.flops import config_file  # noqa: PLC0415 - json takes milliseconds

    return read(config_file.read_configuration(path), ignore)


def _longest(config: Mapping[str, object]) -> int | None:
    """The longest sequence that a configuration names, in tokens, extended by its rotary scaling."""
    text = config.get("text_config", config)
    if not isinstance(text, Mapping):
        return None
    named = [text.get(name) for name in ("max_position_embeddings", "n_positions")]
    most = next((value for value in named if type(value) is int and value > 0), None)
    scaling = text.get("rope_scaling") or text.get("rope_parameters")  # transformers 5
    if most is None or not isinstance(scaling, Mapping):
        return most
    factor, original = scaling.get("factor"), scaling.get("original_max_position_embeddings", most)
    if type(original) is not int or not isinstance(factor, int | float) or not factor < math.inf:
        return most
    return max(most, int(original * factor))


def _architecture(config: Mapping[str, object]) -> str:
    named = config.get("architectures", config.get("_class_name"))
    model_type = config.get("model_type")
    if named is None and isinstance(model_type, str):
        named = families.of_type(model_type)
    names = named if isinstance(named, list) else [named]
    if len(names) != 1 or not isinstance(names[0], str):
        raise ConfigError(
            f'architectures: needs exactly one entry, not {named!r}, such as ["LlamaForCausalLM"]'
        )
    return names[0]


def count(
    model: Model, lengths: Lengths, how: How | None = None, executed: Lengths | None = None
) -> Count:
    """The FLOPs of one step. `lengths` has its samples over all GPUs, `executed` the same with padding if there is any.

    Raises ConfigError for an unknown convention, one that isn't defined for the family (the error lists those that
    are), choices that contradict the convention or the model, and padding that makes a step smaller.
    """
    how = how or How()
    convention = conventions.load(how.convention)
    is_own = how.convention == conventions.OWN
    if (how.passes.frozen or how.passes.lora) and not is_own:
        wrong = f"convention {how.convention} does not count frozen parts or adapters"
        raise ConfigError(f"{wrong}; use convention model")
    try:
        terms = convention.terms(model, how.counting)
    except NotDefined as error:
        raise ConfigError(f"{error}; defined for it: {', '.join(_defined(model))}") from error
    runs = plan(terms, how.passes, model.towers, model.layers, not is_own)
    parameter_terms = terms if is_own else own_terms(model, replace(how.counting, causal=None))
    full = complete(model, lengths)
    padded = full if executed is None else complete(model, executed)
    lines = tuple(_line(run, full, padded, how.passes.repeats) for run in runs if run.term.flops)
    _check_modules(lines)
    return Count(
        family=model.family,
        convention=how.convention,
        parameters=parameters(parameter_terms),
        lines=lines,
        tokens=total(full.tokens(stream) for stream in model.counted),
        sequences=full.sequences(model.counted[0]),
        warnings=tuple(_warnings(model, lengths, convention, how.counting)),
    )


def _warnings(
    model: Model, lengths: Lengths, convention: Convention, counting: Counting
) -> Iterator[str]:
    yield from model.notes
    if model.shape is not None:
        yield from convention.warnings(model, model.shape, counting)
    length = lengths.longest() if TOKENS in lengths.streams else 0
    if model.longest is not None and length > model.longest:  # usually a mistake in the length
        yield f"sequences of {length} tokens are longer than the model's own maximum of {model.longest}"
    for stream, merged in model.merged.items():
        yield from _misfits(lengths, stream, merged)


def _misfits(lengths: Lengths, stream: str, merged: int) -> Iterator[str]:
    """What is impossible of patches that are merged into tokens of the sequences."""
    sizes = {dict(sample).get(stream, 0) for sample, _ in lengths.samples}
    if odd := sorted(size for size in sizes if size % merged):
        yield f"{stream}: {odd[0]} patches are no multiple of the {merged} that become one token"
    inside, tokens = whole(Fraction(lengths.tokens(stream)) / merged), lengths.tokens()
    if inside > tokens:
        yield f"{stream}: {inside} tokens of patches are more than all {tokens} of the sequences, which hold them"


def _line(run: TermPasses, lengths: Lengths, padded: Lengths, repeats: int) -> TermCount:
    flops = run.term.flops * repeats
    once = lengths.of(run.term.extent) * flops
    more = 0 if padded is lengths else padded.of(run.term.extent) * flops - once
    if more < 0:
        raise ConfigError("executed: a padded step is smaller than the step without padding")
    return TermCount(
        run.term,
        forward=whole(once * (1 + run.reference)),
        backward=whole(once * run.backward),
        recomputed=whole(once * run.recomputed),
        padding=whole(more * (run.model + run.recomputed)),
    )


def _check_modules(lines: Iterable[TermCount]) -> None:
    """Raise ConfigError for a module below 0 FLOPs, as a recipe makes them far below the lengths of its fit."""
    sums: defaultdict[tuple[str, str], Exact] = defaultdict(int)
    for line in lines:
        sums[line.term.tower, line.term.name] += line.forward
    for (_, name), flops in [*sums.items(), (("", "the model"), total(sums.values()))]:
        if flops <= -1:  # a fraction of a FLOP is what the rounding of a fit makes of 0
            raise ConfigError(f"lengths: {name} has FLOPs below 0 at these lengths")


def complete(model: Model, lengths: Lengths) -> Lengths:
    """The lengths of all streams of the model. Raises ConfigError for one missing or unknown."""
    streams = ", ".join(model.streams) or "none (the configuration fixes them)"
    for name in sorted(lengths.streams - {*model.streams, *model.lengths}):
        raise ConfigError(f"lengths: {model.architecture} has no stream {name!r}; known: {streams}")
    for name in model.streams:
        if name not in lengths.streams:
            raise ConfigError(
                f"lengths: the length of stream {name!r} is missing; needed: {streams}"
            )
    full = lengths.with_fixed(model.lengths)
    if not full.sequences(model.counted[0]):
        raise ConfigError(f"lengths: {model.counted[0]} must be at least 1")
    return full


def _defined(model: Model) -> list[str]:
    defined = []
    for name in conventions.names():
        with contextlib.suppress(NotDefined):
            conventions.load(name).terms(model, Counting())
            defined.append(name)
    return defined
