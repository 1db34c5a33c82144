"""The page on tiles shows what the commands print, and names every family and every format of profiles."""

from __future__ import annotations

from pathlib import Path

from ofu_exporter.hardware import profiles, tiles

ROOT = Path(__file__).parents[3]
PAGE = "docs/tiles.md"


def test_everything_is_named() -> None:
    text = (ROOT / PAGE).read_text()
    for family in tiles.names():
        assert f"`{family}`" in text
        assert f"`{tiles.load(family).EXAMPLE}`" in text
    for name in profiles.names():
        assert f"`{name}`" in text
