"""What a token cost is sums over sums of the hours in which both are known; tokens from a cache are no work."""

from __future__ import annotations

import pytest

from ofu_exporter.fleet.history.served_sums import (
    PricedServed,
    ServedSums,
    served_columns,
    served_models,
)
from ofu_exporter.values.served import CACHED, GENERATION, PROMPT, RECOMPUTED
from tests.helpers.every import every

TOKENS = {PROMPT: 1e6, CACHED: 4e6, RECOMPUTED: 5e5, GENERATION: 2e6}


def served(held: float = 2.0, *roles: str, model: str = "m") -> ServedSums:
    """An hour of each of some GPUs, at 1 kW each."""
    sums = ServedSums(roles={*roles})
    sums.add_hour({(model, kind): count for kind, count in TOKENS.items()}, held, 3.6e6 * held)
    return sums


@every([((), 3.5e6), (("prefill",), 1.5e6), (("decode",), 2e6), (("prefill", "decode"), 3.5e6)])
def test_of_an_engine_with_a_role_only_its_own_tokens_are_work(
    roles: tuple[str, ...], work: float
) -> None:
    found = served_columns([PricedServed(served(2.0, *roles), 3.0)])
    assert found["tokens_per_gpu_second"] == pytest.approx(work / 7200)
    assert found["joules_per_token"] == pytest.approx(7.2e6 / work)
    assert found["cost_per_million_tokens"] == pytest.approx(6e6 / work)
    assert found["serving_kwh"] == pytest.approx(2.0)
    assert [found[f"{kind}_tokens"] for kind in TOKENS] == [*TOKENS.values()]


def test_an_hour_of_which_something_is_not_known_takes_its_tokens_out_of_that_ratio() -> None:
    sums = served()
    sums.add_hour({("m", GENERATION): 9e6}, None, None)
    found = served_columns([PricedServed(sums, None)])
    assert found["generation_tokens"] == 11e6
    assert found["tokens_per_gpu_second"] == pytest.approx(3.5e6 / 7200)
    assert found["joules_per_token"] == pytest.approx(7.2 / 3.5)
    assert (found["serving_cost"], found["cost_per_million_tokens"]) == (None, None)
    assert served_columns([]) == {}


def test_a_price_of_one_kind_of_token_is_that_of_its_engines_alone() -> None:
    jobs = [PricedServed(served(2.0, "prefill"), 3.0), PricedServed(served(4.0, "decode"), 3.0)]
    found = served_columns([*jobs, PricedServed(served(), None)])
    assert found["cost_per_million_prompt_tokens"] == pytest.approx(6 / 1.5)
    assert found["cost_per_million_generation_tokens"] == pytest.approx(12 / 2)
    assert found["serving_cost"] == 18


@every([(0.9, None), (1.0, 0.25)])
def test_memory_that_was_measured_for_less_than_half_of_the_time_is_not_known(
    measured: float, ratio: float | None
) -> None:
    sums = served()
    sums.add_rest(3.6e6, measured / 4, measured)
    sums.add_rest(None, None, 5.0)
    found = served_columns([PricedServed(sums, None)])
    assert (found["memory_ratio"], found["idle_engine_kwh"]) == (ratio, 1.0)


def test_a_model_has_the_energy_of_jobs_that_served_it_alone_and_the_tokens_of_all() -> None:
    mixed = served(model="a")
    mixed.add_hour({("b", GENERATION): 1e7}, 1.0, None)
    jobs = [PricedServed(each, None) for each in (mixed, served(model="a"))]
    first, second = served_models(jobs)
    assert (first.served_model, first.jobs, first.generation_tokens) == ("b", 1, 1e7)
    assert first.serving_kwh is None
    assert (second.served_model, second.jobs, second.generation_tokens) == ("a", 2, 4e6)
    assert second.serving_kwh == pytest.approx(2.0)
