"""A plot of what was found."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.cli.test_validate import FEW, simulated

pytestmark = pytest.mark.slow


def test_a_plot_is_drawn_or_what_is_missing_is_said(tmp_path: Path) -> None:
    picture = tmp_path / "v.png"
    args = ("--quick", *FEW, "--output", str(tmp_path / "v.jsonl"))
    done = simulated("validate", *args, "--plot", str(picture))
    if importlib.util.find_spec("matplotlib"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    else:
        assert done.returncode == 2
        assert "pip install 'matplotlib>=3.8'" in done.stderr
