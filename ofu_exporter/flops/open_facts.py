"""Says which facts were not given: those that a cause needs to be tried, and those that tell causes apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ofu_exporter.flops.causes import CauseFacts, causes

FEW_JOBS_HAVE = {"padded_to", "lengths", "tile_overhead"}
"""Facts of padding, packs and tiles, which are not asked for to try a cause."""
THROUGHPUT = "tokens_per_second"
NEEDED_BY_THROUGHPUT = ("config", "gpu", "gpus", "precision")
APART = 0.02
"""A throughput tells reports apart that differ by more than this share."""


class Tied(NamedTuple):
    """One of several explanations that fit equally well."""

    causes: tuple[str, ...]
    report: float
    """Reported over right MFU."""


def untried(facts: CauseFacts) -> tuple[tuple[str, str], ...]:
    """The causes that need facts which were not given, and these facts. Only facts that every job has are named."""
    is_given = _given(facts)
    missing = ((each.slug, [n for n in each.needs if not is_given[n]]) for each in causes())
    common = ((slug, needs) for slug, needs in missing if needs and not FEW_JOBS_HAVE & {*needs})
    return tuple((slug, ", ".join(needs)) for slug, needs in common)


def telling(tied: Sequence[Tied], facts: CauseFacts, right_mfu: float | None) -> tuple[str, ...]:
    """Facts that were not given and can tell tied causes apart, by their options: a fact that settles some and not all
    of them, and a throughput if the right MFUs differ."""
    if len(tied) < 2:
        return ()
    is_given = {**_given(facts), THROUGHPUT: right_mfu is not None}
    settled_by = {each.slug: {*each.settled_by} for each in causes()}
    of_each = [{name for slug in each.causes for name in settled_by[slug]} for each in tied]
    named = set[str]().union(*of_each)
    some = named - named.intersection(*of_each)
    reports = [each.report for each in tied]
    if max(reports) / min(reports) > 1 + APART and not is_given[THROUGHPUT]:
        some |= {*NEEDED_BY_THROUGHPUT, THROUGHPUT}
    return tuple(name for name in is_given if name in some and not is_given[name])


def _given(facts: CauseFacts) -> dict[str, bool]:
    step = facts.step
    return {
        "config": step is not None,
        "gpu": facts.gpu is not None,
        "gpus": facts.gpus is not None,
        "precision": facts.precision is not None,
        "peak_tflops": facts.peak_flops is not None,
        "recompute": facts.recompute is not None,
        "training": facts.forward_only is not None,
        "accumulation": facts.accumulation is not None,
        "padded_to": facts.executed is not None,
        "lengths": step is not None and len(step.lengths.samples) > 1,
        "pack_length": facts.pack_length is not None,
        "tile_overhead": facts.tile_overhead is not None,
    }
