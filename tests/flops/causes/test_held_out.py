"""Of 310 mistakes of 31 kinds in models and cards of these years nearly all are named first, and nobody is accused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter import flops
from tests.flops.causes import held_out
from tests.flops.causes.cards import FINAL, TUNING, Card

HONEST = 600
"""Of each of the three levels, and 600 others: 2,400 jobs."""


@pytest.mark.parametrize("card", TUNING + FINAL, ids=lambda card: card.name)
def test_the_numbers_of_the_cards_make_the_counts_of_the_package(card: Card) -> None:
    job = held_out.Job("honest", (), card)
    step = held_out.facts_of(job).step
    assert step is not None
    assert step.flops() == pytest.approx(8 * 3 * card.forward(), rel=1e-12)
    if card.depth:
        predicting = held_out.facts_of(replace(job, counting=flops.Counting(predictions=True))).step
        assert predicting is not None
        trained = replace(card, predicts=True)
        assert predicting.flops() == pytest.approx(8 * 3 * trained.forward(), rel=1e-12)


def test_ten_mistakes_of_each_kind() -> None:
    jobs = [*held_out.planted("final", FINAL)]
    assert len(jobs) == 310
    assert len({job.kind for job in jobs}) == 31


@pytest.mark.slow
def test_with_a_throughput_nearly_every_mistake_is_named_first() -> None:
    score = held_out.scored([*held_out.planted("final", FINAL)], "final")
    assert score.right >= 285, score
    assert score.wrong <= 15, score


@pytest.mark.slow
@pytest.mark.parametrize(("level", "most"), [("config", 20), ("bare", 40)])
def test_without_it_few_others_are_blamed(level: str, most: int) -> None:
    score = held_out.scored([*held_out.planted("final", FINAL)], "final", level)
    assert score.wrong <= most, score


@pytest.mark.slow
@pytest.mark.parametrize("level", ["throughput", "config", "bare"])
def test_no_honest_job_is_accused(level: str) -> None:
    assert held_out.accused("test", FINAL, HONEST, level) == []


@pytest.mark.slow
def test_no_other_honest_job_is_accused() -> None:
    assert held_out.accused("more", TUNING, HONEST, "config") == []
