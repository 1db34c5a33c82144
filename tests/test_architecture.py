"""The drawing of the rooms is what the imports make of it, and the page beside it names every thread."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("grimp", reason="import-linter needs Python 3.11")

from tests.helpers import drawing
from tests.helpers.rooms import trees

pytestmark = pytest.mark.xdist_group("modules read")

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"


def test_the_drawing_is_what_its_program_makes(generated: Callable[[Path, str], None]) -> None:
    generated(drawing.FILE, drawing.drawing())


def test_every_room_is_in_it_with_its_purpose_and_none_lies_on_another() -> None:
    shown = {element.text for element in ElementTree.fromstring(drawing.drawing()).iter()}
    boxes = drawing.boxes()
    assert {box.room for box in boxes} == drawing.rooms().keys()
    for box in boxes:
        assert {f"{box.room}/", f"{box.room}.py"} & shown
        assert shown.issuperset(drawing.lines(box.room))
        assert box.height >= drawing.needed(box.room)
    for one, other in combinations(boxes, 2):
        beside = one.left + one.width < other.left or other.left + other.width < one.left
        apart = one.top + one.height < other.top or other.top + other.height < one.top
        assert beside or apart, (one.room, other.room)


def test_a_room_is_drawn_above_all_that_it_imports() -> None:
    bottom = {box.room: box.top + box.height for box in drawing.boxes()}
    for room, below in drawing.rooms().items():
        for other in below:
            assert bottom[room] < bottom[other], (room, other)


def test_an_import_that_the_drawing_does_not_show_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imports = drawing.rooms()
    imports["flops"] = {*imports["flops"], "schedulers"}
    monkeypatch.setattr(drawing, "rooms", lambda: imports)
    with pytest.raises(ValueError, match="flops imports schedulers and does not stand on it"):
        drawing.boxes()


def thread_names() -> Iterator[str]:
    """The name of every thread that the package starts; what is filled in stands in angle brackets."""
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "threading.Thread":
                names = [word.value for word in node.keywords if word.arg == "name"]
                yield from (eval_name(name) for name in names or [ast.Constant("nameless")])


def eval_name(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "NAME" for part in node.values)
        return "".join(map(str, parts))
    assert isinstance(node, ast.Constant)
    return str(node.value)


@pytest.mark.slow
def test_the_page_names_every_thread_that_is_started() -> None:
    names = set(thread_names())
    assert {"ofu-lane", "ofu-sampler", "ofu-NAME"} <= names
    text = PAGE.read_text()
    assert [name for name in names if f"`{name}`" not in text] == []
