"""The guided fuzzer runs: each way in for a few seconds. A finding is put into the corpus, and fails."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
SECONDS = 3


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("atheris"), reason="needs the extra fuzz")
@pytest.mark.parametrize("name", TARGETS)
def test_a_guided_search_reaches_the_code_and_finds_nothing(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.guided", name, str(SECONDS / 60)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    (reached,) = re.findall(r"INITED cov: (\d+)", done.stderr)
    (runs,) = re.findall(r"^Done (\d+) runs", done.stderr, re.M)
    assert int(reached) > 10, "nothing of the package is instrumented"
    assert int(runs) > 0
