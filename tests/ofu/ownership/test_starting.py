"""When a job begins to work, tick by tick: the truth is which windows the test gave tensor work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ofu_exporter.jobs.totals import JobTotals, resumed_job, totals_of
from ofu_exporter.ofu.ownership.owners import OwnerState
from ofu_exporter.ofu.ownership.starting import BUSY_SECONDS, settled, start_opened
from ofu_exporter.ofu.tick import State
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import NO_START, Claim, Job
from ofu_exporter.values.reading import Activity
from tests.helpers.node import EPOCH, Node, whole
from tests.helpers.values import fault, gpu, reading

A = Job("slurm", "1", user="ada", uid="r1", started=EPOCH + 10)
CLOCK_READS = (1400e6,) * 10


def begun(gpus: int = 1, job: Job = A) -> Node:
    """A node on which the job begins at 10 s, on all GPUs."""
    node = Node(gpus)
    node.run(0.0, 10.0, tensor=0.3)
    node.give(10.0, whole(job, *map(str, range(gpus))))
    return node


def starting(node: Node) -> float | None:
    return settled(node.job().start).seconds


def test_a_job_starts_until_its_first_lasting_tensor_work() -> None:
    node = begun(2)
    node.run(10.0, 70.0, tensor=0.001)
    assert starting(node) == pytest.approx(2 * 60.0)
    node.run(70.0, 100.0)
    assert starting(node) == pytest.approx(2 * 60.0)
    assert node.job().worked_since == pytest.approx(EPOCH + 70.0)
    node.run(100.0, 200.0, tensor=0.0)
    assert starting(node) == pytest.approx(2 * 60.0)


def test_a_tensor_activity_of_1_percent_is_work_and_one_below_is_none() -> None:
    node = begun()
    node.run(10.0, 20.0, tensor=0.0099)
    node.run(20.0, 30.0, tensor=0.01)
    assert starting(node) == pytest.approx(10.0)


def test_a_single_window_of_tensor_work_is_a_warm_up() -> None:
    node = begun()
    node.run(10.0, 20.0, tensor=0.0)
    node.run(20.0, 25.0)
    node.run(25.0, 30.0, tensor=0.0)
    assert starting(node) == pytest.approx(20.0)
    node.run(30.0, 40.0)
    assert starting(node) == pytest.approx(20.0)


def test_all_gpus_of_the_node_have_started_when_one_works() -> None:
    node = begun(2)
    for end in (15.0, 20.0, 25.0, 30.0):
        other = reading(end - 5.0, end, 0.0, device=gpu(0))
        works = reading(end - 5.0, end, 0.5 if end > 15.0 else 0.0, device=gpu(1))
        node.tick(end, other, works)
    assert starting(node) == pytest.approx(2 * 5.0)


def test_of_a_window_that_comes_late_the_part_before_the_work_is_of_the_start() -> None:
    node = begun(2)
    for end, tensor in ((15.0, 0.0), (20.0, 0.5), (25.0, 0.5)):
        node.tick(end, reading(end - 5.0, end, tensor, device=gpu(1)))
    assert starting(node) == pytest.approx(5.0)
    node.tick(26.0, reading(10.0, 20.0, 0.0, device=gpu(0)))
    assert starting(node) == pytest.approx(5.0 + 5.0)


def test_two_windows_with_others_between_them_are_not_in_a_row() -> None:
    node = begun()
    node.run(10.0, 15.0)
    node.tick(20.0, fault(20.0))
    node.run(20.0, 25.0)
    assert node.job().worked_since is None
    node.run(25.0, 30.0)
    assert node.job().worked_since == pytest.approx(EPOCH + 20.0)
    assert starting(node) == pytest.approx(5.0)


def test_what_is_not_measured_is_no_start() -> None:
    node = begun()
    for end in range(15, 100, 5):
        node.tick(end, fault(end))
    assert starting(node) == 0.0


def test_a_job_that_ends_before_it_works_only_started() -> None:
    node = begun()
    node.run(10.0, 20.0, tensor=0.0)
    node.give(23.0)
    node.tick(23.0, reading(20.0, 23.0, 0.0))
    assert node.job().start.seconds == pytest.approx(13.0)


def test_the_time_before_its_first_program_is_part_of_the_start() -> None:
    node = Node(1)
    node.run(0.0, 10.0)
    node.tick(10.0)
    node.give(10.0, Claim(A, ("0",), waiting=frozenset({"0"})))
    node.run(10.0, 30.0)  # what it does is not the job's
    node.give(30.0, whole(replace(A, running_since=EPOCH + 30), "0"))
    node.run(30.0, 40.0, tensor=0.0)
    node.run(40.0, 60.0)
    assert starting(node) == pytest.approx(30.0)
    assert node.job().worked_since == pytest.approx(EPOCH + 40.0)


def test_each_run_of_a_job_starts() -> None:
    node = begun()
    node.run(10.0, 20.0, tensor=0.0)
    node.run(20.0, 40.0)
    node.give(40.0)
    node.give(60.0, whole(replace(A, uid="r2", started=EPOCH + 60), "0"))
    node.run(60.0, 75.0, tensor=0.0)
    node.run(75.0, 90.0)
    assert starting(node) == pytest.approx(10.0 + 15.0)
    assert [run.worked_since for run in node.job().runs] == [EPOCH + 20.0, EPOCH + 75.0]
    assert node.job().restarts == 1


def test_a_restart_that_the_scheduler_counts_starts_again() -> None:
    node = begun()
    node.run(10.0, 30.0)
    node.give(30.0, whole(replace(A, restarts=2), "0"))
    node.run(30.0, 40.0, tensor=0.0)
    node.run(40.0, 50.0)
    assert starting(node) == pytest.approx(10.0)
    assert node.job().restarts == 2


@pytest.mark.parametrize("change", [{"restarts": 2}, {"uid": "r2", "started": EPOCH + 30}])
def test_the_window_that_a_restart_cut_is_of_the_run_before(change: dict[str, Any]) -> None:
    node = begun()
    node.run(10.0, 25.0)
    node.give(29.9, whole(replace(A, **change), "0"))
    node.tick(30.0, reading(25.0, 30.0, 0.5))
    node.run(30.0, 40.0, tensor=0.0)
    node.run(40.0, 50.0)
    assert starting(node) == pytest.approx(10.0)
    assert node.job().runs[0].observed_seconds == pytest.approx(20.0 if "uid" in change else 40.0)


@pytest.mark.parametrize("requeues", [None, 0, 1])
def test_restarts_of_nvrx_count_once_when_its_files_are_read_late(requeues: int | None) -> None:
    """After a requeue, a gap, and by the next agent: the scheduler's count is known before that of the files."""
    node = begun()
    for at_first in (0, 1, 2):
        node.give(20.0, whole(replace(A, restarts=requeues and 0, cycles=at_first), "0"))
    again = replace(A, uid="r2", started=EPOCH + 30, restarts=requeues)
    read: list[tuple[int | None, int]] = [(None, 3), (2, 3), (None, 3), (2, 3), (3, 4)]
    for cycles, expected in read:
        node.give(30.0, whole(replace(again, cycles=cycles), "0"))
        assert node.job().restarts == expected
    left = resumed_job(totals_of(node.job(), "n1", False), Instant(40.0, EPOCH + 40.0))
    node.state = State(owners=OwnerState(jobs={A.key: left}))
    read = [(None, 4), (3, 4), (4, 5)]
    for cycles, expected in read:
        node.give(40.0, whole(replace(again, cycles=cycles), "0"))
        assert node.job().restarts == expected


def test_a_job_that_states_a_step_has_started() -> None:
    node = begun()
    node.run(10.0, 20.0, tensor=0.0)
    node.tick(20.0, stepped=frozenset({(A.key, "another")}))
    assert node.job().start.is_open
    node.tick(20.0, stepped=frozenset({(A.key, "r1")}))
    node.run(20.0, 60.0, tensor=0.0)
    assert starting(node) == pytest.approx(10.0)
    assert node.job().worked_since == pytest.approx(EPOCH + 20.0)


@pytest.mark.parametrize("tensor", [0.0, 0.5])
def test_a_step_ends_a_start_no_later_than_it_was_told(tensor: float) -> None:
    """The window in which it was stated is over by the next tick, and the work in it has begun before."""
    node = begun()
    node.run(10.0, 30.0, tensor=0.0)
    node.run(30.0, 40.0, tensor=tensor, window=10.0)
    node.tick(50.0, reading(40.0, 50.0), stepped=frozenset({(A.key, "r1")}))
    worked = 30.0 if tensor else 40.0
    assert node.job().worked_since == pytest.approx(EPOCH + worked)
    assert starting(node) == pytest.approx(worked - 10.0)


@pytest.mark.slow
@pytest.mark.parametrize("beside", [0.0, 0.9])
def test_a_job_without_tensor_work_starts_for_ten_minutes_of_kernels_at_most(beside: float) -> None:
    """The same ten minutes of several GPUs count once."""
    node = begun(2)
    for end in range(15, 2000, 5):
        busy = [Activity(engine=engine) for engine in (0.9, beside)]
        readings = [
            replace(reading(end - 5.0, float(end), 0.0, device=gpu(number)), activity=busy[number])
            for number in (0, 1)
        ]
        node.tick(float(end), *readings)
    assert node.job().worked_since == pytest.approx(EPOCH + 10.0 + BUSY_SECONDS - 5.0)
    assert starting(node) == pytest.approx(2 * (BUSY_SECONDS - 5.0))


def test_a_job_that_never_runs_anything_starts_all_its_life() -> None:
    node = begun()
    node.run(10.0, 2000.0, tensor=0.0)
    assert node.job().start.is_open
    assert starting(node) == pytest.approx(1990.0)


def test_an_agent_that_is_killed_counts_no_work_as_a_start() -> None:
    node = begun(2)
    node.run(10.0, 20.0, tensor=0.0)
    node.run(20.0, 25.0)
    left = totals_of(node.job(), "n1", False)
    assert left.is_starting
    assert left.starting_seconds == pytest.approx(2 * 10.0)


def test_the_starts_of_a_job_are_told_from_when_until_when() -> None:
    node = begun()
    node.run(10.0, 20.0, tensor=0.0)
    node.run(20.0, 40.0)
    node.give(40.0, whole(replace(A, restarts=1), "0"))
    node.run(40.0, 55.0, tensor=0.0)
    assert node.job().starts[-1] == (EPOCH + 40.0, None)
    node.run(55.0, 70.0)
    times = ((EPOCH + 10.0, EPOCH + 20.0), (EPOCH + 40.0, EPOCH + 55.0))
    assert node.job().starts == tuple(map(pytest.approx, times))
    document = totals_of(node.job(), "n1", False).model_dump_json()
    left = resumed_job(JobTotals.model_validate_json(document), Instant(75.0, EPOCH + 75.0))
    node.state = State(owners=OwnerState(jobs={A.key: left}))
    node.give(75.0, whole(replace(A, restarts=2), "0"))
    node.run(75.0, 80.0, tensor=0.0)
    assert node.job().starts[:2] == tuple(map(pytest.approx, times))
    assert node.job().starts[2][1] is None


@pytest.mark.parametrize("started", [None, EPOCH - 50.0])
def test_the_start_of_a_job_that_nobody_watched_is_not_known(started: float | None) -> None:
    node = Node(1)
    node.give(10.0, whole(replace(A, started=started), "0"))
    node.run(10.0, 60.0, tensor=0.0)
    assert starting(node) is None


def test_a_job_that_is_seen_within_a_minute_of_its_start_is_watched() -> None:
    node = Node(1)
    node.give(10.0, whole(replace(A, started=EPOCH - 49.0), "0"))
    node.run(10.0, 60.0, tensor=0.0)
    assert starting(node) == pytest.approx(50.0)


def test_of_40_starts_the_last_32_are_told() -> None:
    start = NO_START
    for number in range(40):
        start = start_opened(start, Instant(number, EPOCH + number))
    told = [since for since, _ in start.earlier] + [start.since]
    assert told == [EPOCH + number for number in range(8, 40)]


def test_a_job_without_a_stated_start_is_watched_from_the_second_answer_of_a_scheduler_on() -> None:
    node = Node(1)
    node.give(5.0)
    node.give(10.0, whole(replace(A, started=None), "0"))
    node.run(10.0, 60.0, tensor=0.0)
    assert starting(node) == pytest.approx(50.0)


@pytest.mark.parametrize("works", [False, True])
def test_an_agent_that_starts_again_goes_on(works: bool) -> None:
    node = begun()
    node.run(10.0, 30.0, tensor=0.5 if works else 0.0)
    document = totals_of(node.job(), "n1", False).model_dump_json()
    left = resumed_job(JobTotals.model_validate_json(document), Instant(30.0, EPOCH + 30.0))
    node.state = State(owners=OwnerState(jobs={A.key: left}))
    node.give(30.0, whole(A, "0"))
    node.run(30.0, 50.0, tensor=0.0)
    assert starting(node) == pytest.approx(0.0 if works else 40.0)
    assert node.job().worked_since == (EPOCH + 10.0 if works else None)
