"""The rooms of the package: which may import which, that no imports go in a circle, and what lies at the top."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.helpers.rooms import (
    DRIVERS,
    IMPORTS,
    PACKAGE,
    ROOMS,
    ROOT,
    SOURCES,
    TREES,
    imported,
    room_of,
)

STANDARD_LIBRARY_ONLY = ("client", "values")
FRAMEWORKS = {"lightning", "pytorch_lightning", "torch", "transformers"}
"""What a job has anyway when it uses a callback of the client's."""


def foreign(tree: ast.AST) -> Iterator[str]:
    """The top-level names of what a tree imports when it runs; names for types alone are left out."""
    for node in executed(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those below `if TYPE_CHECKING`."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from executed(child)


def circle(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """Modules that import each other in a circle; empty where none do."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("module", SOURCES)
def test_a_room_imports_only_rooms_below_it(module: str) -> None:
    room = room_of(module)
    allowed = {PACKAGE, room} | ROOMS.get(room, set())
    foreign_rooms = {other for other in IMPORTS[module] if room_of(other) not in allowed}
    assert not foreign_rooms, f"{module} imports {foreign_rooms}: {room} may import {allowed}"


def test_no_imports_go_in_a_circle() -> None:
    assert not circle(IMPORTS)


def test_a_circle_is_found_through_a_type_and_a_room() -> None:
    assert set(circle({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]})) == {"a", "b", "c"}


def test_every_room_stands_above_all_that_it_imports() -> None:
    order = list(ROOMS)
    for room, below in ROOMS.items():
        assert all(order.index(other) < order.index(room) for other in below), room


@pytest.mark.parametrize(
    "module", [name for name in SOURCES if room_of(name) in STANDARD_LIBRARY_ONLY]
)
def test_the_ground_needs_python_alone(module: str) -> None:
    needed = set(foreign(TREES[module])) - sys.stdlib_module_names - {PACKAGE}
    assert needed <= (FRAMEWORKS if room_of(module) == "client" else set())


def test_nothing_but_rooms_lies_at_the_top() -> None:
    there = {path.name for path in ROOT.iterdir() if path.name != "__pycache__"}
    rooms = set(ROOMS) - {"errors", "settings", "__main__"}
    files = {"__init__.py", "__main__.py", "errors.py", "settings.py", "py.typed"}
    assert there == rooms | files | {"templates"}


@pytest.mark.parametrize(
    "text",
    [
        "from ofu_exporter.agent.daemon import Daemon",
        "from ofu_exporter.agent import daemon",
        "import ofu_exporter.agent.daemon",
        "import ofu_exporter.agent.daemon as d",
        "from ..agent import daemon",
        "from ..agent.daemon import Daemon",
        "def f():\n    from ofu_exporter.agent import daemon",
        "if TYPE_CHECKING:\n    from ofu_exporter.agent.daemon import Daemon",
        "try:\n    import ofu_exporter.agent.daemon\nexcept ImportError:\n    pass",
    ],
)
def test_every_form_of_import_is_seen(text: str) -> None:
    modules = {"agent", "agent.daemon", "values.gpu"}
    assert "agent.daemon" in set(imported(ast.parse(text), "values.gpu", False, modules))


def test_a_package_import_inside_a_package_is_seen() -> None:
    tree = ast.parse("from ..daemon import Daemon\nfrom . import nvml")
    assert set(imported(tree, "sources.replay", False, {"sources.nvml"})) == {
        "daemon",
        "sources.nvml",
    }


@pytest.mark.parametrize("module", SOURCES)
def test_every_file_says_its_job_in_its_first_sentence(module: str) -> None:
    if module.partition(".")[0] in DRIVERS and SOURCES[module].stat().st_size == 0:
        return  # a driver's folder; its driver.py says what it is
    doc = ast.get_docstring(TREES[module])
    assert doc, f"{module} has no docstring"
    assert doc.split("\n\n", maxsplit=1)[0].rstrip().endswith((".", ":"))


def test_only_the_command_line_ends_the_process() -> None:
    for module, path in SOURCES.items():
        if room_of(module) not in ("cli", "__main__"):
            assert "sys.exit" not in path.read_text(), path
