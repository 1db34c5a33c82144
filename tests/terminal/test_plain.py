"""Text for pipes and terminals: with colours only where they are wanted, and in ASCII where nothing else goes."""

from __future__ import annotations

import re
from itertools import product

from ofu_exporter.terminal.cells import width_of
from ofu_exporter.terminal.plain import for_encoding, page
from ofu_exporter.terminal.views import VIEWS, Choice
from tests.helpers.every import every
from tests.helpers.scenes import many_nodes, one_node

SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")


@every(product(VIEWS, [60, 100, 250]))
def test_plain_text_has_no_sequences_and_fits(view: str, width: int) -> None:
    text = page(many_nodes("node-99"), Choice(view), width)
    assert "\x1b" not in text
    assert all(width_of(line) <= width for line in text.splitlines())


def test_colours_change_nothing_but_looks() -> None:
    plain = page(one_node(), Choice(), 120)
    coloured = page(one_node(), Choice(), 120, is_coloured=True)
    assert SEQUENCE.search(coloured)
    without = [line.rstrip() for line in SEQUENCE.sub("", coloured).splitlines()]
    assert without == plain.splitlines()


def test_text_of_another_encoding_is_ascii() -> None:
    text = page(one_node(), Choice(), 100)
    assert for_encoding(text, "utf-8") == text
    for encoding in ("ascii", "latin-1", "no-such-encoding"):
        made = for_encoding(text, encoding)
        assert made.isascii()
        assert "#" in made
        assert "?" not in made
