"""A node that is away for hours is named, and its jobs lose nothing: in a real Prometheus and a VictoriaMetrics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history import queries
from ofu_exporter.fleet.history.fleet_history import ClusterJob, FleetHistory
from ofu_exporter.fleet.history.history import read_history
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.fleet.reports.fleet_report import ReportOptions, fleet_report
from ofu_exporter.fleet.reports.job_rows import iso
from ofu_exporter.fleet.reports.one_job import read_story
from ofu_exporter.fleet.reports.result import FleetReport
from tests.helpers.stored_fleet import (
    BEGIN,
    ENGINES,
    HOUR,
    ScheduledJob,
    StoredNode,
    Twice,
    openmetrics,
    pages,
    put_names,
    put_node,
    read_in,
    reading,
    runs,
    seconds_of,
    stored_pages,
)

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("stored fleet")]

H100 = "NVIDIA H100 80GB HBM3"
STAYS = StoredNode("a", "n1:9846", H100, 8)
BACK = StoredNode("a", "n2|.*:9846", H100, 8, away=(4.25, 6.25))
GONE = StoredNode("a", "n3:9846", H100, 8, away=(9, 100))
SHORT = StoredNode("a", "n4:9846", H100, 8, away=(7.1, 7.9))
"""Away for a part of one hour of the clock; recorded series without marks of their end hide 25 minutes of it."""
WHOLE = StoredNode("b", "m1:9846", H100, 2, away=(3.5, 5.5))
"""All of its cluster, as where the server itself was away."""
HOURS = 12
JOB = ScheduledJob("7", "alice", (STAYS, BACK), 1, 11, 0.4, 0.38, verdict="agree", slow_gpu=3)
LEFT = ScheduledJob("8", "bob", (GONE,), 1, 12, 0.3)
ENDS = ScheduledJob("9", "carol", (SHORT,), 5, 7.5, 0.3)
BEGINS = ScheduledJob("10", "dave", (SHORT,), 7.5, 9.5, 0.35)
"""They end and begin while nobody can see it."""
OVER = ScheduledJob("11", "eve", (WHOLE,), 1, 2.97, 0.3)
"""Ended before its node went away."""
RULES = " ".join(
    [
        Path(queries.__file__).read_text(),
        *(each.recorded for each in (*queries.JOB_HOURS, *queries.MODEL_HOURS, *queries.JOBLESS)),
    ]
)
SPAN = (BEGIN, BEGIN + HOURS * HOUR)


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Twice:
    text = pages((STAYS, BACK, GONE, SHORT, WHOLE), (JOB, LEFT, ENDS, BEGINS, OVER), HOURS)
    return Twice.of(text, SPAN, RULES, tmp_path_factory.mktemp)


@pytest.fixture(scope="module", params=ENGINES)
def url(
    request: pytest.FixtureRequest, twice: Twice, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with twice.served(request.param, tmp_path_factory.mktemp("victoria")) as server:
        yield server.url


@pytest.fixture(scope="module")
def history(url: str) -> FleetHistory:
    with reading(url) as reader:
        return read_history(reader, *SPAN)


@pytest.fixture(scope="module")
def report(history: FleetHistory) -> FleetReport:
    reader = ChunkReader(PrometheusClient("http://127.0.0.1:1"))
    return fleet_report(history, ReportOptions("job", Prices()), reader)


def test_a_job_has_the_gpu_hours_that_it_had_while_its_node_was_away(report: FleetReport) -> None:
    (job,) = (row for row in report.jobs if row.job_id == "7")
    assert job.held_gpu_hours == pytest.approx(JOB.held, rel=0.01)
    assert job.ofu == pytest.approx(0.4 * 7.5 / 8, rel=0.01)
    assert job.mfu == pytest.approx(0.38, rel=0.01)


def test_gpus_that_were_there_before_and_after_stay_installed(report: FleetReport) -> None:
    installed = report.funnel[0].gpu_hours
    assert installed == pytest.approx(8 * (3 * HOURS + 9) + 2 * HOURS, rel=0.02)
    assert report.ofu is not None


def test_what_counters_of_nodes_counted_while_they_were_away_is_their_models_too(
    history: FleetHistory,
) -> None:
    """The node that never came back has nine hours, its job eight; one of eight GPUs of job 7 works half as much."""
    sums = history.models.values()
    there = 8 * (3 * HOURS + 9) + 2 * HOURS
    assert sum(each.observed for each in sums) == pytest.approx(there, rel=0.02)
    used = JOB.held * JOB.ofu * 7.5 / 8 + 8 * 8 * LEFT.ofu
    used += sum(job.held * job.ofu for job in (ENDS, BEGINS, OVER))
    assert sum(each.utilized for each in sums) == pytest.approx(used, rel=0.02)


def test_the_time_of_nodes_that_were_away_is_not_covered(report: FleetReport) -> None:
    away = 8 * (2 + 3 + 0.8) / (8 * 4 * HOURS)
    assert report.clusters[0].covered_ratio == pytest.approx(1 - away, abs=0.03)


def test_of_a_cluster_that_was_away_as_a_whole_no_time_is_missing_twice_and_no_gpu_is_more(
    report: FleetReport,
) -> None:
    (row,) = (each for each in report.clusters if each.cluster == "b")
    assert row.covered_ratio == pytest.approx(1 - 2 / HOURS, abs=0.02)
    assert row.gpus == pytest.approx(2, rel=0.03)


def test_a_note_names_them_with_their_hours(report: FleetReport) -> None:
    notes = "\n".join(report.notes)
    assert re.search(
        r"a/n2\|\.\*:9846 \((1\.[6-9]|2\.0) h\)", notes
    )  # by looks, each for 5 to 10 minutes
    assert re.search(r"a/n3:9846 \((2\.[6-9]|3\.0) h\)", notes)
    assert "n1" not in notes


def test_a_node_that_is_new_was_not_away(history: FleetHistory) -> None:
    assert {(each.node, each.is_back) for each in history.absent} == {
        (BACK.name, True),
        (GONE.name, False),
        (SHORT.name, True),
        (WHOLE.name, True),
    }


@pytest.mark.parametrize(("hours", "begin"), [(1, 0), (5, 0), (5, 5), (24, 10)])
def test_nodes_are_away_for_the_same_hours_wherever_the_time_begins_or_is_cut(
    url: str, history: FleetHistory, hours: int, begin: int
) -> None:
    """A node that was last seen before the time is away in it."""
    with reading(url, hours) as reader:
        part = read_history(reader, BEGIN + begin * HOUR, SPAN[1])
    first = part.clock.hours(part.span)[0]
    away, whole = (
        {(node.node, hour): share for node in each.absent for hour, share in node.shares.items()}
        for each in (part, history)
    )
    assert away == {place: share for place, share in whole.items() if place[1] >= first}
    if (hours, begin) == (5, 0):  # cut within the gap, which is known as a whole
        job = part.jobs[ClusterJob("a", "7")]
        assert job.total.held == pytest.approx(JOB.held, rel=0.01)
    assert GONE.name in {node for node, _ in away}


def test_a_job_that_began_while_its_node_was_away_has_all_of_its_hours(report: FleetReport) -> None:
    (job,) = (row for row in report.jobs if row.job_id == "10")
    assert job.held_gpu_hours == pytest.approx(BEGINS.held, rel=0.02)
    assert job.ofu == pytest.approx(0.35, abs=0.002)


def test_a_job_that_ended_before_the_gap_has_none_of_it(report: FleetReport) -> None:
    (job,) = (row for row in report.jobs if row.job_id == "11")
    assert job.held_gpu_hours == pytest.approx(OVER.held, rel=0.02)
    assert job.end <= iso(BEGIN + 4 * HOUR)


def test_what_a_job_may_lack_that_ended_while_its_node_was_away_is_said(
    report: FleetReport,
) -> None:
    (job,) = (row for row in report.jobs if row.job_id == "9")
    assert job.held_gpu_hours == pytest.approx(8 * 2.1, rel=0.02)
    assert job.away_gpu_hours == pytest.approx(8 * 0.8, abs=8 * 2 * 61 / HOUR)
    (left,) = (row for row in report.jobs if row.job_id == "8")
    assert left.away_gpu_hours == pytest.approx(8 * 3, rel=0.02), "its node did not come back"
    assert {row.job_id for row in report.jobs if row.away_gpu_hours} == {"8", "9"}
    (said,) = (note for note in report.notes if note.startswith("GPU-hours that nobody"))
    assert re.search(r": a/8 \(at most \S+\), a/9 \(at most \S+\)\.$", said)


def test_the_job_itself_has_the_same_sums_and_a_row_for_every_gpu(url: str) -> None:
    with reading(url) as reader:
        story = read_story(reader, SPAN, ClusterJob("", "7"))
    assert story.job.total.held == pytest.approx(JOB.held, rel=0.01)
    assert {(gpu.node, gpu.gpu) for gpu in story.gpus} == {
        (node.name, str(gpu)) for node in (STAYS, BACK) for gpu in range(8)
    }
    with reading(url) as reader:
        ended = read_story(reader, SPAN, ClusterJob("", "9"))
    assert ended.job.away == pytest.approx(8 * 0.8, abs=8 * 2 * 61 / HOUR)
    assert story.job.away == 0.0


def test_of_a_job_that_counted_most_before_the_gap_nothing_is_added(tmp_path: Path) -> None:
    """It was requeued onto a node that was away, hours after it had last run there: its totals went on."""
    node = StoredNode("a", "n5:9846", H100, 8, away=(8.25, 10.25))
    first = ScheduledJob("11", "erin", (node,), 0, 5.5, 0.3)
    lives = [first, replace(first, begin=9, end=12)]
    times = [BEGIN + 60 * minute for minute in range(60 * HOURS + 1)]
    seen = [time for time in times if not node.is_away(time)]
    shown = [time for time in seen if any(runs(life, time, 300) for life in lives)]
    families: dict[str, list[str]] = {}

    def put(name: str, labels: str, points: Iterable[tuple[float, float]]) -> None:
        lines = families.setdefault(name, [])
        lines += [f"{name}{labels} {value!r} {time:.3f}" for time, value in points]

    put_node(put, node, lives, seen)
    put_names(put, lives[0], node, shown)
    for name, weight in (("held_gpu", 8.0), ("gpu", 8.0), ("utilization", 8 * 0.3)):
        counted = ((t, weight * sum(seconds_of(life, t) for life in lives)) for t in shown)
        put(f"ofu_job_{name}_seconds_total", lives[0].labels(node), counted)
    with stored_pages(tmp_path, openmetrics(families)) as server, reading(server.url) as reader:
        (job,) = read_history(reader, *SPAN).jobs.values()
    assert job.total.held == pytest.approx(8 * (5.5 + 12 - 10.25), rel=0.02)
    assert job.total.ofu == pytest.approx(0.3, abs=0.002)


def test_of_twelve_minutes_over_the_end_of_an_hour_a_job_loses_nothing(tmp_path: Path) -> None:
    """One look of the second hour sees no node."""
    node = StoredNode("c", "s1:9846", H100, 2, away=(5.88, 6.08))
    job = ScheduledJob("12", "fay", (node,), 1, 11, 0.3)
    text = pages((node, StoredNode("c", "s2:9846", H100, 2)), (job,), HOURS)
    with stored_pages(tmp_path, text) as prometheus, reading(prometheus.url) as reader:
        history = read_history(reader, *SPAN)
    assert [each.node for each in history.absent] == [node.name]
    assert history.jobs[ClusterJob("c", "12")].total.held == pytest.approx(job.held, abs=0.1)


LOST = {"clock": 0.1, "no_tensor": 0.4, "idle": 0.25}
"""Of the peak of the one that works, whose OFU is 0.3; pipes gained 0.05 above their clock."""
WATTS, TOKENS = 500.0, 7.0
"""Of every GPU, and every second of one."""
PAUSES = {"starting": 0.03, "evaluation": 0.05}
"""Shares of the time that were no progress."""


def _lost(job: ScheduledJob, shares: Mapping[str, float]) -> Iterator[str]:
    """What its agent counts beside its GPU-hours."""
    (node,) = job.nodes
    weights = {f"lost_seconds_total|{part}": share for part, share in shares.items()}
    weights |= {"gained_seconds_total|": 0.05 * (job.ofu > 0), "energy_joules_total|": WATTS}
    weights |= {"tokens_total|": TOKENS} if job.ofu else {}
    weights |= {f"lost_progress_gpu_seconds_total|{each}": PAUSES[each] for each in PAUSES}
    for kind, weight in weights.items():
        name, _, part = kind.partition("|")
        served = {"served_model": "m", "kind": "generation"} if name.startswith("tokens") else {}
        labels = job.labels(
            node, **({"reason" if part in PAUSES else "part": part} if part else served)
        )
        for minute in range(60 * HOURS + 1):
            time = BEGIN + 60 * minute
            if runs(job, time, 300) and not node.is_away(time):
                yield f"ofu_job_{name}{labels} {weight * node.gpus * seconds_of(job, time)!r} {time:.3f}"


@pytest.mark.parametrize("engine", ["raw", "victoria raw"])
def test_where_the_peak_went_what_was_served_and_the_energy_are_of_all_measured_hours(
    engine: str, tmp_path: Path
) -> None:
    """Also idle hours of a job that did nothing: otherwise it would be busy while its node is away."""
    nodes = [StoredNode("a", f"m{each}:9846", H100, 8, away=(4.25, 6.25)) for each in (1, 2)]
    works = ScheduledJob("1", "ada", (nodes[0],), 1, 11, 0.3)
    idles = ScheduledJob("2", "bob", (nodes[1],), 1, 11, 0.0)
    text = pages((*nodes, STAYS), (works, idles), HOURS)
    extra: dict[str, list[str]] = {}
    for line in (*_lost(works, LOST), *_lost(idles, {"idle": 1.0})):
        extra.setdefault(line.partition("{")[0], []).append(line)
    read_in(tmp_path, text.replace("# EOF\n", openmetrics(extra)))
    folders = (tmp_path, tmp_path / "recorded")
    with (
        Twice(*folders, SPAN, "").served(engine, tmp_path / "victoria") as server,
        reading(server.url) as reader,
    ):
        history = read_history(reader, *SPAN)
    jobs = history.jobs
    work, idle = (jobs[ClusterJob("a", each)].total for each in "12")
    assert work.observed == pytest.approx(works.held, rel=0.01)
    assert work.net_losses == {
        "clock": pytest.approx(0.05 * work.observed, rel=0.01),
        "no_tensor": pytest.approx(0.4 * work.observed, rel=0.01),
        "idle": pytest.approx(0.25 * work.observed, rel=0.01),
    }
    assert work.joules == pytest.approx(WATTS * HOUR * works.held, rel=0.01)
    served = jobs[ClusterJob("a", "1")].served
    assert served is not None
    assert served.tokens == {
        ("m", "generation"): pytest.approx(TOKENS * HOUR * works.held, rel=0.01)
    }
    assert served.held == pytest.approx(works.held, rel=0.01)
    assert served.joules / served.joules_tokens["generation"] == pytest.approx(WATTS / TOKENS)
    assert work.idle < 0.7, "a look behind its end: a file cannot say that a series ended"
    lost = history.progress[ClusterJob("a", "1")].lost
    for reason, share in PAUSES.items():
        assert lost[reason] == pytest.approx(share * works.held, rel=0.01)
    assert idle.net_losses == {"idle": pytest.approx(idle.observed, rel=0.01)}
    assert idle.idle == pytest.approx(idles.held, rel=0.02)


@pytest.fixture(scope="module")
def briefly(tmp_path_factory: pytest.TempPathFactory) -> Twice:
    nodes = StoredNode("d", "b1:9846", H100, 2, away=(6.25, 6.59)), StoredNode("d", "b2", H100, 2)
    job = ScheduledJob("13", "gus", nodes[:1], 6.27, 6.93, 0.3)
    return Twice.of(
        pages(nodes, (job,), 9), (BEGIN, BEGIN + 9 * HOUR), RULES, tmp_path_factory.mktemp
    )


@pytest.mark.parametrize("engine", ["raw", "victoria raw", "victoria recorded"])
def test_of_twenty_minutes_a_job_that_began_in_them_loses_nothing(
    engine: str, briefly: Twice, tmp_path: Path
) -> None:
    """Not where a look finds the last sample of ten before, either. A Prometheus whose records have no marks of their
    end, which a file can't have, hides all of them.
    """
    with briefly.served(engine, tmp_path) as server, reading(server.url) as reader:
        history = read_history(reader, *briefly.span)
    assert [each.node for each in history.absent] == ["b1:9846"]
    (job,) = history.jobs.values()
    assert job.total.held == pytest.approx(2 * 0.66, rel=0.03)
