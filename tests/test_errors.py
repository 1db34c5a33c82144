"""What an error says is short, whatever it quotes."""

from __future__ import annotations

import pytest

from ofu_exporter.errors import MOST_CHARS, ConfigError


@pytest.mark.parametrize("length", [0, 1, MOST_CHARS])
def test_a_text_of_usual_length_stays_as_it_is(length: int) -> None:
    assert str(ConfigError("x" * length)) == "x" * length


def test_of_a_long_text_the_begin_and_the_end_stay() -> None:
    said = str(ConfigError(f"interval: {'x' * 100_000} is not a duration (interval in ofu.yaml)"))
    assert said.startswith("interval: xxx")
    assert said.endswith("xxx is not a duration (interval in ofu.yaml)")
    assert len(said) < MOST_CHARS + 10
