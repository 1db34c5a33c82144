"""With configuration and throughput nearly every mistake is named first, and no honest job is accused."""

from __future__ import annotations

import pytest

from tests.flops.causes import jobs, judge


@pytest.mark.parametrize("model", judge.MODELS)
def test_the_judge_counts_what_the_models_need(model: jobs.Sizes) -> None:
    """Its own formulas, not the package's, make the mistakes; on the right count they agree."""
    step = jobs.Job("honest", model).facts_of().step
    assert step is not None
    assert step.flops() == pytest.approx(8 * 3 * model.forward(), rel=1e-6)


def test_the_judge_has_forty_mistakes_of_twenty_kinds() -> None:
    assert len(judge.MISTAKES) == 40
    assert len({job.cause for job in judge.MISTAKES}) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(jobs.SEEDS))
def test_nearly_every_mistake_is_named_first(seed: int) -> None:
    missed = [*jobs.missed(judge.MISTAKES, judge.explained, seed)]
    assert len(missed) <= 3, missed


@pytest.mark.slow
def test_no_honest_job_is_accused() -> None:
    assert judge.accused() == []
