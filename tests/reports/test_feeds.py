"""What reports for jobs from inside the agent: run by the settings, and let go of with them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.feeds import Feeds
from ofu_exporter.reports.own_reports import SimulatedReports
from ofu_exporter.schedulers.simulate.driver import Options
from ofu_exporter.settings import PullSetting
from ofu_exporter.values.job import Job
from ofu_exporter.values.snapshot import Snapshot
from tests.helpers.agent import page_server, until
from tests.helpers.node import Node, whole

SIMULATED = {"simulate": Options()}
NOBODY = PullSetting(job_id="7", url="http://127.0.0.1:9/metrics", every=1.0)


def running(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())


class Fed:
    """Feeds over a node on which a simulated job and one that is pulled hold a GPU each."""

    def __init__(self) -> None:
        self.node = Node(2)
        job = Job("simulate", "1", "llama-8b-train")
        self.node.give(0.0, whole(job, "0"), whole(Job("slurm", "7"), "1"))
        self.node.run(0.0, 30.0)
        self.book = ReportBook(self.snapshot)
        self.feeds = Feeds(self.snapshot, self.book)

    def snapshot(self) -> Snapshot:
        return self.node.last

    def reported(self) -> set[str]:
        """The jobs that have reported, whatever became of the reports."""
        reviewed = self.book.reviewed(self.node.last)
        return {view.job.job_id for view in reviewed.jobs if view.reports is not None}


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fed]:
    monkeypatch.setattr(SimulatedReports, "every_seconds", 0.02)
    made = Fed()
    yield made
    made.feeds.stop()


def test_nothing_runs_unasked(fed: Fed) -> None:
    fed.feeds.run((), {})
    assert (running("ofu-pull"), running("ofu-simulated-reports")) == (0, 0)
    assert fed.feeds.outcomes() == {}


def test_engines_are_pulled_and_what_came_of_it_is_counted(fed: Fed) -> None:
    with page_server(lambda: "vllm:num_requests_running 1\n") as url:
        fed.feeds.run([NOBODY, PullSetting(job_id="8", url=url, every=60.0)], {})
        until(lambda: len(fed.feeds.outcomes()) == 2)
    assert fed.feeds.outcomes() == {("7", "unreachable"): 1, ("8", "no_counter"): 1}


def test_a_pulled_engine_reports_to_the_book(fed: Fed) -> None:
    flops = iter(range(1, 1000))

    def page() -> str:
        return f'vllm:estimated_flops_per_gpu_total{{engine="0"}} {next(flops) * 1e12}\n'

    with page_server(page) as url:
        fed.feeds.run([PullSetting(job_id="7", url=url, every=1.0)], {})
        until(lambda: "7" in fed.reported())


def test_simulated_jobs_report_where_they_are_asked_to(fed: Fed) -> None:
    fed.feeds.run((), SIMULATED)
    until(lambda: fed.reported() == {"1"})
    assert running("ofu-simulated-reports") == 1


def test_the_same_settings_again_begin_nothing_anew(fed: Fed) -> None:
    fed.feeds.run([NOBODY], SIMULATED)
    pulls = fed.feeds.pulls
    until(fed.feeds.outcomes)
    fed.feeds.run([NOBODY], SIMULATED)
    assert fed.feeds.pulls is pulls
    assert (running("ofu-pull"), running("ofu-simulated-reports")) == (1, 1)


def test_other_settings_end_what_ran_before(fed: Fed) -> None:
    fed.feeds.run([NOBODY], SIMULATED)
    before = fed.feeds.pulls
    fed.feeds.run([NOBODY.model_copy(update={"job_id": "9"})], {})
    assert fed.feeds.pulls is not before
    until(lambda: (running("ofu-pull"), running("ofu-simulated-reports")) == (1, 0))
    until(lambda: ("9", "unreachable") in fed.feeds.outcomes())


def test_what_was_stopped_can_be_run_again(fed: Fed) -> None:
    fed.feeds.run([NOBODY], SIMULATED)
    fed.feeds.stop()
    until(lambda: (running("ofu-pull"), running("ofu-simulated-reports")) == (0, 0))
    fed.feeds.run([NOBODY], SIMULATED)
    assert (running("ofu-pull"), running("ofu-simulated-reports")) == (1, 1)


def test_a_feed_holds_up_neither_the_stop_nor_the_end_of_the_process(fed: Fed) -> None:
    silent, released = threading.Event(), threading.Event()

    def page() -> str:
        silent.set()
        released.wait(20)
        return ""

    before = {*threading.enumerate()}
    with page_server(page) as url:
        fed.feeds.run([PullSetting(job_id="7", url=url, every=1.0)], SIMULATED)
        assert silent.wait(20)
        feeds = {each.name: each for each in {*threading.enumerate()} - before}
        assert all(feeds[name].daemon for name in ("ofu-pull", "ofu-simulated-reports"))
        fed.feeds.stop()
        assert feeds["ofu-pull"].is_alive(), "it was not waited for"
        released.set()
