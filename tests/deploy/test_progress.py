"""The rules say how much of a job's time was no progress, within a hundredth of what was planted, on both engines.

Scrapes fail, agents are started anew, jobs are requeued and continued under another id.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.history import read_history
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.history.progress_sums import NoProgress
from ofu_exporter.fleet.hours import TimeSpan
from ofu_exporter.fleet.pages.tables import facts
from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.fleet.reports.fleet_report import ReportOptions, fleet_report
from ofu_exporter.fleet.reports.periods import read_before, with_periods
from ofu_exporter.support.percent import percent
from tests.helpers import progress_fleet
from tests.helpers.progress_fleet import Kind, PlannedRun, ProgressFleet, Stretch
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import BEGIN, HOUR, read_in, record, record_in, stored, stored_pages

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("progress")]

NAMES = "job:lost_progress_gpu_hours:sum1h job:lost_progress_utilized_gpu_hours:sum1h"
HOURS = (
    "job:held_gpu_hours:increase1h job:observed_gpu_hours:increase1h job:utilized_gpu_hours:increase1h "
    "model:observed_gpu_hours:increase1h model:utilized_gpu_hours:increase1h model:ofu_gpu_share:sum "
    "job:ofu_job_step:max1h"
)
"""What reports read."""
WATCHED = "job:watched_gpu_hours:sum1h"
OLD_LACK = ("ofu_gpu_lost_seconds_total", "ofu_job_lost_progress_gpu_seconds_total")
"""Series that agents of before have not."""
OF_FLEET = 0.01
"""Of the installed GPU-hours."""
OF_JOB = 0.02
"""Of the GPU-hours that the job held."""
OF_PEAK = 0.002
SECONDS_OF_A_SCRAPE = ("--query.lookback-delta=40s",)
"""A page that failed ends its series, which what is read in from a file can't say."""


@contextmanager
def briefly(folder: Path) -> Iterator[Prometheus]:
    with stored(folder, SECONDS_OF_A_SCRAPE) as prometheus:
        yield prometheus


@contextmanager
def engine(name: str, fleet: ProgressFleet, names: str, folder: Path) -> Iterator[PrometheusClient]:
    """An engine with the pages of a fleet, and what its own rules made of them."""
    end = BEGIN + fleet.hours * HOUR
    if name == "victoria":
        with progress_fleet.victoria(fleet.pages(), folder) as victoria:
            record_in(victoria, BEGIN, end, names)
            client = PrometheusClient(victoria.url)
            yield client
    else:
        read_in(folder, fleet.pages())
        record(folder, BEGIN, end, names, briefly)
        with stored(folder) as prometheus:
            client = PrometheusClient(prometheus.url)
            yield client
    client.close()


def over(client: PrometheusClient, name: str, by: str, end: float) -> dict[tuple[str, ...], float]:
    asked = client.instant(f"sum by ({by}) (sum_over_time({name}[100h]))", end)
    return {
        tuple(one.labels.get(label, "") for label in by.split(", ")): one.points[0][1]
        for one in asked
    }


def check_chain(client: PrometheusClient, fleet: ProgressFleet) -> dict[tuple[str, ...], float]:
    """The report multiplies out to the work of the progress, and says what else was worked; gives what it says that
    jobs lost, by job and reason."""
    reader = ChunkReader(client)
    history = read_history(reader, BEGIN, BEGIN + fleet.hours * HOUR)
    prices = Prices(currency="EUR", gpu_hour={"*": 2.0})
    report = fleet_report(history, ReportOptions("user", prices), reader)
    steps = {step.factor: step for step in report.chain}
    assert [*steps] == ["capacity", "allocated", "together", "progress", "ofu"]
    held, lost = sum(fleet.held().values()), fleet.lost()
    before = sum(
        hours for (_, reason), hours in lost.items() if reason in ("starting", "held_idle", "alone")
    )
    truth = (held, held - before, held - sum(lost.values()), fleet.used("work"))
    near = (OF_FLEET, OF_FLEET, OF_FLEET, OF_PEAK)
    for step, hours, error in zip(report.chain[1:], truth, near, strict=True):
        assert step.share == pytest.approx(hours / fleet.installed, abs=error), step
        assert step.cost == pytest.approx(2.0 * (step.gpu_hours or 0.0))
    product = math.prod(step.ratio or 0.0 for step in report.chain)
    rest = report.progress[0].lost_effective_gpu_hours or 0.0
    kinds: tuple[Kind, ...] = ("work", "again", "evaluation")
    assert product + rest / fleet.installed == pytest.approx(
        fleet.used(*kinds) / fleet.installed, abs=OF_PEAK
    )
    assert f"{percent(steps['ofu'].share)} of the peak became progress." in next(facts(report))
    assert {row.by for row in report.progress} == {"all", "user", "account", "job"}
    jobs = [row for row in report.progress if row.by == "job"]
    lost_by = itertools.product(jobs, NoProgress)
    return {
        (row.name, each.value): getattr(row, f"{each.value}_gpu_hours") or 0.0
        for row, each in lost_by
    }


def check_before(client: PrometheusClient, fleet: ProgressFleet) -> None:
    """What stands beside each factor is what a report over the half before says of it, hour by hour."""
    half = fleet.hours / 2 * HOUR
    reader, options = ChunkReader(client), ReportOptions("user", Prices())
    first, second = (
        fleet_report(read_history(reader, begin, begin + half), options, reader)
        for begin in (BEGIN, BEGIN + half)
    )
    before = read_before(reader, TimeSpan(BEGIN + half, BEGIN + 2 * half), "user")
    both = with_periods(second, before).chain
    assert len(before) == 1
    for now, then in zip(both, first.chain, strict=True):
        assert now.factor == then.factor
        assert now.share_before == pytest.approx(then.share, abs=OF_PEAK / 2), now.factor
        assert now.ratio_before == pytest.approx(then.ratio, abs=OF_PEAK), now.factor


@pytest.mark.parametrize(
    ("name", "seed", "vanish"),
    [
        ("prometheus", 1, False),
        ("victoria", 2, False),
        ("prometheus", 3, True),
        ("victoria", 4, True),
    ],
)
def test_each_loss_is_what_was_planted(name: str, seed: int, vanish: bool, tmp_path: Path) -> None:
    fleet = progress_fleet.planned(seed)
    if vanish:
        fleet = progress_fleet.with_vanished(fleet)
    end = BEGIN + fleet.hours * HOUR
    with engine(name, fleet, f"{NAMES} {HOURS}", tmp_path) as client:
        found = check_chain(client, fleet)
        if not vanish:  # what was not seen is in the report alone
            found = over(client, "job:lost_progress_gpu_hours:sum1h", "job_id, reason", end)
            check_before(client, fleet)
        used = over(client, "job:lost_progress_utilized_gpu_hours:sum1h", "cluster", end)
    planted, held = fleet.lost(), fleet.held()
    reasons = {reason for _, reason in planted}
    assert reasons == {
        *("starting", "held_idle", "alone", "done_again", "evaluation", "checkpoint")
    }
    for job, hours in held.items():
        for reason in reasons:
            is_, was = found.get((job, reason), 0.0), planted.get((job, reason), 0.0)
            assert is_ == pytest.approx(was, abs=OF_JOB * hours), (job, reason)
    for reason in reasons:
        is_, was = (
            sum(hours for (_, each), hours in some.items() if each == reason)
            for some in (found, planted)
        )
        assert is_ == pytest.approx(was, abs=OF_FLEET * fleet.installed), reason
    was = fleet.used("start", "hang", "straggler", "pause", "checkpoint", "evaluation")
    assert sum(used.values()) == pytest.approx(was, abs=OF_PEAK * fleet.installed)


@pytest.mark.parametrize("name", ["prometheus", "victoria"])
def test_what_a_node_counts_while_it_is_away_for_hours_is_its_jobs(
    name: str, tmp_path: Path
) -> None:
    """A requeued job starts and repeats steps while a node is away, from within the first run until long after."""
    nodes = ("n1:9846", "n2:9846")
    first = PlannedRun("7", nodes, 300, [Stretch("start", 600), Stretch("work", 8000)])
    again = [Stretch("start", 900), Stretch("again", 2400), Stretch("work", 10000)]
    fleet = ProgressFleet(
        *(nodes, [first, PlannedRun("7", nodes, first.end + 400, again)], 8),
        away={nodes[1]: (1.6 * HOUR, 4.7 * HOUR)},
    )
    with engine(name, fleet, f"{NAMES} {HOURS}", tmp_path) as client:
        reader = ChunkReader(client)
        history = read_history(reader, BEGIN, BEGIN + fleet.hours * HOUR)
        (row,) = (
            row
            for row in fleet_report(history, ReportOptions("user", Prices()), reader).progress
            if row.by == "job"
        )
    lost, error = fleet.lost(), OF_JOB * fleet.held()["7"]
    assert row.starting_gpu_hours == pytest.approx(lost["7", "starting"], abs=error)
    assert row.done_again_gpu_hours == pytest.approx(lost["7", "done_again"], abs=error)


def test_without_rules_the_chain_is_rough_and_says_so(tmp_path: Path) -> None:
    fleet = progress_fleet.planned(1)
    with stored_pages(tmp_path, fleet.pages()) as prometheus:
        client = PrometheusClient(prometheus.url)
        reader = ChunkReader(client)
        history = read_history(reader, BEGIN, BEGIN + fleet.hours * HOUR)
        report = fleet_report(history, ReportOptions("user", Prices()), reader)
        client.close()
    held, lost = sum(fleet.held().values()), fleet.lost()
    before = sum(
        hours for (_, reason), hours in lost.items() if reason in ("starting", "held_idle", "alone")
    )
    truth = (held, held - before, held - sum(lost.values()), fleet.used("work"))
    for step, hours in zip(report.chain[1:], truth, strict=True):
        assert step.share == pytest.approx(hours / fleet.installed, abs=0.02), step
    assert any("2 points of the capacity" in note for note in report.notes)


class HalfOld(ProgressFleet):
    """A fleet whose first node alone has a new agent."""

    def pages(self) -> str:
        old = [f'instance="{node}"' for node in self.nodes[1:]]
        return "".join(
            line
            for line in super().pages().splitlines(keepends=True)
            if not (line.startswith(OLD_LACK) and any(each in line for each in old))
        )


@pytest.mark.parametrize(
    ("name", "recorded"),
    [("prometheus", True), ("victoria", True), ("prometheus", False), ("victoria", False)],
)
def test_of_a_job_with_old_agents_what_is_not_watched_is_said_and_not_lost(
    name: str, recorded: bool, tmp_path: Path
) -> None:
    """A job on four nodes starts, works, hangs for ten minutes, and works. One node tells."""
    stretches = [
        Stretch("start", 600),
        Stretch("work", 2400),
        Stretch("hang", 600),
        Stretch("work", 3000),
    ]
    nodes = ("n1", "n2", "n3", "n4")
    fleet = HalfOld(nodes, [PlannedRun("7", nodes, 300, stretches)], 2)
    names = f"{NAMES} {HOURS} {WATCHED}" if recorded else ""
    with engine(name, fleet, names, tmp_path) as client:
        reader = ChunkReader(client)
        history = read_history(reader, BEGIN, BEGIN + fleet.hours * HOUR)
        report = fleet_report(history, ReportOptions("user", Prices()), reader)
    whole, near = report.progress[0], pytest.approx
    assert whole.watched_ratio == near(0.25, abs=0.005)
    assert whole.starting_gpu_hours == near(4 * 600 / HOUR, abs=0.03)
    assert whole.held_idle_gpu_hours == near(4 * 600 / HOUR, abs=0.03 if recorded else 0.35)
    assert whole.alone_gpu_hours == near(0.0, abs=0.02)
    (unknown,) = (note for note in report.notes if note.startswith("What the GPUs' engines did"))
    assert "not known of 7" in unknown


@pytest.mark.parametrize(("name", "jobs"), [("prometheus", 200), ("victoria", 40)])
def test_healthy_jobs_are_neither_idle_nor_alone_after_their_start(
    name: str, jobs: int, tmp_path: Path
) -> None:
    fleet = progress_fleet.healthy(jobs)
    end = BEGIN + fleet.hours * HOUR
    with engine(name, fleet, NAMES, tmp_path) as client:
        found = over(client, "job:lost_progress_gpu_hours:sum1h", "job_id, reason", end)
    held = fleet.held()
    assert len({job for job, _ in found}) == len(held) == jobs
    most = {"starting": 1.0, "checkpoint": 1.0, "held_idle": 0.001, "alone": 0.001}
    wrong = {
        (job, reason): hours
        for (job, reason), hours in found.items()
        if hours > most.get(reason, 0.0) * held[job]
    }
    assert not wrong
