"""A long time is read in chunks that the server accepts, and what cannot be read is named."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.errors import QueryError
from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.hours import HOUR, TimeSpan
from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.fleet.series import Series
from ofu_exporter.values.reasons import QueryReason

DAYS = TimeSpan(0.0, 14 * 24 * HOUR)
FEW = TimeSpan(0.0, 4 * 24 * HOUR)
"""For tests of many cuts: enough for several chunks of each kind."""
NOBODY = PrometheusClient("http://127.0.0.1:1")


chunk_reader = partial(ChunkReader, NOBODY)
"""Makes a reader of a server that is not there: what is asked of it is answered here."""


def limited(hours: int, asked: list[TimeSpan]) -> Callable[[TimeSpan], list[int]]:
    """A server that answers for a limited number of hours at once."""

    def fetch(chunk: TimeSpan) -> list[int]:
        asked.append(chunk)
        if chunk.hours > hours:
            raise QueryError(QueryReason.TOO_MUCH, "too many samples")
        first = round(chunk.start / HOUR)
        return [*range(first, first + chunk.hours)]

    return fetch


@given(st.integers(1, 120), st.integers(1, 120))
def test_every_hour_is_read_once_and_in_order_whatever_the_cut(limit: int, at_once: int) -> None:
    reader = chunk_reader(hours_at_once=at_once)
    found = [hour for hours in reader.read("x", FEW, limited(limit, [])) for hour in hours]
    assert found == [*range(FEW.hours)]
    assert reader.missing == []


def test_what_was_too_much_once_is_not_asked_for_again() -> None:
    asked: list[TimeSpan] = []
    [*chunk_reader(hours_at_once=24).read("x", DAYS, limited(6, asked))]
    refused = [chunk for chunk in asked if chunk.hours > 6]
    assert [chunk.hours for chunk in refused] == [24, 12]


@pytest.mark.slow
@given(st.sets(st.integers(0, 95), max_size=30))
def test_hours_that_no_server_answers_are_named_and_the_others_are_read(bad: set[int]) -> None:
    def fetch(chunk: TimeSpan) -> list[int]:
        first = round(chunk.start / HOUR)
        hours = [*range(first, first + chunk.hours)]
        if bad & {*hours}:
            raise QueryError(QueryReason.TOO_MUCH, "too many samples")
        return hours

    reader = chunk_reader()
    found = [hour for hours in reader.read("x", FEW, fetch) for hour in hours]
    missing = [
        hour
        for chunk in reader.missing
        for hour in range(round(chunk.span.start / HOUR), round(chunk.span.end / HOUR))
    ]
    assert sorted(missing) == sorted(bad)
    assert sorted(found + missing) == [*range(FEW.hours)]


def test_answers_with_a_part_of_the_data_are_read_and_named_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter(["", "a store is away", "", "a store is late", *[""] * 24])
    reader = chunk_reader()
    monkeypatch.setattr(reader.client, "take_partial_answer", lambda: next(answers))
    for what in ("jobs", "GPUs"):
        assert sum(reader.read(what, DAYS, lambda chunk: chunk.hours)) == 14 * 24
    assert reader.missing == [("some series", TimeSpan(24 * HOUR, 96 * HOUR), "a store is away")]


def test_a_part_that_fails_for_another_reason_is_missing_as_a_whole() -> None:
    def fetch(chunk: TimeSpan) -> int:
        if chunk.start == 24 * HOUR:
            raise QueryError(QueryReason.REFUSED, "no such function")
        return chunk.hours

    reader = chunk_reader()
    assert sum(reader.read("jobs", DAYS, fetch)) == 13 * 24
    (chunk,) = reader.missing
    assert (chunk.what, chunk.span, chunk.why) == (
        "jobs",
        TimeSpan(24 * HOUR, 48 * HOUR),
        "no such function",
    )


def test_a_server_that_went_away_is_not_asked_for_ever() -> None:
    asked: list[TimeSpan] = []

    def fetch(chunk: TimeSpan) -> int:
        asked.append(chunk)
        raise QueryError(QueryReason.UNREACHABLE, "connection refused")

    reader = chunk_reader()
    assert [*reader.read("x", DAYS, fetch)] == []
    assert [*reader.read("y", DAYS, fetch)] == []
    assert len(asked) == 3
    assert {(chunk.what, chunk.span.hours) for chunk in reader.missing} == {
        ("x", 3 * 24),
        ("x", 11 * 24),
        ("y", 14 * 24),
    }


def test_a_server_that_answers_between_its_failures_is_not_away() -> None:
    reasons = [QueryReason.UNREACHABLE] * 2 + [QueryReason.REFUSED]

    def fetch(chunk: TimeSpan) -> int:
        raise QueryError(reasons[round(chunk.start / (24 * HOUR)) % 3], "no")

    reader = chunk_reader()
    assert [*reader.read("x", DAYS, fetch)] == []
    assert {chunk.why for chunk in reader.missing} == {"no"}


def test_a_server_that_stays_silent_is_asked_for_less_and_then_no_more() -> None:
    asked: list[int] = []

    def fetch(chunk: TimeSpan) -> int:
        asked.append(chunk.hours)
        raise QueryError(QueryReason.SILENT, "no answer within 130 s")

    reader = chunk_reader()
    assert [*reader.read("x", DAYS, fetch), *reader.read("y", DAYS, fetch)] == []
    assert asked == [24, 12, 6, 3, 1, 1, 1]
    assert {(chunk.what, chunk.why) for chunk in reader.missing} == {
        ("x", "no answer within 130 s"),
        ("x", "not asked for: the server is away"),
        ("y", "not asked for: the server is away"),
    }


def test_a_wrong_credential_ends_the_reading() -> None:
    def fetch(chunk: TimeSpan) -> int:
        raise QueryError(QueryReason.DENIED, "401")

    with pytest.raises(QueryError, match="bearer"):
        [*chunk_reader().read("x", DAYS, fetch)]


def test_progress_goes_from_nothing_to_all() -> None:
    said: list[tuple[str, int, int]] = []
    reader = chunk_reader(lambda *told: said.append(told))
    [*reader.read("jobs", TimeSpan(0.0, 3 * 24 * HOUR), limited(12, []))]
    assert said[0] == ("jobs", 0, 72)
    assert said[-1] == ("jobs", 72, 72)
    assert [done for _, done, _ in said] == sorted(done for _, done, _ in said)


def test_no_question_goes_on_behind_the_next_part_after_an_error_in_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, running, most = chunk_reader(), [0], list[int]()

    def recorded(name: str, *_: float) -> list[Series]:
        if name == "refused":
            raise QueryError(QueryReason.REFUSED, "no such function")
        running[0] += 1
        most.append(running[0])
        time.sleep(0.05)
        running[0] -= 1
        return []

    monkeypatch.setattr(reader.client, "recorded", recorded)
    assert [*reader.recorded("x", ["refused", "slow"], DAYS)] == []
    assert max(most) == 1


def test_the_next_part_is_asked_for_while_the_last_is_added_up() -> None:
    asked = threading.Semaphore(0)

    def fetch(chunk: TimeSpan) -> int:
        asked.release()
        return chunk.hours

    chunks = chunk_reader().read("x", DAYS, fetch)
    next(chunks)
    assert asked.acquire(timeout=60)
    assert asked.acquire(timeout=60)
    assert not asked.acquire(blocking=False)
