"""The page on tiles shows what the commands print, and names every family and every format of profiles."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from ofu_exporter import profiles, tiles
from ofu_exporter.cli import cli
from tests.flops.test_docs import examples, pattern

ROOT = Path(__file__).parents[2]
PAGE = "docs/tiles.md"
SHOWN = examples(PAGE, ("tile", "profile"))


def test_there_are_examples() -> None:
    assert len(SHOWN) == 2


@pytest.mark.parametrize(("command", "lines"), SHOWN)
def test_a_command_prints_what_is_shown(
    command: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(cli, shlex.split(command))
    assert result.exit_code == 0, result.output
    assert re.fullmatch(pattern(lines), result.output), result.output


def test_everything_is_named() -> None:
    text = (ROOT / PAGE).read_text()
    for family in tiles.names():
        assert f"`{family}`" in text
        assert f"`{tiles.load(family).EXAMPLE}`" in text
    for name in profiles.names():
        assert f"`{name}`" in text
