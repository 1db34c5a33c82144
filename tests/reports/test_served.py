"""What an engine served is added up over pulls and restarts, each token once; truths are counted by hand."""

from __future__ import annotations

import pytest

from ofu_exporter.jobs.kept_served import KeptCounters
from ofu_exporter.reports import engine_pages
from ofu_exporter.reports.engine_pages import MAX_SERIES
from ofu_exporter.reports.served import MAX_NAMES, MAX_PROCESSES, ServedTally
from ofu_exporter.values.served import TOKEN_KINDS, Served


def page(prompt: float, cached: float = 0.0, recomputed: float = 0.0, **more: float) -> str:
    rows = {"prompt_tokens": prompt, "prompt_tokens_cached": cached}
    rows |= {"prompt_tokens_recomputed": recomputed, **more}
    return "".join(
        f'vllm:{name}_total{{engine="0",model_name="m"}} {value}\n' for name, value in rows.items()
    )


def after(*pages: str) -> Served:
    tally = ServedTally()
    for place, text in enumerate(pages):
        read = engine_pages.read(text)
        assert read is not None
        tally.take(read, 10.0 * place)
    return tally.served


def tokens(served: Served) -> dict[str, float]:
    return {kind: served.tokens[key] for key in served.tokens for kind in [key[1]]}


def test_what_was_served_before_the_first_pull_is_not_counted() -> None:
    assert tokens(after(page(1e6))) == {"prompt": 0, "cached": 0, "recomputed": 0}


def test_each_token_of_a_prompt_counts_once() -> None:
    served = after(page(100, 0, 0, generation_tokens=0), page(1100, 300, 5, generation_tokens=70))
    assert tokens(served) == {"prompt": 695.0, "cached": 300.0, "recomputed": 5.0, "generation": 70}
    assert set(tokens(served)) == set(TOKEN_KINDS)
    assert sum(served.tokens.values()) == 1000 + 70


def test_no_count_falls_where_an_engine_counts_cached_tokens_before_their_prompts() -> None:
    served = after(page(100), page(200), page(200, 50))
    assert (tokens(served)["prompt"], tokens(served)["cached"]) == (100, 50)


def test_after_a_restart_the_engine_counts_from_0() -> None:
    assert tokens(after(page(500), page(900), page(200), page(250)))["prompt"] == 400 + 200 + 50


def test_a_restart_is_seen_by_the_start_of_the_process_where_the_counter_is_higher_again() -> None:
    first = page(500) + "process_start_time_seconds 100\n"
    second = page(800) + "process_start_time_seconds 200\n"
    assert tokens(after(first, second))["prompt"] == 800


@pytest.mark.parametrize(("ahead", "counted"), [(59.0, 800), (61.0, 0)])
def test_a_process_may_have_begun_a_minute_before_the_last_page_by_its_own_clock(
    ahead: float, counted: int
) -> None:
    tally = ServedTally()
    for value, started in ((500, 100.0), (800, 5000.0 - ahead)):
        read = engine_pages.read(page(value) + f"process_start_time_seconds {started}\n")
        assert read is not None
        tally.take(read, 5000.0)
    assert tokens(tally.served)["prompt"] == counted


def test_engines_behind_one_address_that_answer_by_turns_are_no_restarts() -> None:
    """Two that had served 1,000,000 before; each serves 10 more between two of its pages."""
    tally = ServedTally()
    for turn in range(20):
        value, started = 1e6 + turn // 2 * 10, 100 + turn % 2
        read = engine_pages.read(page(value) + f"process_start_time_seconds {started}\n")
        assert read is not None
        tally.take(read, 5000.0 + 15 * turn)
    assert tokens(tally.served)["prompt"] == 2 * 9 * 10


def test_thousands_of_names_over_time_are_few_series_and_no_token_is_lost() -> None:
    tally = ServedTally()
    for turn in range(500):
        names = [f"m{n}" for n in range(turn, turn + 20)]
        rows = [
            f'sglang:{name}{{model_name="{model}",category="c{model}"}} 1\n'
            for model in (names if turn % 2 else reversed(names))
            for name in (
                "generation_tokens_total",
                "forward_execution_seconds_total",
                "num_running_reqs",
            )
        ]
        read = engine_pages.read("".join(rows))
        assert read is not None
        tally.take(read)
    served = tally.served
    assert len(served.tokens) == len(served.running) + 16 == 17
    assert len(served.forward_seconds) == 17
    assert sum(served.tokens.values()) == 499, "in each page but the first one model is new"
    kept = tally.kept()
    assert (len(kept[0].models), len(kept[0].phases)) == (MAX_NAMES, MAX_NAMES)
    assert ServedTally(kept).kept() == kept


@pytest.mark.parametrize("starts", [False, True])
def test_an_engine_of_a_gateway_joins_at_0_leaves_with_what_it_served_and_goes_on_when_it_is_back(
    starts: bool,
) -> None:
    """Each engine's tokens and, where the gateway passes it on, the start of its process."""

    def of(**engines: tuple[float, float]) -> str:
        return "".join(
            f'vllm:generation_tokens_total{{worker="{name}",model_name="m"}} {value}\n'
            + f'process_start_time_seconds{{worker="{name}"}} {began}\n' * starts
            for name, (value, began) in engines.items()
        )

    a, b, again = 100.0, 9e9, 9e9 + 1
    served = after(
        of(a=(1000, a)),
        of(a=(1005, a), b=(100, b)),
        of(a=(1006, a)),  # b was late
        of(a=(1008, a), b=(130, b)),
        of(a=(1009, a), b=(20, again)),  # b was restarted
        of(b=(27, again)),
    )
    assert served.tokens["m", "generation"] == (1009 - 1000) + 130 + 27
    assert served.seconds == {"m": 50.0}


def test_bytes_are_those_of_one_gpu() -> None:
    def of(first: float, second: float) -> str:
        return "vllm:generation_tokens_total 1\n" + "".join(
            f'vllm:estimated_read_bytes_per_gpu_total{{engine="{rank}"}} {value}\n'
            for rank, value in enumerate((first, second))
        )

    assert after(of(0, 0), of(4e12, 6e12)).moved_bytes["", "read"] == 5e12


def test_requests_that_run_are_those_of_the_last_page() -> None:
    engines = enumerate((3, 4))
    one = "".join(
        f'vllm:num_requests_running{{engine="{n}",model_name="m"}} {value}\n'
        for n, value in engines
    )
    tally = ServedTally()
    read = engine_pages.read(one)
    assert read is not None
    tally.take(read, 0.0)
    assert tally.served.running == {"m": 7.0}
    tally.lose()
    assert tally.served.running == {}


def test_the_time_and_the_flops_are_those_between_pulls() -> None:
    def of(flops: float) -> str:
        return f'vllm:estimated_flops_per_gpu_total{{engine="0",model_name="m"}} {flops}\n'

    served = after(of(9e15), of(9.5e15), of(1e14))
    assert served.flops == {"m": 5e14 + 1e14}
    assert served.seconds == {"m": 20.0}


def test_of_many_engines_behind_one_address_the_one_not_read_for_longest_is_forgotten() -> None:
    tally, most = ServedTally(), range(1, MAX_PROCESSES + 1)
    turns = [*((number, 5) for number in (*most, 1, 99)), (1, 15), (2, 25), (4, 12)]
    for turn, (number, value) in enumerate(turns):
        read = engine_pages.read(page(value) + f"process_start_time_seconds {100 + number}\n")
        assert read is not None
        tally.take(read, 5000.0 + 15 * turn)
    assert tokens(tally.served)["prompt"] == (15 - 5) + (12 - 5)
    assert len(tally.kept()) == MAX_PROCESSES


def test_engines_behind_one_address_with_many_series_each_are_fewer() -> None:
    tally = ServedTally()
    rows = "".join(f'vllm:prompt_tokens_total{{engine="{n}"}} 5\n' for n in range(MAX_SERIES))
    for number in range(6):
        read = engine_pages.read(f"{rows}process_start_time_seconds {100 + number}\n")
        assert read is not None
        tally.take(read, 5000.0 + 15 * number)
    assert [each.started for each in tally.kept()] == [(f"{n}",) for n in range(102, 106)]


def test_a_clock_that_was_set_back_takes_no_time_and_names_that_were_kept_are_bounded() -> None:
    kept = KeptCounters(at=0.0, models=tuple(map(str, range(MAX_NAMES + 4))))
    tally = ServedTally([kept])
    assert len(tally.kept()[0].models) == MAX_NAMES
    again = ServedTally()
    for at in (100.0, 50.0, 60.0):
        read = engine_pages.read(page(5))
        assert read is not None
        again.take(read, at)
    assert again.served.seconds == {"m": 10.0}
