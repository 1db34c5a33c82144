"""The looks of the pictures: Grafana's dark theme, its colours of lines, and a box with a title."""

from __future__ import annotations

from markupsafe import Markup

from tests.helpers.dashboard_pictures.elements import tag

BACK, CARD, EDGE, INK, SOFT = "#111217", "#181b1f", "#2b2e34", "#d8d9e0", "#9899a5"
GREEN, YELLOW, RED = "#73bf69", "#f2cc0c", "#f2495c"
LINES = (
    *(GREEN, YELLOW, "#8ab8ff", "#ff780a", RED, "#5794f2", "#b877d9", "#705da0", "#37872d"),
    *("#fade2a", "#447ebc", "#c15c17", "#890f02", "#6d1f62", "#b7dbab", "#f4d598", "#70dbed"),
)
"""Grafana's classic palette, in its order."""
WIDTHS = {"narrow": 3.9, "small": 6.9, "wide": 8.1}
"""Widths of letters of 12 px, about: of DejaVu Sans, which is wider than most."""


def colour(place: int) -> str:
    return LINES[place % len(LINES)]


def mixed(share: float, stops: tuple[str, ...]) -> str:
    """A colour between the stops, which lie evenly from 0 to 1."""
    at = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    place = min(int(at), len(stops) - 2)
    pairs = zip(parts(stops[place]), parts(stops[place + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (at - place)):02x}" for a, b in pairs)


def parts(one: str) -> tuple[int, int, int]:
    return int(one[1:3], 16), int(one[3:5], 16), int(one[5:7], 16)


def length(words: str) -> float:
    """Pixels that the words take, about."""
    kinds = (
        "narrow" if c in "iljtfr.,:;-| '()" else "small" if c.islower() else "wide" for c in words
    )
    return sum(WIDTHS[kind] for kind in kinds)


def text(x: float, y: float, words: str, kind: str = "", width: float | None = None) -> Markup:
    """A line of text, cut at its width. `kind`: s soft, e ends here, m has its middle here, t is a title."""
    if width is not None and length(words) > width:
        while words and length(words) + WIDTHS["wide"] > width:
            words = words[:-1]
        words = words.rstrip() + "\u2026"
    return tag("text", words, x=f"{x:.0f}", y=f"{y:.0f}", **({"_class": kind} if kind else {}))


def bar(x: float, y: float, width: float, height: float, fill: str) -> Markup:
    size = {"width": f"{width:.1f}", "height": f"{height:.1f}"}
    return tag("rect", x=f"{x:.1f}", y=f"{y:.1f}", fill=fill, **size)


STYLE = (
    f"text{{fill:{INK};font:12px system-ui,'DejaVu Sans',sans-serif}}.s{{fill:{SOFT}}}.e{{text-anchor:end}}"
    f".m{{text-anchor:middle}}.t{{font-weight:600;font-size:13px}}.h{{font-weight:600;font-size:16px}}"
    f".d{{fill:#111}}.g{{stroke:{EDGE};fill:none}}.w{{font-size:20px;fill:{SOFT}}}"
    f".n{{font-size:28px;font-weight:600}}.l{{fill:none;stroke-width:1.4;stroke-linejoin:round}}"
)
