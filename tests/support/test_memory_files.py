"""Text at a path that nobody else can touch."""

from __future__ import annotations

from pathlib import Path

from ofu_exporter.support.memory_files import in_memory
from tests.helpers.every import every


@every(["", "a\nb", "ä\0", "x" * (3 << 20)])
def test_the_text_is_there_while_the_block_runs_and_gone_afterwards(text: str) -> None:
    with in_memory(text) as path:
        assert Path(path).read_text("utf-8") == text
        assert Path(path).read_text("utf-8") == text, "once more, from its begin"
        assert "ofu-exporter" in str(Path(path).readlink())
    assert not Path(path).exists()


def test_two_texts_do_not_mix() -> None:
    with in_memory("a") as first, in_memory("b") as second:
        assert (Path(first).read_text(), Path(second).read_text()) == ("a", "b")
