"""What is counted of the vocabulary: a table that is the head too is there once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter.flops.causes import every_pair
from ofu_exporter.flops.causes.vocabulary import all_parameters_and_pairs
from tests.flops.causes.synthetic import LLAMA
from tests.flops.counting import config


@pytest.mark.parametrize(("name", "vocabulary"), [("gemma-7b", 0), ("llama-3-8b", 128256 * 4096)])
def test_six_for_each_parameter_has_a_table_that_is_tied_once(name: str, vocabulary: int) -> None:
    """A head multiplies its table already, so that of an untied model comes to that."""
    facts = replace(LLAMA, config=config(name)).facts()
    assert facts.step is not None
    (one,) = all_parameters_and_pairs.hypotheses(facts)
    assert one.miscount is not None
    more = one.miscount(facts.step).flops() - every_pair(facts.step).flops()
    assert more == pytest.approx(6 * vocabulary * float(facts.step.lengths.tokens()))
