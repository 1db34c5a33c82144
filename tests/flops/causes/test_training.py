"""Packs and frozen parts that are counted wrongly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter import flops
from ofu_exporter.flops import Lora, Passes
from tests.flops.causes.synthetic import LLAMA, known, ratios


@pytest.mark.parametrize(
    ("lengths", "pack", "given"),
    [
        ([700, 1500, 900, 3000, 2092] * 4, 8192, None),
        ([2048] * 16, 8192, 8192),
        ([1000, 3000, 500], 4500, None),
        ([3000] * 5, 4096, 4096),
    ],
)
def test_packs_that_are_counted_as_one_sequence_each(
    lengths: list[int], pack: int, given: int | None
) -> None:
    """Llama-3-8B has 4096 x 32 layers of queries: 12 FLOPs for each and each pair, half of them."""
    step = replace(LLAMA, lengths=flops.packed(lengths))
    packs, rest = divmod(sum(lengths), pack)
    pairs = packs * pack**2 + rest**2 - sum(each**2 for each in lengths)
    expected = 1 + 6 * 4096 * 32 * pairs / step.flops()
    assert any(
        ratio == pytest.approx(expected, rel=1e-9)
        for ratio in ratios("pack_as_one_sequence", known(step, pack_length=given))
    )


def test_a_plain_batch_is_no_pack() -> None:
    assert ratios("pack_as_one_sequence", LLAMA.facts()) == []


def test_frozen_parts_and_adapters() -> None:
    job = replace(LLAMA, passes=Passes(lora=Lora(64))).facts()
    assert 1.3 < ratios("frozen_counted", job)[0] < 1.5
