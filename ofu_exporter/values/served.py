"""What the serving engines of a job have served since the agent first read them, by the counters of their pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TypeVar

KeyT = TypeVar("KeyT")

PROMPT, CACHED, RECOMPUTED, GENERATION = "prompt", "cached", "recomputed", "generation"
TOKEN_KINDS = (PROMPT, CACHED, RECOMPUTED, GENERATION)
"""Disjoint: `prompt` are the tokens of prompts that were computed once; `cached` were not computed; `recomputed` were
in the cache and computed all the same."""


@dataclass(slots=True)
class Served:
    """Counters by the model that the engine names; a key that is absent was on no page."""

    tokens: defaultdict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """By model and kind."""
    requests: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Requests that finished."""
    forward_seconds: defaultdict[tuple[str, str], float] = field(
        default_factory=lambda: defaultdict(float)
    )
    """Seconds of forward passes, of each rank, by model and phase."""
    moved_bytes: defaultdict[tuple[str, str], float] = field(
        default_factory=lambda: defaultdict(float)
    )
    """Bytes of one GPU's memory, by model and `read` or `write`, as the engine estimates them."""
    flops: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """FLOPs of one GPU, by model, as the engine estimates them."""
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Time over which the counters of each engine of a model were read, added over engines."""
    running: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Requests that run, by model, at the last pull; empty when that had no page."""
    waiting: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    engines: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Engines that are read, by their role."""

    def add(self, other: Served) -> None:
        """Add another engine of the same job."""
        add_to(self.tokens, other.tokens)
        add_to(self.requests, other.requests)
        add_to(self.forward_seconds, other.forward_seconds)
        add_to(self.moved_bytes, other.moved_bytes)
        add_to(self.flops, other.flops)
        add_to(self.seconds, other.seconds)
        add_to(self.running, other.running)
        add_to(self.waiting, other.waiting)
        add_to(self.engines, other.engines)


def add_to(sums: MutableMapping[KeyT, float], more: Mapping[KeyT, float]) -> None:
    """Add values to sums, key by key."""
    for key, value in more.items():
        sums[key] = sums.get(key, 0.0) + value
