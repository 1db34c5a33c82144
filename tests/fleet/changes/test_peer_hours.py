"""Slow GPUs from the history in a real Prometheus, with the recording rules and without them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from ofu_exporter.fleet.changes import peer_hours
from ofu_exporter.fleet.changes.peers import Place
from ofu_exporter.fleet.changes.report import changes_report, compare_all
from ofu_exporter.fleet.changes_result import ChangesReport, SeriesKind, SlowRow
from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history import queries
from ofu_exporter.fleet.hours import ServerClock
from ofu_exporter.fleet.prometheus import PrometheusClient
from tests.helpers import stored_fleet
from tests.helpers.stored_fleet import (
    BEGIN,
    HOUR,
    ScheduledJob,
    StoredNode,
    read_in,
    record,
    stored,
    stored_pages,
)
from tests.helpers.uneven_fleet import GPUS, HOURS, LAGGARD, NODES, SHIRKER, pages

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("uneven-fleet")]


@pytest.fixture(scope="module", params=["raw", "recorded"])
def reports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ChangesReport, ChangesReport]]:
    folder = tmp_path_factory.mktemp(request.param)
    end = BEGIN + HOURS * HOUR
    read_in(folder, pages())
    if request.param == "recorded":
        asked = [inspect.getsource(module) for module in (queries, peer_hours)]
        hourly = [each.recorded for each in (*queries.JOB_HOURS, *queries.MODEL_HOURS)]
        record(folder, BEGIN, end, " ".join([*asked, *hourly, "job:ofu_job_info:topk1_1h"]))
    with stored(folder) as prometheus:
        client = PrometheusClient(prometheus.url)
        yield reported(client, 24), reported(client, 3)
        client.close()


def reported(client: PrometheusClient, hours_at_once: int) -> ChangesReport:
    reader = ChunkReader(client, hours_at_once=hours_at_once)
    kinds = get_args(SeriesKind)
    times = (BEGIN, BEGIN + HOURS * HOUR)
    return changes_report(*compare_all(reader, times, kinds), 1.1, kinds)


@pytest.fixture
def report(reports: tuple[ChangesReport, ChangesReport]) -> ChangesReport:
    return reports[0]


def test_the_answer_is_the_same_however_the_time_is_cut(
    reports: tuple[ChangesReport, ChangesReport],
) -> None:
    whole, cut = (each.model_dump(exclude={"reading", "notes"}) for each in reports)
    assert whole == cut


def test_six_hours_of_a_node_are_one_point_with_the_mean_of_their_logarithms() -> None:
    node, found = Place("a", "n1"), peer_hours.NodeHours()
    for hour, value in ((12, 0.8), (13, 0.2), (17, 0.4), (18, 0.5)):
        found.add(hour, {node: math.log(value)})
    (series,) = found.series(ServerClock(0.0))
    assert series.labels == (("cluster", "a"), ("node", "n1"))
    assert [point.value for point in series.points] == pytest.approx([0.064 ** (1 / 3), 0.5])
    assert [point.gpu_hours for point in series.points] == [3, 1]


def row_of(report: ChangesReport, compared: str) -> SlowRow:
    (row,) = (each for each in report.slow if each.compared == compared)
    return row


def test_a_gpu_that_does_less_than_its_peers_is_found(report: ChangesReport) -> None:
    row = row_of(report, "ofu")
    assert (row.node, row.gpu) == (SHIRKER[0], str(SHIRKER[1]))
    assert row.slower == pytest.approx(0.25, abs=0.01)
    assert (row.sure, row.jobs) == (True, ["1", "2"])


def test_a_gpu_for_which_all_others_wait_is_found_by_its_clock(report: ChangesReport) -> None:
    row = row_of(report, "sm_clock")
    assert (row.node, row.gpu) == (LAGGARD[0], str(LAGGARD[1]))
    assert row.uuid == f"GPU-{LAGGARD[0]}-{LAGGARD[1]}"
    assert row.slower == pytest.approx(0.2, abs=0.01)
    assert row.sure


def test_all_gpus_and_nodes_were_compared(report: ChangesReport) -> None:
    counts = {(row.compared, row.of): row.count for row in report.peers}
    assert counts == {
        ("ofu", "gpu"): NODES * GPUS,
        ("ofu", "node"): NODES,
        ("sm_clock", "gpu"): NODES * GPUS,
        ("sm_clock", "node"): NODES,
    }


def test_nothing_is_missing_and_hours_between_jobs_are_nobodys(report: ChangesReport) -> None:
    assert report.missing == []
    assert all(16 <= row.hours <= 20 for row in report.slow)


def test_a_job_on_two_models_has_no_slow_nodes_without_the_rules_either(tmp_path: Path) -> None:
    fast = tuple(StoredNode("c", f"n{number}", "H100", 2) for number in range(6))
    other = StoredNode("c", "n6", "A100", 2)
    jobs = [
        ScheduledJob(job_id, "ana", nodes, begin, end, ofu)
        for job_id, begin, end in (("1", 0, 9), ("2", 10, HOURS))
        for nodes, ofu in ((fast, 0.4), ((other,), 0.2))
    ]
    with stored_pages(tmp_path, stored_fleet.pages((*fast, other), jobs, HOURS)) as prometheus:
        client = PrometheusClient(prometheus.url)
        found = reported(client, 24)
        client.close()
    assert found.slow == []
    counts = {row.of: row.count for row in found.peers if row.compared == "ofu"}
    assert counts == {"gpu": 12, "node": 6}
