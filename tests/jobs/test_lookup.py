"""What is known of a job: on the page, in the state file, or in both."""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.jobs.totals import JobTotals, totals_of
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import GpuUsage, Job
from ofu_exporter.values.served import Served
from ofu_exporter.values.snapshot import JobView, Snapshot
from tests.helpers.values import health


def view(
    job_id: str = "1",
    uid: str = "",
    began: float = 100.0,
    updated: float = 200.0,
    ended: float | None = None,
    scheduler: str = "slurm",
) -> JobView:
    """A job that had one GPU at OFU 0.4 from its beginning to its last sight."""
    seconds = updated - began
    usage = GpuUsage("0", GpuKey("GPU-0", ""), seconds, seconds, 0.4 * seconds)
    job = Job(scheduler, job_id, uid=uid)
    return JobView(job, began, {usage.key: usage}, {80: seconds}, ended, updated)


def book(*shown: JobView, remembered: tuple[JobView, ...] = (), simulated: bool = False) -> JobBook:
    """What is on the page now, and what the file remembers."""
    page = Snapshot(200.0, (), health(simulated=simulated), jobs=shown)

    def find(job_id: str) -> tuple[JobTotals, ...]:
        return tuple(
            totals_of(each, "n1", False) for each in remembered if each.job.job_id == job_id
        )

    return JobBook(lambda: page, "n1", find)


def test_before_the_first_snapshot_nothing_is_known() -> None:
    unborn = JobBook(lambda: None, "n1")
    assert unborn.current() == []
    assert unborn.find("1") is None


def test_the_jobs_on_the_page_are_this_nodes() -> None:
    assert [(job.job_id, job.nodes) for job in book(view("1"), view("2")).current()] == [
        ("1", ("n1",)),
        ("2", ("n1",)),
    ]
    assert not book(view()).current()[0].simulated
    assert book(view(), simulated=True).current()[0].simulated


def test_a_task_is_found_by_the_name_that_slurm_shows() -> None:
    task = view("85")
    task = replace(task, job=replace(task.job, aliases=("81_4",)))
    assert (found := book(task).find("81_4")) is not None
    assert found.job_id == "85"
    assert book(task).find("81_5") is None


def test_a_job_is_found_by_its_id_alone() -> None:
    found = book(view("1"), view("2")).find("2")
    assert found is not None
    assert (found.job_id, found.gpu_seconds) == ("2", 100.0)
    assert book(view("1")).find("3") is None


def test_a_job_that_left_the_page_is_found_in_the_file() -> None:
    found = book(view("1"), remembered=(view("2", ended=150.0),)).find("2")
    assert found is not None
    assert found.ended == 150.0


def test_a_run_that_is_in_the_file_only_ended_when_it_was_last_seen() -> None:
    found = book(remembered=(view("1", updated=170.0),)).find("1")
    assert found is not None
    assert found.ended == 170.0


def test_what_is_on_the_page_is_newer_than_the_same_run_in_the_file() -> None:
    found = book(view(updated=200.0), remembered=(view(updated=180.0),)).find("1")
    assert found is not None
    assert (found.gpu_seconds, found.ended) == (100.0, None)


def test_earlier_runs_of_a_job_are_part_of_it() -> None:
    """A job that was requeued holds the GPUs again under the same id."""
    earlier = view(began=10.0, updated=40.0, ended=40.0)
    found = book(view(), remembered=(earlier,)).find("1")
    assert found is not None
    assert (found.began, found.ended, found.gpu_seconds) == (10.0, None, 130.0)


def test_another_job_that_had_the_same_id_before_is_no_part_of_it() -> None:
    """A name in Kubernetes, or a job id of Slurm that has begun anew, is given again."""
    other = view(uid="first", began=10.0, updated=40.0, ended=40.0)
    found = book(view(uid="second"), remembered=(other,)).find("1")
    assert found is not None
    assert (found.uid, found.began, found.gpu_seconds) == ("second", 100.0, 100.0)


def test_of_two_schedulers_with_one_id_the_job_that_was_seen_last_is_meant() -> None:
    older = view(scheduler="kubernetes", began=10.0, updated=40.0, ended=40.0)
    found = book(view(), remembered=(older,)).find("1")
    assert found is not None
    assert (found.scheduler, found.gpu_seconds) == ("slurm", 100.0)


def test_a_job_has_what_its_engines_served_under_any_of_its_names() -> None:
    of_job, of_pod = Served(), Served()
    for served, tokens in ((of_job, 5.0), (of_pod, 7.0)):
        served.seconds["m"] = 10.0
        served.tokens["m", "prompt"] = tokens
    job = view("1")
    shown = replace(job, job=replace(job.job, aliases=("ns/pod",)))
    page = Snapshot(200.0, (), health(), jobs=(shown, view("2")))
    known = {"1": of_job, "ns/pod": of_pod, "3": of_pod}
    of_served = JobBook(lambda: page, "n1", served=lambda: known)
    first, second = of_served.current()
    assert [each.tokens for each in first.served] == [{"prompt": 12.0}]
    assert second.served == ()
    found = of_served.find("1")
    assert found is not None
    assert found.served == first.served
