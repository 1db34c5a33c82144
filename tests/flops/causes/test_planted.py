"""Of 60 mistakes in six architectures at most 8 are not named first, and none of 600 honest jobs is accused."""

from __future__ import annotations

import pytest

from tests.flops.causes import jobs, planted

NOT_FIRST, WRONG = 8, 5


@pytest.mark.parametrize("model", planted.MODELS)
def test_the_sizes_of_the_cards_make_the_counts_of_the_package(model: jobs.Sizes) -> None:
    """Nemotron-H has a convolution besides, 0.01 % of its FLOPs."""
    step = jobs.Job("honest", model).facts_of().step
    assert step is not None
    assert step.flops() == pytest.approx(8 * 3 * model.forward(), rel=2e-4)


def test_sixty_mistakes_or_more_of_ten_kinds() -> None:
    assert len(planted.MISTAKES) >= 60
    assert len({job.cause for job in planted.MISTAKES}) >= 10
    assert {job.model for job in planted.MISTAKES} == {*planted.MODELS}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(jobs.SEEDS))
def test_most_mistakes_are_named_first_and_few_others_are(seed: int) -> None:
    missed = [*jobs.missed(planted.MISTAKES, seed)]
    wrong = [each for each in missed if each.first != "nothing" and not each.is_twin]
    assert len(missed) <= NOT_FIRST, missed
    assert len(wrong) <= WRONG, wrong


@pytest.mark.slow
@pytest.mark.parametrize("is_rate_known", [True, False])
def test_no_honest_job_is_accused_with_and_without_its_throughput(is_rate_known: bool) -> None:
    assert planted.accused(is_rate_known) == []
