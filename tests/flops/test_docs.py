"""The documentation names every family, convention and reader."""

from __future__ import annotations

from pathlib import Path

from ofu_exporter.flops import conventions, families, readers

ROOT = Path(__file__).parents[2]


def test_everything_is_named() -> None:
    text = (ROOT / "docs/flops.md").read_text()
    for name in (*families.names(), *conventions.names(), *readers.names()):
        assert f"`{name}`" in text
