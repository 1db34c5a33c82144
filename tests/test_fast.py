"""The fast part of the tests leaves out what is marked slow, and nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.selection import FILE_VARIABLE

TESTS = Path(__file__).parent


SOME = ("test_fast.py", "end_to_end", "sources", "deploy/test_rules.py")
"""Files with a conftest.py of their own, marked by their folder, by themselves, in part and not at all."""


@pytest.mark.slow
def test_the_fast_part_leaves_out_what_is_marked_slow_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "selection.json"
    collect = ("-m", "pytest", "--fast", "--collect-only", "--quiet", "-p", "no:cacheprovider")
    subprocess.run(
        [sys.executable, *collect, "-p", "tests.helpers.selection", *SOME],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": str(TESTS.parent), FILE_VARIABLE: str(file)},
        stdout=subprocess.DEVNULL,
        timeout=600,
        check=True,
    )
    found = json.loads(file.read_text())
    assert [name for name, test in found.items() if test["runs"] == test["slow"]] == []
    assert {test["slow"] for test in found.values()} == {True, False}


def test_nothing_but_the_mark_leaves_a_file_out() -> None:
    for path in TESTS.rglob("conftest.py"):
        assert not re.search("collect_ignore|ignore_collect", path.read_text()), path
        assert path == TESTS / "conftest.py" or "def pytest_" not in path.read_text(), path


def test_every_file_is_tested_unless_it_misses_a_library(request: pytest.FixtureRequest) -> None:
    chosen = any(map(request.config.getoption, ("--fast", "-k", "-m", "--last-failed")))
    if chosen or [Path(each).resolve() for each in request.config.args] != [TESTS]:
        pytest.skip("not all tests are run")
    seen = {item.path for item in request.session.items}
    unseen = {*TESTS.rglob("test_*.py")} - seen
    assert all("pytest.importorskip" in path.read_text() for path in unseen), unseen


def test_tests_run_leaves_out_no_more_by_itself() -> None:
    (options,) = re.findall(r"^ *set -- (.*)$", (TESTS / "run").read_text(), re.MULTILINE)
    chooses = ("-k", "-m", "--ignore", "--deselect", "--last-failed", "--stepwise", "tests")
    assert not [word for word in options.split() if word.startswith(chooses)]
