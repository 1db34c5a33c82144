"""The rooms of the package: which may import which, that no imports go in a circle, and what lies at the top."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("importlinter", reason="import-linter needs Python 3.11")

from tests.helpers.every import every
from tests.helpers.rooms import DRIVERS, PACKAGE, ROOT, SOURCES, imports, room_of, trees

pytestmark = pytest.mark.xdist_group("modules read")

STANDARD_LIBRARY_ONLY = ("client", "values")
FRAMEWORKS = {"lightning", "pytorch_lightning", "torch", "transformers"}
"""What a job has anyway when it uses a callback of the client's."""


def linted(at: Path) -> subprocess.CompletedProcess[str]:
    """What import-linter says of the package at a place, by the contracts in pyproject.toml."""
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", lint, "--config", ROOT.parent / "pyproject.toml", "--no-cache"],
        cwd=at,
        env={"PYTHONPATH": str(at)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_contracts_on_imports_are_kept() -> None:
    done = linted(ROOT.parent)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def skeleton(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules with nothing but their imports of each other, which keep the contracts."""
    folder = tmp_path_factory.mktemp("skeleton")
    for name, path in SOURCES.items():
        copy = folder / PACKAGE / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        others = sorted(imports()[name] - {PACKAGE})
        copy.write_text("".join(f"import {PACKAGE}.{other}\n" for other in others))
    assert linted(folder).returncode == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("values/gpu.py", "from ofu_exporter.support.percent import percent", "upward"),
        ("values/gpu.py", "if TYPE_CHECKING:\n    from ..support import percent", "upward"),
        ("ofu/tick.py", "def f():\n    import ofu_exporter.jobs.lookup", "upward"),
        ("sources/nvml/driver.py", "import ofu_exporter.schedulers.slurm.driver", "upward"),
        ("reports/book.py", "from ofu_exporter.sources import names", "Only what runs"),
        ("ofu/window.py", "import ofu_exporter.ofu.tick", "in a circle"),
        ("client/reporter.py", "import ofu_exporter.values.gpu", "The client, which"),
        ("ofu/tick.py", "import ofu_exporter.support.percent", "needs no tools"),
        ("fleet/history/served.py", "import ofu_exporter.fleet.reports.words", "on its history"),
        ("terminal/agents.py", "import ofu_exporter.fleet.hours", "Only the command line"),
        ("ofu/tick.py", "import ofu_exporter.settings", "know no settings"),
        ("serving/page.py", "import ofu_exporter.client.channel", "words are known"),
        ("serving/page.py", "import ofu_exporter.hardware", "neither models nor GPUs"),
        ("newcomer.py", "", "upward"),
    ],
)
def test_an_import_that_breaks_one_is_found(
    module: str, line: str, contract: str, skeleton: Path
) -> None:
    file = skeleton / PACKAGE / module
    before = file.read_text() if file.exists() else None
    file.write_text(f"{before or ''}\n{line}\n")
    try:
        done = linted(skeleton)
    finally:
        file.unlink() if before is None else file.write_text(before)
    broken = re.findall(r"^(.*) BROKEN$", done.stdout, re.MULTILINE)
    assert any(contract in each for each in broken)


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


@every([name for name in SOURCES if room_of(name) in STANDARD_LIBRARY_ONLY])
def test_the_ground_needs_python_alone(module: str) -> None:
    needed = set(foreign(trees()[module])) - sys.stdlib_module_names - {PACKAGE}
    allowed = FRAMEWORKS if room_of(module) == "client" else set()
    assert needed - allowed == set(), "a callback's framework is one of FRAMEWORKS"


def test_nothing_but_rooms_lies_at_the_top() -> None:
    there = {path.name for path in ROOT.iterdir() if path.name != "__pycache__"}
    rooms = {room_of(module) for module, path in SOURCES.items() if path.parent != ROOT}
    files = {"__init__.py", "__main__.py", "errors.py", "settings.py", "py.typed"}
    assert there == rooms | files | {"templates"}


@every(SOURCES)
def test_every_file_says_its_job_in_its_first_sentence(module: str) -> None:
    if module.partition(".")[0] in DRIVERS and SOURCES[module].stat().st_size == 0:
        return  # a driver's folder; its driver.py says what it is
    doc = ast.get_docstring(trees()[module])
    assert doc, f"{module} has no docstring"
    assert doc.split("\n\n", maxsplit=1)[0].rstrip().endswith((".", ":"))


@every(SOURCES)
def test_every_file_is_shorter_than_350_lines_and_every_function_fits_on_a_screen(
    module: str,
) -> None:
    assert len(SOURCES[module].read_text().splitlines()) < 350
    for node in ast.walk(trees()[module]):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert (node.end_lineno or 0) - node.lineno < 45, node.name


def test_only_the_command_line_ends_the_process() -> None:
    for module, path in SOURCES.items():
        if room_of(module) not in ("cli", "__main__"):
            assert "sys.exit" not in path.read_text(), path


def test_a_variable_of_types_is_called_what_it_is_assigned_to() -> None:
    made = [
        (node.targets[0], node.value)
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
    ]
    variables = [each for each in made if ast.unparse(each[1].func) == "TypeVar"]
    assert variables
    for name, call in variables:
        assert ast.literal_eval(call.args[0]) == ast.unparse(name)
