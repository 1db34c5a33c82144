"""Keeps for which time each GPU is credited to a job, so that no second of a GPU is held by two jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ofu_exporter.values.gpu import GpuKey

Span = tuple[float, float]
"""From and until, in seconds on the monotonic clock."""
Credited = Mapping[GpuKey, tuple[Span, ...]]
"""The spans of each GPU that are credited to some job, oldest first, without overlap."""

MOST_SPANS = 64
"""Most spans of one GPU that are told apart; when there are more, the first two are joined with the time between."""
MOST_GPUS = 512
"""Most GPUs and MIG instances that are remembered; above this number the one credited longest ago is forgotten."""


def free(credited: Credited, key: GpuKey, start: float, end: float) -> float:
    """Seconds of a GPU from `start` to `end` that are credited to nobody."""
    inside = (min(end, until) - max(start, since) for since, until in credited.get(key, ()))
    return max(0.0, end - start - sum(each for each in inside if each > 0.0))


def credit_span(credited: Credited, key: GpuKey, start: float, end: float) -> Credited:
    """The same, with one span more."""
    if end <= start:
        return credited
    spans = credited.get(key, ())
    if spans and spans[-1][0] <= start <= spans[-1][1] <= end:  # as at nearly every tick
        grown = (*spans[:-1], (spans[-1][0], end))
    else:
        grown = _joined([*spans, (start, end)])
    after = {**credited, key: grown}
    if len(after) > MOST_GPUS:
        del after[min(after, key=lambda each: after[each][-1][1])]
    return after


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    if len(joined) > MOST_SPANS:
        joined[:2] = [(joined[0][0], joined[1][1])]
    return tuple(joined)
