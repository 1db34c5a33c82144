"""Holds what a job served, and makes of it what a token cost: sums over sums of the same hours.

A token counts where it is the engine's work: without those from a cache, of an engine that prefills those of prompts,
of one that decodes the generated ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ofu_exporter.fleet.history.served_result import ServedModelRow
from ofu_exporter.support.percent import ratio
from ofu_exporter.values.losses import JOULES_PER_KWH
from ofu_exporter.values.served import CACHED, GENERATION, PROMPT, RECOMPUTED, TOKEN_KINDS

_PREFILL, _DECODE, _BOTH = "prefill", "decode", "both"
_WORK = {
    _PREFILL: frozenset({PROMPT, RECOMPUTED}),
    _DECODE: frozenset({GENERATION}),
    _BOTH: frozenset(TOKEN_KINDS) - {CACHED},
}


@dataclass(slots=True)
class ServedSums:
    """What the engines of a job served."""

    tokens: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """By the model that the engine names, and kind."""
    held: float = 0.0
    """GPU-hours of the hours whose tokens are known."""
    held_tokens: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By kind, of these hours."""
    joules: float = 0.0
    joules_tokens: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By kind, of the hours whose energy is known."""
    idle_joules: float = 0.0
    """Of engines without a request."""
    memory_busy: float = 0.0
    memory: float = 0.0
    """GPU-hours in which the share of cycles was measured in which memory moved data."""
    roles: set[str] = field(default_factory=set)

    def add_hour(
        self, tokens: Mapping[tuple[str, str], float], held: float | None, joules: float | None
    ) -> None:
        """Add the tokens of an hour; what is not known of it takes its tokens out of that ratio."""
        for (model, kind), count in sorted(tokens.items()):
            self.tokens[model, kind] += count
            if held is not None:
                self.held_tokens[kind] += count
            if joules is not None:
                self.joules_tokens[kind] += count
        self.held += held or 0.0
        self.joules += joules or 0.0

    def add_rest(
        self, idle_joules: float | None, memory_busy: float | None, memory: float | None
    ) -> None:
        self.idle_joules += idle_joules or 0.0
        if memory_busy is not None and memory is not None:
            self.memory_busy += memory_busy
            self.memory += memory

    @property
    def role(self) -> str:
        """The one role of all its engines, else both."""
        return next(iter(self.roles)) if len(self.roles) == 1 else _BOTH

    def work(self, tokens: Mapping[str, float]) -> float:
        """The tokens that are the work of its engines."""
        kinds = _WORK.get(self.role, _WORK[_BOTH])
        return sum(count for kind, count in tokens.items() if kind in kinds)

    def kinds(self) -> dict[str, float]:
        """Tokens by kind, of all models."""
        sums: dict[str, float] = defaultdict(float)
        for (_, kind), count in self.tokens.items():
            sums[kind] += count
        return sums

    def models(self) -> set[str]:
        return {model for model, _ in self.tokens}


class PricedServed(NamedTuple):
    sums: ServedSums
    price: float | None
    """Of a GPU-hour; None where nobody said."""


def served_columns(jobs: Iterable[PricedServed]) -> dict[str, float | None]:
    """The fields of `ServedColumns` for some jobs together; none where none of them serves."""
    members = list(jobs)
    if not members:
        return {}
    kinds: dict[str, float] = defaultdict(float)
    for each in members:
        for kind, count in each.sums.kinds().items():
            kinds[kind] += count
    sums = [each.sums for each in members]
    priced = [each for each in members if each.price is not None and each.sums.held]
    joules = sum(each.joules for each in sums)
    held_hours, memory = sum(each.held for each in sums), sum(each.memory for each in sums)
    return {
        **{f"{kind}_tokens": kinds.get(kind) for kind in TOKEN_KINDS},
        "serving_gpu_hours": held_hours or None,
        "serving_kwh": joules / JOULES_PER_KWH if joules else None,
        "idle_engine_kwh": sum(each.idle_joules for each in sums) / JOULES_PER_KWH
        if joules
        else None,
        "joules_per_token": ratio(joules, sum(each.work(each.joules_tokens) for each in sums))
        if joules
        else None,
        "tokens_per_gpu_second": ratio(
            sum(each.work(each.held_tokens) for each in sums), 3600 * held_hours
        ),
        "serving_cost": sum(_cost(each) for each in priced) if priced else None,
        "cost_per_million_tokens": _per_million(priced),
        "cost_per_million_prompt_tokens": _per_million(_of_role(priced, _PREFILL)),
        "cost_per_million_generation_tokens": _per_million(_of_role(priced, _DECODE)),
        "memory_ratio": ratio(sum(each.memory_busy for each in sums), memory)
        if memory >= held_hours / 2
        else None,
    }


def _cost(job: PricedServed) -> float:
    return job.sums.held * (job.price or 0.0)


def _of_role(jobs: Iterable[PricedServed], role: str) -> list[PricedServed]:
    return [each for each in jobs if each.sums.role == role]


def _per_million(jobs: Iterable[PricedServed]) -> float | None:
    members = list(jobs)
    tokens = sum(each.sums.work(each.sums.held_tokens) for each in members)
    cost = ratio(sum(map(_cost, members)), tokens)
    return None if cost is None else 1e6 * cost


def served_models(jobs: Iterable[PricedServed]) -> list[ServedModelRow]:
    """What jobs served by model, the one with most tokens first."""
    by_model: dict[str, list[PricedServed]] = defaultdict(list)
    for each in jobs:
        for model in each.sums.models():
            by_model[model].append(each)
    rows = [_model_row(model, members) for model, members in by_model.items()]
    return sorted(rows, key=lambda row: (-_tokens(row), row.served_model))


def _model_row(model: str, jobs: Sequence[PricedServed]) -> ServedModelRow:
    tokens: dict[str, float] = {}
    for each in jobs:
        for (of, kind), count in each.sums.tokens.items():
            if of == model:
                tokens[f"{kind}_tokens"] = tokens.get(f"{kind}_tokens", 0.0) + count
    alone = served_columns(each for each in jobs if each.sums.models() == {model})
    return ServedModelRow.model_validate(
        {**alone, **tokens, "served_model": model, "jobs": len(jobs)}
    )


def _tokens(row: ServedModelRow) -> float:
    kinds = row.prompt_tokens, row.recomputed_tokens, row.generation_tokens
    return sum(each or 0.0 for each in kinds)
