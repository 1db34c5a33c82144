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


@pytest.mark.slow
def test_the_fast_part_leaves_out_what_is_marked_slow_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "selection.json"
    collect = ("-m", "pytest", "--fast", "--collect-only", "--quiet", "-p", "no:cacheprovider")
    subprocess.run(
        [sys.executable, *collect, "-p", "tests.helpers.selection", str(TESTS)],
        cwd=TESTS.parent,
        env={**os.environ, FILE_VARIABLE: str(file)},
        stdout=subprocess.DEVNULL,
        timeout=600,
        check=True,
    )
    found = json.loads(file.read_text())
    assert [name for name, test in found.items() if test["runs"] == test["slow"]] == []
    seen = {name.partition("::")[0] for name in found}
    unseen = [
        path for path in TESTS.rglob("test_*.py") if str(path.relative_to(TESTS.parent)) not in seen
    ]
    assert all("pytest.importorskip" in path.read_text() for path in unseen), unseen


def test_tests_run_leaves_out_no_more_by_itself() -> None:
    (options,) = re.findall(r"^ *set -- (.*)$", (TESTS / "run").read_text(), re.MULTILINE)
    chooses = ("-k", "-m", "--ignore", "--deselect", "--last-failed", "--stepwise", "tests")
    assert not [word for word in options.split() if word.startswith(chooses)]
