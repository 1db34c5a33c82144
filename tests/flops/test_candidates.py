"""Causes alone and in pairs: which pairs are tried."""

from __future__ import annotations

import pytest

from ofu_exporter.flops.candidates import PAIR, RAREST_PAIR, tried
from ofu_exporter.flops.causes import CauseFacts
from tests.flops.causes.synthetic import LATENT, LLAMA


@pytest.mark.parametrize("facts", [CauseFacts(), LLAMA.facts(), LATENT.facts()])
def test_a_pair_is_of_two_causes_that_are_not_too_rare_together(facts: CauseFacts) -> None:
    singles, pairs = tried(facts)
    assert {len(each.tried) for each in singles} == {1}
    for pair in pairs:
        first, second = pair.tried
        assert first.cause is not second.cause
        assert pair.rarity == pytest.approx(first.rarity + second.rarity + PAIR)
        assert pair.rarity <= RAREST_PAIR or pair.needs_right
