"""The story of one job, read from a real Prometheus that has the agents' own series alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.fleet_history import ClusterJob, JobHistory
from ofu_exporter.fleet.pages import job_page
from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.fleet.reports import one_job
from ofu_exporter.fleet.reports.job_result import JobResult, job_result
from ofu_exporter.fleet.reports.job_rows import iso
from ofu_exporter.fleet.reports.one_job import (
    JobStory,
    PointRow,
    UnknownJobError,
    _alive,
    _is_alike,
    read_story,
)
from ofu_exporter.values.losses import Loss
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import (
    BEGIN,
    HOUR,
    ScheduledJob,
    StoredNode,
    pages,
    reading,
    runs,
    seconds_of,
    stored_pages,
)

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("one job")]

N1, N2 = (StoredNode("a", f"n{each}:9846", "NVIDIA H100 80GB HBM3", 4) for each in (1, 2))
M1 = StoredNode("b", "m1:9846", "NVIDIA A100-SXM4-80GB", 4)
EARLIER = ScheduledJob("1", "alice", (N1,), 1, 5, 0.4, name="pre.train")
OTHER = ScheduledJob("2", "alice", (N2,), 1, 5, 0.9, name="preXtrain")
JOB = ScheduledJob(
    "3", "alice", (N1, N2), 6, 14, 0.2, 0.5, verdict="mfu_above_ofu", name="pre.train", slow_gpu=2
)
ELSEWHERE = ScheduledJob("3", "bob", (M1,), 2, 4, 0.1)
AGAIN = ScheduledJob("3", "zoe", (M1,), 9, 12, 0.3, name="train-bob")
C1 = StoredNode("c", "c1:9846", "NVIDIA H100 80GB HBM3", 4, simulated=16.0)
MADE_UP = ScheduledJob("AGENTS", "eve", (C1,), 1, 5, 0.4, slow_gpu=2)
D1 = StoredNode("d", "d1:9846", N1.model, 4)
D2 = StoredNode("d", "d2:9846", M1.model, 4)
MIXED = [
    ScheduledJob("5", "mia", (node,), 1, 5, ofu, slow_gpu=gpu)
    for node, ofu, gpu in ((D1, 0.4, None), (D2, 0.2, 3))
]
AWAY = (
    StoredNode("e", "e1:9846", N1.model, 4, away=(2, 2.5)),
    StoredNode("f", "f1:9846", N1.model, 4, away=(2, 2.5)),
    StoredNode("f", "f2:9846", N1.model, 4),
)
UNSEEN, LOST = (
    ScheduledJob("6", cluster, tuple(node for node in AWAY if node.cluster == cluster), 0, 4, 0.4)
    for cluster in "ef"
)
PARTED = StoredNode("g", "g1", N1.model, 4)
ON_MIG = ScheduledJob("12", "gil", (PARTED,), 0, 3, 0.4)
HALVES = StoredNode("h", "h1", N1.model, 2)
BESIDE = StoredNode("h", "h2:9846", "NVIDIA A100-SXM4-80GB", 4, away=(2, 2.5))
HALF_IDLE = ScheduledJob("13", "hal", (HALVES,), 0, 6, 0.4, idle_gpu=1)
YOUNG = ScheduledJob("4", "kim", (M1,), 16, 17, 0.3)
"""Scraped once."""
END = BEGIN + 16 * HOUR
NOTHING_MISSING = ChunkReader(PrometheusClient("http://prometheus"))


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    jobs = (
        EARLIER,
        OTHER,
        JOB,
        ELSEWHERE,
        AGAIN,
        MADE_UP,
        YOUNG,
        *MIXED,
        UNSEEN,
        LOST,
        ON_MIG,
        HALF_IDLE,
    )
    text = pages((N1, N2, M1, C1, D1, D2, *AWAY, PARTED, HALVES, BESIDE), jobs, 16)
    gpu = re.compile(r'gpu="(\d)",uuid="GPU-g1-\d"')
    text = gpu.sub(r'gpu="0",uuid="GPU-g1",gpu_instance="\1"', text).removesuffix("# EOF\n")
    lost = [
        f"ofu_job_lost_seconds_total{JOB.labels(node, part='idle')} {3.3 * seconds} {at}"
        for node in JOB.nodes
        for at in range(int(BEGIN), int(END), 60)
        if (seconds := seconds_of(JOB, at)) and runs(JOB, at)
    ]
    half = 'ofu_gpu_instance_share_ratio{cluster="h",instance="h1",gpu="1",uuid="GPU-h1-1"} 0.5'
    lost = [*(f"{half} {at}" for at in range(int(BEGIN), int(END), 60)), *lost]
    text += "\n".join(["# TYPE ofu_job_lost_seconds counter", *lost, "# EOF", ""])
    with stored_pages(tmp_path_factory.mktemp("stored"), text) as running:
        yield running


def story(prometheus: Prometheus, key: ClusterJob) -> JobStory:
    with reading(prometheus.url) as reader:
        return read_story(reader, (BEGIN, END), key)


@pytest.fixture(scope="module")
def result(prometheus: Prometheus) -> JobResult:
    return job_result(story(prometheus, ClusterJob("a", "3")), NOTHING_MISSING)


def test_its_sums_are_those_of_its_schedule(result: JobResult) -> None:
    row = result.job
    assert row.held_gpu_hours == pytest.approx(64, rel=0.01)
    assert row.ofu == pytest.approx(0.2 * 7 / 8, abs=1e-6)
    assert (row.gpus, row.model, row.verdict) == (8.0, N1.model, "mfu_above_ofu")


def test_without_rules_a_gpu_counts_as_idle_by_its_share(prometheus: Prometheus) -> None:
    row = job_result(story(prometheus, ClusterJob("h", "13")), NOTHING_MISSING).job
    assert row.idle_gpu_hours == pytest.approx(0.5 * 6, abs=0.2)


def test_its_model_is_not_that_of_a_node_that_was_away(prometheus: Prometheus) -> None:
    row = job_result(story(prometheus, ClusterJob("h", "13")), NOTHING_MISSING).job
    assert row.model == HALVES.model


def test_its_losses_are_those_of_its_points(result: JobResult) -> None:
    assert result.job.lost_idle_gpu_hours == pytest.approx(2 * 3.3 * 8, rel=0.01)
    assert result.job.lost_unsplit_gpu_hours is None
    assert "The rest of the peak went to: idle 82." in result.headline
    shares = [point.lost.get(Loss.IDLE) for point in result.points[10:-10]]
    assert shares == [pytest.approx(0.825, abs=0.001)] * len(shares)


def test_over_time_it_has_its_gpus_ofu_and_mfu(result: JobResult) -> None:
    inside = result.points[10:-10]
    assert len(inside) * result.step_seconds == pytest.approx(8 * HOUR, rel=0.25)
    assert {round(point.gpus or 0.0, 6) for point in inside} == {8.0}
    assert {round(point.ofu or 0.0, 6) for point in inside} == {0.175}
    assert {round(point.mfu or 0.0, 6) for point in inside} == {0.5}
    assert {point.activity for point in inside} == {None}
    assert result.idle == result.fewer_gpus == []


def test_an_id_that_was_of_two_users_is_of_the_last_unless_one_is_named(
    prometheus: Prometheus,
) -> None:
    for owner, job, other in (("", AGAIN, "bob"), ("zoe", AGAIN, "bob"), ("bob", ELSEWHERE, "zoe")):
        found = job_result(story(prometheus, ClusterJob("b", "3", owner)), NOTHING_MISSING)
        assert found.job.user == job.user
        assert found.job.held_gpu_hours == pytest.approx(job.held, rel=0.02)
        assert found.job.ofu == pytest.approx(job.ofu, abs=0.002)
        assert {round(point.ofu, 3) for point in found.points[2:-2] if point.ofu} == {job.ofu}
        assert found.earlier == []
        assert f"The id was of {other}, too: --owner" in found.headline
    with pytest.raises(UnknownJobError, match=r"never eve's, but of bob, zoe"):
        story(prometheus, ClusterJob("b", "3", "eve"))


def alive(held: list[float]) -> list[PointRow]:
    """Points a minute apart of a job whose GPUs are all active for half of the time."""
    points = [
        PointRow(time=iso(60.0 * at), gpus=gpus, ofu=0.4, mfu=None, activity=0.5, clock=None)
        for at, gpus in enumerate(held)
    ]
    return _alive(points, 60.0)


def test_activity_and_clock_are_shown_where_the_same_gpus_had_all_of_their_five_minutes() -> None:
    ramp = [1.6, 3.2, 4.8, 6.4, 8.0]
    found = alive([0.0, *ramp, *[8.0] * 20, *reversed(ramp[:-1]), 0.0, 0.0])
    assert [point.time for point in found] == [iso(60.0 * at) for at in range(1, 26)]  # to its end
    known = [point.clock for point in found]
    assert known[:9] == [None] * 9
    assert set(known[9:]) == {0.8}
    assert [point.activity for point in found[:9]] == [None] * 9
    assert [point.clock for point in alive([8.0] * 8)] == [None] * 5 + [0.8] * 3, "from its begin"


def test_a_node_that_is_lost_does_not_take_the_clock_of_the_others() -> None:
    found = alive([64.0] * 20 + [56.0] * 20)
    assert found[-1].clock == 0.8


def test_a_part_of_a_gpu_is_no_earlier_run_of_whole_ones() -> None:
    key = ClusterJob("", "1")
    large, small, other = (
        JobHistory(key, sizes={size: 1.0}, models={model: 1.0})
        for size, model in ((64.0, "H100"), (0.14, "H100"), (64.0, "A100"))
    )
    for size, is_alike in ((48.0, True), (32.0, True), (31.0, False), (129.0, False)):
        run = JobHistory(key, sizes={size: 1.0}, models={"H100": 2.0})
        assert _is_alike(large, run) == _is_alike(run, large) == is_alike
    assert not _is_alike(large, small)
    assert not _is_alike(large, other)
    for unknown in (JobHistory(key, models={"H100": 1.0}), JobHistory(key, sizes={64.0: 1.0})):
        assert _is_alike(large, unknown)
        assert _is_alike(unknown, large)


def test_the_slow_gpu_of_each_node_is_named(result: JobResult) -> None:
    assert {(one.node, one.gpu, one.what) for one in result.slow_gpus} == {
        ("n1:9846", "2", "OFU"),
        ("n2:9846", "2", "OFU"),
    }
    assert all(one.share == pytest.approx(0.5) for one in result.slow_gpus)
    assert len(result.gpus) == 8


def test_gpus_of_another_model_are_no_slow_ones(prometheus: Prometheus) -> None:
    found = job_result(story(prometheus, ClusterJob("", "5")), NOTHING_MISSING)
    assert [(gpu.node, gpu.gpu) for gpu in found.slow_gpus] == [(D2.name, "3")]


def test_an_instance_is_told_from_the_others_of_its_gpu(prometheus: Prometheus) -> None:
    found = job_result(story(prometheus, ClusterJob("", "12")), NOTHING_MISSING)
    assert [(gpu.gpu, gpu.uuid) for gpu in found.gpus] == [
        (f"0/{instance}", "GPU-g1") for instance in range(4)
    ]


def test_a_time_without_data_is_none_with_fewer_gpus(prometheus: Prometheus) -> None:
    unseen, lost = (
        job_result(story(prometheus, ClusterJob(cluster, "6")), NOTHING_MISSING) for cluster in "ef"
    )
    assert unseen.fewer_gpus == []
    assert None in {point.gpus for point in unseen.points}
    (gap,) = lost.fewer_gpus
    assert gap.minutes == pytest.approx(30, abs=5)


def test_it_is_compared_with_earlier_jobs_of_just_this_name(result: JobResult) -> None:
    assert [job.job_id for job in result.earlier] == ["1"]
    assert result.earlier_ofu == pytest.approx(0.4, abs=1e-6)
    assert result.change == pytest.approx(0.175 / 0.4 - 1, abs=1e-5)
    assert "56% less than its earlier runs" in result.headline
    assert "SIMULATED" not in result.headline


def test_of_very_many_earlier_jobs_the_last_ones_are_compared_whatever_digits_their_ids_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_job, "MOST_EARLIER", 1)
    jobs = [
        ScheduledJob(str(88 + n), "alice", (N1,), n, n + 0.8, 0.4, name="sweep") for n in range(15)
    ]
    with stored_pages(tmp_path, pages((N1,), jobs, 16)) as prometheus:
        found = story(prometheus, ClusterJob("a", "102"))
    assert [job.key.job_id for job in found.earlier] == ["101"]


def test_the_first_of_a_name_has_nothing_to_be_compared_with(prometheus: Prometheus) -> None:
    found = job_result(story(prometheus, ClusterJob("a", "1")), NOTHING_MISSING)
    assert (found.earlier, found.change) == ([], None)


def test_a_simulated_job_says_so_before_anything_else(prometheus: Prometheus) -> None:
    found = job_result(story(prometheus, ClusterJob("", "AGENTS")), NOTHING_MISSING)
    assert found.headline.startswith("SIMULATED, no GPU was measured. OFU ")
    assert "1 of its GPUs was slow." in found.headline


def test_a_job_of_two_clusters_and_one_of_none_are_said(prometheus: Prometheus) -> None:
    with pytest.raises(UnknownJobError, match="in clusters a, b: give --cluster"):
        story(prometheus, ClusterJob("", "3"))
    for unknown in ("9+9", YOUNG.job_id):
        with pytest.raises(UnknownJobError, match=rf"no job {re.escape(unknown)} held a GPU"):
            story(prometheus, ClusterJob("", unknown))


def test_the_text_says_it_all(result: JobResult) -> None:
    shown = job_page.job_text(result)
    assert "Job a/3 pre.train of alice (lab), 8 GPUs of NVIDIA H100" in shown
    assert "Slow GPUs:" in shown
    assert "Earlier jobs of this name and user:" in shown
