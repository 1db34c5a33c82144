"""Draws OFU with characters: bars, and lines of the last hour. A bar can be read without its colours."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ofu_exporter.terminal.cells import Line, Segment
from ofu_exporter.values.losses import Loss, Losses, spans

USED, CLOCK, NO_TENSOR, EMPTY_SMS = "\u2588", "\u2593", "\u2592", "\u2591"
REST = "\u00b7"
PARTS = {
    "used": (USED, "used"),
    Loss.CLOCK: (CLOCK, "clock"),
    Loss.NO_TENSOR: (NO_TENSOR, "no_tensor"),
    Loss.ENGINE_WITHOUT_TENSOR: (NO_TENSOR, "no_tensor"),
    Loss.EMPTY_SMS: (EMPTY_SMS, "empty_sms"),
    Loss.EMPTY_OR_IDLE: (EMPTY_SMS, "empty_sms"),
}
"""The character and the style of each piece of a bar."""
LEGEND: Sequence[Segment] = (
    Segment("used ", "head"),
    Segment(USED, "used"),
    *(
        piece
        for loss in (Loss.CLOCK, Loss.NO_TENSOR, Loss.EMPTY_SMS)
        for piece in (Segment(f"  {loss.words} ", "head"), Segment(*PARTS[loss]))
    ),
    Segment(f"  {Loss.IDLE.words} ", "head"),
    Segment(REST, "rest"),
)
"""What the pieces of a bar mean: the legend of the node's page."""
LEVELS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
AWAY = "\u00d7"
"""The character for a GPU that is not measured."""
PLAIN = str.maketrans(
    {USED: "#", CLOCK: "+", NO_TENSOR: "=", EMPTY_SMS: "-", REST: "."}
    | {AWAY: "x", "\u2026": "~", "\u2013": "-", "\u00b1": "+"}
    | {level: "12345678"[place] for place, level in enumerate(LEVELS[:-1])}
)
"""The same for a terminal with only ASCII."""


def bar(used: float | None, losses: Losses, width: int) -> Line:
    """A bar of the peak: what is used, and in which part the rest was lost, as the node's page shows it."""
    if used is None or width < 1:
        return [Segment(" " * width)]
    drawn, line = 0, []
    for span in spans(used, losses):
        character, style = PARTS[span.kind]
        cells = _cells(span.end, width)
        line.append(Segment(character * (cells - drawn), style))
        drawn = cells
    return [*line, Segment(REST * (width - drawn), "rest")]


def _cells(ratio: float, width: int) -> int:
    """A ratio as a number of cells; a ratio above 0 has at least one."""
    if not ratio > 0:  # NaN too
        return 0
    return max(1, round(min(ratio, 1.0) * width))


def level(ratio: float | None) -> str:
    """One character from empty to full; a space where nothing was measured."""
    if ratio is None:
        return " "
    if not ratio > 0:  # NaN too
        return LEVELS[0]
    return LEVELS[min(len(LEVELS) - 1, int(min(ratio, 1.0) * len(LEVELS)))]


def spark(points: Sequence[float | None], width: int) -> Line:
    """The points as a line of characters, the newest at the right. A gap stays a gap."""
    if not points or width < 1:
        return [Segment(" " * max(0, width))]
    width_used = min(width, len(points))
    edges = [round(place * len(points) / width_used) for place in range(width_used + 1)]
    text = "".join(level(_mean(points[first:last])) for first, last in itertools.pairwise(edges))
    return [Segment(" " * (width - width_used)), Segment(text, "line")]


def _mean(points: Sequence[float | None]) -> float | None:
    measured = [point for point in points if point is not None]
    return sum(measured) / len(measured) if measured else None
