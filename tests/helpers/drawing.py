"""Draws the rooms of the package, each on what it imports: `python -m tests.helpers.drawing` writes architecture.svg.

How high a room lies follows from the imports in the syntax tree, and the names of drivers from their folders. A room's
columns, colour and purpose are written here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path
from typing import NamedTuple

from tests.helpers.rooms import DRIVERS, PACKAGE, ROOT, imports, room_of

FILE = Path(__file__).parents[2] / "docs" / "architecture.svg"


class Place(NamedTuple):
    """Where a room stands from left to right, and what it is for."""

    first: int
    last: int
    """Columns, counted from 0."""
    kind: str
    """Its colour."""
    purpose: str


GROUND = ("values", "errors", "support", "recordings")
"""Drawn as the floor below all others, from below; `client` stands beside it."""
PLACES: Mapping[str, Place] = {
    "cli": Place(0, 6, "face", "Parses, calls, prints, exits. Decides nothing."),
    "validation": Place(
        1, 2, "program", "How near OFU comes to MFU on this card: products whose FLOPs are known."
    ),
    "terminal": Place(
        3, 6, "face", "What many agents say, or a recording, as tables in a terminal."
    ),
    "agent": Place(
        1,
        6,
        "program",
        "The running program: sampling threads, attribution, reload, start and stop.",
    ),
    "fleet": Place(0, 0, "program", "Many nodes at once: a simulated fleet whose truth is known."),
    "serving": Place(
        0,
        4,
        "face",
        "Everything over HTTP: the page of metrics, routes, who may write, limits, sockets.",
    ),
    "reports": Place(
        0,
        4,
        "job",
        "What a job says of itself, by POST, log or pull, and how that compares with OFU.",
    ),
    "flops": Place(3, 3, "number", "What a model's step costs, and what makes an MFU wrong."),
    "jobs": Place(4, 4, "job", "What is known of a job: totals, state file, lookup."),
    "ofu": Place(
        3, 4, "number", "The maths and the tick, pure: readings, owners, time in; snapshot out."
    ),
    "hardware": Place(
        2, 5, "number", "What GPUs are rated at, and what a product costs in whole tiles."
    ),
    "traces": Place(
        2, 2, "number", "Where the seconds of a GPU went, from what a profiler recorded."
    ),
    "sources": Place(5, 5, "driver", "The ways to read counters, a folder for each:"),
    "schedulers": Place(6, 6, "driver", "Who owns which GPU, a folder for each:"),
    "recordings": Place(
        1, 6, "ground", "Files of what was read, who had it and what jobs said of it."
    ),
    "settings": Place(1, 1, "ground", "What the operator can set."),
    "client": Place(
        0, 0, "job", "Runs inside a training job: Reporter, callbacks. Needs Python alone."
    ),
    "support": Place(1, 6, "ground", "Small tools that know nothing of GPUs, jobs or metrics."),
    "errors": Place(1, 6, "ground", "The exceptions, and what the program does about each."),
    "values": Place(1, 6, "ground", "Frozen values that the rooms exchange. None: not measured."),
}

FLOWS = (
    ("sources", "agent", "readings"),
    ("schedulers", "agent", "claims"),
    ("agent", "serving", "snapshots"),
    ("serving", "reports", "reports"),
)
"""What passes from one room to the next while the agent runs."""
KINDS = {
    "face": "what others see",
    "program": "what runs",
    "driver": "drivers",
    "job": "about jobs",
    "number": "numbers",
    "ground": "the ground",
}
"""What the colours mean."""

COLUMN, GAP, MARGIN, TITLE = 172, 8, 24, 58
NAME, LINE, PADDING = 22, 17, 13
"""Heights of a name and of a line below it, and the space inside a box."""
LETTER = 7.1
"""Width of one, on average."""
BESIDE = 100
"""Where the purpose of a room of the ground begins: beside its name."""


class Box(NamedTuple):
    """A room as it is drawn, in pixels."""

    room: str
    left: int
    top: int
    width: int
    height: int


def rooms() -> dict[str, set[str]]:
    """Every room that there is, and the rooms that it imports."""
    found: dict[str, set[str]] = {}
    for module, imported in imports().items():
        room = room_of(module)
        if room not in (PACKAGE, "__main__"):
            found.setdefault(room, set()).update(room_of(other) for other in imported)
    return {room: imported - {room, PACKAGE} for room, imported in found.items()}


def floors(imports: Mapping[str, set[str]]) -> dict[str, int]:
    """The floor of each room: above all that it imports; those of the ground are below 0."""
    found = {room: GROUND.index(room) - len(GROUND) for room in GROUND}
    for room in TopologicalSorter(imports).static_order():
        if room not in GROUND:
            found[room] = max((found[below] + 1 for below in imports[room] - {*GROUND}), default=0)
    return found


def tops(imports: Mapping[str, set[str]], floor: Mapping[str, int]) -> dict[str, int]:
    """The highest floor of each room: it reaches up to those that stand on it."""
    found = {}
    for room in imports:
        above = (floor[each] for each in imports if over(each, room) and floor[each] > floor[room])
        found[room] = floor[room] if room in GROUND else min(above, default=floor[room] + 1) - 1
    return found


def rests(room: str, other: str, floor: Mapping[str, int], top: Mapping[str, int]) -> bool:
    """Whether a room lies on another, or on one that does: the agent lies between the traces and who validates."""
    below = [each for each in floor if over(room, each) and floor[room] == top[each] + 1]
    return other in below or any(
        rests(each, other, floor, top) for each in below if each not in GROUND
    )


def over(one: str, other: str) -> bool:
    """Whether two rooms share a column."""
    return PLACES[one].first <= PLACES[other].last and PLACES[other].first <= PLACES[one].last


def supports(imports: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Every import that no other one implies: the room below must be one that the other stands on."""
    for room, below in imports.items():
        for other in below - {*GROUND}:
            if not any(other in reachable(third, imports) for third in below):
                yield room, other


def reachable(room: str, imports: Mapping[str, set[str]]) -> set[str]:
    """All that a room imports, also by way of others."""
    found: set[str] = set()
    for other in imports[room]:
        found |= {other} | reachable(other, imports)
    return found


def drivers(room: str) -> list[str]:
    """The folders of a room of drivers, as their users name them."""
    found = (path.parent.name.replace("_", "-") for path in (ROOT / room).glob("*/driver.py"))
    return sorted(found)


def lines(room: str) -> list[str]:
    """What is written below a room's name."""
    wrapped = textwrap.wrap(PLACES[room].purpose, int((width(room) - 2 * PADDING) / LETTER))
    return [*wrapped, *(f"· {name}" for name in drivers(room))] if room in DRIVERS else wrapped


def width(room: str) -> int:
    columns = PLACES[room].last - PLACES[room].first + 1
    return columns * COLUMN + (columns - 1) * GAP


def boxes() -> list[Box]:
    """Every room in its place. Raises ValueError for one that has none, or does not stand on what it imports."""
    imports = rooms()
    if homeless := imports.keys() - PLACES.keys():
        raise ValueError(f"give {', '.join(sorted(homeless))} a place in PLACES")
    floor = floors(imports)
    top = tops(imports, floor)
    for room, other in supports(imports):
        if not rests(room, other, floor, top):
            raise ValueError(
                f"{room} imports {other} and does not stand on it: give it other columns"
            )
    heights = {
        level: max(needed(room) for room in imports if floor[room] == top[room] == level)
        for level in sorted({*floor.values()})
    }
    tops_at, y = {}, TITLE
    for level in sorted(heights, reverse=True):
        tops_at[level] = y
        y += heights[level] + GAP
    return [
        Box(
            room,
            MARGIN + PLACES[room].first * (COLUMN + GAP),
            tops_at[top[room]],
            width(room),
            tops_at[floor[room]] + heights[floor[room]] - tops_at[top[room]],
        )
        for room in PLACES
        if room in imports
    ]


def needed(room: str) -> int:
    """The height of what is written in a room."""
    return 2 * PADDING + (LINE if room in GROUND else NAME + LINE * len(lines(room)))


STYLE = """\
svg { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; --page: #ffffff; --ink: #1f2328;
  --soft: #59636e; --edge: #d1d9e0; --ground: #eff1f3; --number: #dcebfb; --job: #dcf1e0; --driver: #fcecd0;
  --program: #f6e0e6; --face: #e8e2f8 }
@media (prefers-color-scheme: dark) { svg { --page: #0d1117; --ink: #e6edf3; --soft: #9da7b3; --edge: #3d444d;
  --ground: #1c2128; --number: #14304d; --job: #173a22; --driver: #46330f; --program: #472233; --face: #322652 } }
text { fill: var(--ink) }
.name { font-weight: 600; font-size: 15px }
.soft { fill: var(--soft) }
.end { text-anchor: end }
.page { fill: var(--page); stroke: var(--edge) }
.room { stroke: var(--edge) }
.flow { fill: none; stroke: var(--soft); stroke-width: 1.6; stroke-linecap: round; stroke-linejoin: round }
.ground { fill: var(--ground) } .number { fill: var(--number) } .job { fill: var(--job) }
.driver { fill: var(--driver) } .program { fill: var(--program) } .face { fill: var(--face) }"""


def drawn(box: Box) -> Iterator[str]:
    """A room with its name and purpose."""
    left, top = box.left + PADDING, box.top + PADDING + 12
    ending = "/" if (ROOT / box.room).is_dir() else ".py"
    yield rectangle(f"room {PLACES[box.room].kind}", *box[1:])
    yield text("name", left, top, box.room + ending)
    for number, line in enumerate(lines(box.room)):
        if box.room in GROUND:
            yield text("soft", left + BESIDE, top, line)
        else:
            yield text("soft", left, top + NAME + number * LINE, line)


def flow(above: Box, below: Box, upward: bool, label: str) -> Iterator[str]:
    """An arrow across the border between two rooms, with what passes."""
    x = below.left + below.width - PADDING - 6
    ends = (below.top + 16, above.top + above.height - 10)
    start, end = ends if upward else reversed(ends)
    tip = 7 if upward else -7
    yield f'<path class="flow" d="M{x} {start}V{end}m-5 {tip}l5 {-tip}l5 {tip}"/>'
    room, line = (above, NAME) if upward else (below, 0)
    yield text("soft end", x - 9, room.top + PADDING + 12 + line, label)


def legend(left: int, top: int) -> Iterator[str]:
    """What the colours mean."""
    for number, (kind, meaning) in enumerate(KINDS.items()):
        y = top + number * (LINE + 4)
        yield rectangle(f"room {kind}", left, y, 14, 14)
        yield text("soft", left + 22, y + 12, meaning)


def rectangle(style: str, left: float, top: float, wide: float, high: float) -> str:
    corner = min(6, wide / 4)
    return f'<rect class="{style}" x="{left}" y="{top}" width="{wide}" height="{high}" rx="{corner:g}"/>'


def text(style: str, left: int, baseline: int, words: str) -> str:
    return f'<text class="{style}" x="{left}" y="{baseline}">{escape(words)}</text>'


def drawing() -> str:
    """The whole picture, as SVG."""
    placed = {box.room: box for box in boxes()}
    wide = max(box.left + box.width for box in placed.values()) + MARGIN
    high = max(box.top + box.height for box in placed.values()) + MARGIN
    below_client = placed["client"].top + placed["client"].height + 3 * GAP
    said = "A room stands on what it imports. Nothing imports upward."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img">',
        f"<title>The rooms of {PACKAGE}</title>",
        f"<desc>{said}</desc>",
        f"<style>\n{STYLE}\n</style>",
        rectangle("page", 0.5, 0.5, wide - 1, high - 1),
        text("name", MARGIN, 36, PACKAGE),
        text("soft", MARGIN + 130, 36, said),
        *(line for box in placed.values() for line in drawn(box)),
        *legend(MARGIN + PADDING, below_client),
    ]
    for start, end, label in FLOWS:
        one, other = placed[start], placed[end]
        upward = one.top > other.top
        parts += flow(*((other, one) if upward else (one, other)), upward, label)
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    FILE.write_text(drawing())
