"""The guided fuzzer runs: each way in for some inputs. A finding is put into the corpus, and fails."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
SECONDS, SEEDS, RUNS = 1, 5, 20


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("atheris"), reason="needs the extra fuzz")
def test_a_guided_search_reaches_the_code_and_finds_nothing() -> None:
    """In one process that forks: to instrument the package takes longer than the search."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.fuzz.guided",
            ",".join(TARGETS),
            str(SECONDS / 60),
            str(SEEDS),
            str(RUNS),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    _, *parts = re.split(r"^== (.+)$", done.stderr, flags=re.M)
    assert parts[::2] == [*TARGETS]
    for name, log in zip(parts[::2], parts[1::2], strict=True):
        (reached,) = re.findall(r"INITED cov: (\d+)", log)
        (runs,) = re.findall(r"^Done (\d+) runs", log, re.M)
        assert int(reached) > 10, f"{name}: nothing of the package is instrumented"
        assert int(runs) > 0, name
