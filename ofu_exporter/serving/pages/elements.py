"""The elements that pages are put together of. All text that is not ours is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import quote

from ofu_exporter.serving.pages.look import SCRIPT, STYLE
from ofu_exporter.support.percent import percent
from ofu_exporter.values.text import shown

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""As html.escape has them; that module brings a table of two thousand characters."""
Points = Sequence[float | None]
"""Values at equal distances; None where nothing was measured."""


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Any value as text of a page. What is not printable is shown by its escape."""
    return value if isinstance(value, Html) else Html(shown(str(value)).translate(_ESCAPES))


def element(name: str, *inside: object, **attributes: object) -> Html:
    """An element. `_class` is the attribute class, `aria_label` aria-label; None leaves an attribute out."""
    said = "".join(
        f' {key.lstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{said}>{''.join(map(text, inside))}</{name}>")


def joined(parts: Iterable[object], between: str = "") -> Html:
    """Parts one after another."""
    return Html(text(between).join(text(part) for part in parts))


def link(path: str, shown: object) -> Html:
    return element("a", shown, href=path)


def job_path(job_id: str) -> str:
    """The page of a job."""
    return "/jobs/" + quote(job_id.encode("utf-8", "replace"))


class Column(NamedTuple):
    """The head of a column."""

    title: str
    kind: str = ""
    """Class of its cells: num, phone (left out on a phone), both or neither."""


class Cell(NamedTuple):
    """A cell, with the value that it is sorted by where that is not what it shows."""

    inside: object
    value: object = None


def table(name: str, columns: Sequence[Column], rows: Iterable[tuple[str, Sequence[Cell]]]) -> Html:
    """A table whose rows a click on a head sorts. A row is its class and its cells, the first of which names it."""
    heads = joined(
        element("th", each.title, scope="col", _class=each.kind or None) for each in columns
    )
    body = joined(
        element("tr", *_cells(columns, cells), _class=kind or None) for kind, cells in rows
    )
    return element(
        "table",
        element("thead", element("tr", heads)),
        element("tbody", body),
        id=name,
        _class="sorts",
    )


def _cells(columns: Sequence[Column], cells: Sequence[Cell]) -> Iterable[Html]:
    for place, (column, cell) in enumerate(zip(columns, cells, strict=True)):
        name, scope = ("td", None) if place else ("th", "row")
        kind = column.kind or None
        yield element(name, cell.inside, scope=scope, _class=kind, data_value=cell.value)


def tile(number: object, said: object, kind: str = "") -> Html:
    """One number that matters, and what it is."""
    inside = (element("b", number), element("span", said, _class="soft"))
    return element("div", *inside, _class=f"tile {kind}".strip())


def bar(used: float | None, active: float | None = None) -> Html:
    """An OFU as a bar: what is used, what the clock costs, and the rest, which inactivity costs."""
    if used is None:
        return Html("")
    first = 100 * min(max(used, 0.0), 1.0)
    second = max(0.0, 100 * min(active or 0.0, 1.0) - first)
    parts = joined(
        Html(f'<rect class="{kind}" x="{x:.1f}" width="{width:.1f}" height="8"></rect>')
        for kind, x, width in (("used", 0.0, first), ("clock", first, second))
        if width > 0
    )
    label = f"used {percent(used)}"
    if active is not None:
        label += f", lost to the clock {percent(second / 100)}, to inactivity {percent(1 - (first + second) / 100)}"
    return _picture("bar", 100, 8, label, parts)


def spark(points: Points, label: str) -> Html:
    """A line without axes, from 0 to 1. A gap stays a gap."""
    if not any(point is not None for point in points):
        return Html("")
    return _picture("spark", len(points), 30, label, _line(points, 30, "line"))


def chart(ofu: Points, mfu: Points, label: str) -> Html:
    """OFU and MFU on one scale, which goes to 100 %, or to the highest value where that is above."""
    known = [point for point in (*ofu, *mfu) if point is not None]
    if not known:
        return Html("")
    top = max(1.0, *known)
    width = max(len(ofu), len(mfu))
    grid = joined(
        Html(f'<line class="grid" x1="0" x2="{width}" y1="{y}" y2="{y}"></line>')
        for y in (0, 50, 100, 150, 200)
    )
    lines = joined([_line(ofu, 200, "line", top), _line(mfu, 200, "line mfu", top)])
    return _picture("chart", width, 200, label, joined([grid, lines]))


def histogram(shares: Sequence[float], label: str) -> Html:
    """How often each value was met, as columns."""
    highest = max(shares, default=0.0)
    if highest <= 0:
        return Html("")
    columns = joined(
        Html(
            f'<rect class="used" x="{place + 0.08:.2f}" width="0.84" '
            f'y="{100 * (1 - each / highest):.1f}" height="{100 * each / highest:.1f}"></rect>'
        )
        for place, each in enumerate(shares)
        if each > 0
    )
    return _picture("chart", len(shares), 100, label, columns)


def _line(points: Points, height: float, kind: str, top: float = 1.0) -> Html:
    """One polyline for each stretch without a gap; a single point is a short line."""
    stretches: list[list[str]] = [[]]
    for place, point in enumerate(points):
        if point is None:
            stretches.append([])
        else:
            y = height - (height - 2) * min(max(point, 0.0), top) / top - 1
            stretches[-1] += [f"{place},{y:.1f}", f"{place + 1},{y:.1f}"]
    return joined(
        Html(f'<polyline class="{kind}" points="{" ".join(each)}"></polyline>')
        for each in stretches
        if each
    )


def _picture(kind: str, width: float, height: float, label: str, inside: Html) -> Html:
    box = f"0 0 {width:g} {height:g}"
    return Html(
        f'<svg class="{kind}" viewBox="{box}" preserveAspectRatio="none" role="img" '
        f'aria-label="{text(label)}">{inside}</svg>'
    )


def key(**kinds: str) -> Html:
    """What the colours of a bar mean, by the class of each."""
    swatch = '<svg viewBox="0 0 8 8" aria-hidden="true"><rect class="{}" width="8" height="8"></rect></svg>'
    items = (
        element("small", Html(swatch.format(kind)), meaning) for kind, meaning in kinds.items()
    )
    return element("p", *items, _class="key")


def document(title: str, *inside: object) -> str:
    """A whole page."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head>"
        f"<body>{element('main', *inside)}<script>{SCRIPT}</script></body></html>"
    )
