"""The periods before one are what a report over each would say, as far as the rules keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history import queries
from ofu_exporter.fleet.hours import TimeSpan
from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.fleet.reports import periods
from ofu_exporter.fleet.reports.periods import read_before, with_periods
from ofu_exporter.fleet.reports.result import PeriodRow
from tests.doubles.query_server import Question, ServerAnswer, error, query_server, vector
from tests.fleet.reports.test_fleet_report import report
from tests.helpers.agent import until
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import (
    BEGIN,
    HOUR,
    ScheduledJob,
    StoredNode,
    empty_victoria,
    pages,
    put_into,
    read_in,
    record,
    stored,
)

NODES = [StoredNode("a", f"n{n}:9846", "NVIDIA H100 80GB HBM3", 4) for n in range(2)]
JOBS = [
    ScheduledJob("1", "ada", (NODES[0],), 0, 4, 0.4),
    ScheduledJob("2", "ada", (NODES[0],), 4, 8, 0.2),
    ScheduledJob("3", "eve", (NODES[1],), 4, 6, 0.5),
    ScheduledJob("4", "ada", (NODES[0],), 8, 12, 0.3),
]
"""Three periods of four hours of eight GPUs."""
SPAN = TimeSpan(BEGIN + 8 * HOUR, BEGIN + 12 * HOUR)


@contextmanager
def reading(url: str) -> Iterator[ChunkReader]:
    client = PrometheusClient(url)
    yield ChunkReader(client)
    client.close()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("periods")
    read_in(folder, pages(NODES, JOBS, 12))
    wanted = [each.recorded for each in (*queries.JOB_HOURS[:3], *queries.MODEL_HOURS)]
    record(folder, BEGIN, BEGIN + 12 * HOUR, " ".join([*wanted, queries.INSTALLED.recorded]))
    with stored(folder) as running:
        yield running


@pytest.mark.slow
@pytest.mark.prometheus
def test_each_period_has_what_was_done_in_it(prometheus: Prometheus) -> None:
    with reading(prometheus.url) as reader:
        first, second = read_before(reader, SPAN, "user")
    assert reader.missing == []
    assert (first.start, second.end) == ("2026-01-05T00:00:00Z", "2026-01-05T08:00:00Z")
    assert first.groups == pytest.approx({"ada": 0.4}, rel=0.02)
    assert second.groups == pytest.approx({"ada": 0.2, "eve": 0.5}, rel=0.02)
    assert first.delivered_ratio == pytest.approx(0.4 / 2, rel=0.03)
    assert second.delivered_ratio == pytest.approx((0.2 * 16 + 0.5 * 8) / 32, rel=0.03)
    assert second.ofu == pytest.approx((0.2 * 16 + 0.5 * 8) / 24, rel=0.02)


@pytest.mark.slow
@pytest.mark.prometheus
def test_by_what_the_records_do_not_name_the_whole_is_known_alone(prometheus: Prometheus) -> None:
    with reading(prometheus.url) as reader:
        _, second = read_before(reader, SPAN, "framework")
    assert second.groups == {}
    assert second.ofu == pytest.approx(0.3, rel=0.02)


@pytest.mark.slow
@pytest.mark.prometheus
def test_before_the_first_data_there_is_no_period(prometheus: Prometheus) -> None:
    with reading(prometheus.url) as reader:
        assert read_before(reader, TimeSpan(BEGIN, BEGIN + 12 * HOUR), "user") == []
    assert reader.missing == []


@pytest.mark.slow
@pytest.mark.prometheus
def test_a_job_that_began_in_the_last_hour_before_midnight_is_of_the_period_that_ends_then(
    tmp_path: Path,
) -> None:
    """Recorded by vmalert at midnight (UTC): up to then, VictoriaMetrics has no series that begins at it."""
    midnight = BEGIN + 24 * HOUR
    installed = [f"model:ofu_gpu_share:sum 8 {1000 * (midnight - 300 * n):.0f}" for n in range(48)]
    jobs = [
        f'job:{name}_gpu_hours:increase1h{{job_id="{user}",user="{user}"}} {hours} {1000 * at:.0f}'
        for user, at in {"ada": midnight - HOUR, "eve": midnight}.items()
        for name, hours in {"observed": 4, "utilized": 2}.items()
    ]
    with empty_victoria(tmp_path) as server, reading(server.url) as reader:
        put_into(server, [*installed, *jobs])
        until(lambda: server.query(f"job:utilized_gpu_hours:increase1h @ {midnight + 1:.0f}"))
        (period,) = read_before(reader, TimeSpan(midnight, midnight + 4 * HOUR), "user")
    assert period.groups == {"ada": 0.5, "eve": 0.5}


def refused(_: Question) -> ServerAnswer:
    return error(422, "execution", "too deep")


def partial(_: Question) -> ServerAnswer:
    return ServerAnswer(200, {**vector(({}, BEGIN, "4")).body, "warnings": ["a store is away"]})


def nothing(_: Question) -> ServerAnswer:
    return ServerAnswer(200, {**vector().body, "warnings": ["No StoreAPIs matched"]})


@pytest.mark.parametrize(
    ("answer", "why"), [(refused, "too deep"), (partial, "a store is away"), (nothing, "")]
)
def test_periods_that_are_not_read_as_a_whole_are_named_and_nothing_is_compared(
    answer: Callable[[Question], ServerAnswer], why: str
) -> None:
    """A time before all data is none of them, though Thanos warns that no store has it."""
    with query_server(answer) as server, reading(server.url) as reader:
        assert read_before(reader, SPAN, "user") == []
    assert [each.what for each in reader.missing] == ["the periods before"] * bool(why)
    assert all(why in each.why for each in reader.missing)


def period(delivered: float | None, **groups: float) -> PeriodRow:
    return PeriodRow(
        start="", end="", covered_ratio=1.0, delivered_ratio=delivered, ofu=0.25, groups=groups
    )


def test_what_changed_is_against_the_last_period_and_shares_add_up() -> None:
    made = report()
    found = with_periods(made, [period(0.9), period(0.1, alice=0.5, gone=0.2)])
    (installed,) = (step for step in made.funnel if step.name == "installed")
    assert installed.gpu_hours == 400
    assert found.delivered_change == pytest.approx(45 / 400 - 0.1)
    assert len(found.periods) == 3
    assert found.periods[1].groups == {"alice": 0.5}, "nobody is named who is not in the report"
    changes = {row.name: row.ofu_change for row in found.groups}
    assert changes["alice"] == pytest.approx(32 / 80 - 0.5)
    assert changes["bob|x"] is None
    assert sum(row.recoverable_share or 0.0 for row in found.groups) == pytest.approx(1.0)
    assert found.total.ofu_change == pytest.approx((found.total.ofu or 0.0) - 0.25)


def test_of_a_time_of_which_little_is_known_nothing_is_held_against_another() -> None:
    made = report()
    little = made.model_copy(update={"time": made.time.model_copy(update={"covered_ratio": 0.4})})
    *_, own = with_periods(little, [period(0.1)]).periods
    assert (own.delivered_ratio, own.ofu, own.groups) == (None, None, {})


def test_without_a_period_before_nothing_has_changed() -> None:
    found = with_periods(report(), [])
    assert (found.delivered_change, found.total.ofu_change) == (None, None)
    assert len(found.periods) == 1
    assert periods.MOST == 8
