"""What the serving engines of a job have served since the agent first read them, by the counters of their pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

KeyT = TypeVar("KeyT")

PROMPT, CACHED, RECOMPUTED, GENERATION = "prompt", "cached", "recomputed", "generation"
TOKEN_KINDS = (PROMPT, CACHED, RECOMPUTED, GENERATION)
"""Disjoint: `prompt` are the tokens of prompts that were computed once; `cached` were not computed; `recomputed` were
in the cache and computed all the same."""


def _sums() -> defaultdict[Any, float]:
    return defaultdict(float)


@dataclass(slots=True)
class Served:
    """Counters by the model that the engine names; a key that is absent was on no page."""

    tokens: defaultdict[tuple[str, str], float] = field(default_factory=_sums)
    """By model and kind."""
    requests: defaultdict[str, float] = field(default_factory=_sums)
    """Requests that finished."""
    forward_seconds: defaultdict[tuple[str, str], float] = field(default_factory=_sums)
    """Seconds of forward passes, of each rank, by model and phase."""
    moved_bytes: defaultdict[tuple[str, str], float] = field(default_factory=_sums)
    """Bytes of one GPU's memory, by model and `read` or `write`, as the engine estimates them."""
    flops: defaultdict[str, float] = field(default_factory=_sums)
    """FLOPs of one GPU, by model, as the engine estimates them."""
    seconds: defaultdict[str, float] = field(default_factory=_sums)
    """Time over which the counters of each engine of a model were read, added over engines."""
    running: defaultdict[str, float] = field(default_factory=_sums)
    """Requests that run, by model, at the last pull; empty when that had no page."""
    waiting: defaultdict[str, float] = field(default_factory=_sums)
    engines: defaultdict[str, float] = field(default_factory=_sums)
    """Engines that are read, by their role."""

    def add(self, other: Served) -> None:
        """Add another engine of the same job."""
        for each in fields(self):
            add_to(getattr(self, each.name), getattr(other, each.name))


def add_to(sums: MutableMapping[KeyT, float], more: Mapping[KeyT, float]) -> None:
    """Add values to sums, key by key."""
    for key, value in more.items():
        sums[key] = sums.get(key, 0.0) + value
