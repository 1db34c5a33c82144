"""What reports for jobs from inside the agent: run by the settings, and let go of with them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.flops.causes import CauseFacts, causes
from ofu_exporter.recordings import recording
from ofu_exporter.recordings.jobs import RecordedJob
from ofu_exporter.reports import feeds
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.feeds import REPORTING, Feeds, RecordedReports, SimulatedReports
from ofu_exporter.reports.messages import ModelBody
from ofu_exporter.reports.reported_model import counted_step
from ofu_exporter.schedulers.simulate.driver import Options
from ofu_exporter.settings import PullSetting
from ofu_exporter.values.job import Job
from ofu_exporter.values.reported import ReportsView, Verdict
from ofu_exporter.values.snapshot import JobView, Snapshot
from tests.helpers.agent import SOON, page_server, until
from tests.helpers.desk import CLOCK
from tests.helpers.node import EPOCH, Node, whole
from tests.helpers.recorded_jobs import job_line
from tests.helpers.values import FakeClock, reading

HONEST, OVER = "llama-8b-train", "moe-pretrain"


def a_job(name: str, job_id: str, scheduler: str = "simulate") -> Job:
    return Job(scheduler, job_id, name)


class Simulation:
    """A node of two GPUs with a job on each, both of which report for three minutes."""

    def __init__(self, *jobs: Job) -> None:
        self.node = Node(len(jobs))
        self.clock = FakeClock(0.0)
        self.book = ReportBook(
            lambda: self.node.last, clock=self.clock, unix=lambda: EPOCH + self.clock.now
        )
        self.reporter = SimulatedReports(lambda: self.node.last, self.book)
        self.node.give(0.0, *(whole(job, str(index)) for index, job in enumerate(jobs)))

    def run(self, until: int = 180, every: int = 5, tensor: float = 0.5) -> Simulation:
        """Windows up to then, and a report of every job after each beat."""
        for end in range(int(self.clock.now) + every, until + 1, every):
            self.node.run(self.clock.now, float(end), tensor)
            self.clock.now = float(end)
            for view in self.node.last.jobs:
                self.reporter.report(view)
        return self

    def of(self, job_id: str) -> ReportsView | None:
        reviewed: Snapshot = self.book.reviewed(self.node.last)
        found: JobView = next(view for view in reviewed.jobs if view.job.job_id == job_id)
        return found.reports


def test_one_agrees_and_the_other_is_explained() -> None:
    simulation = Simulation(a_job(HONEST, "1"), a_job(OVER, "2")).run()
    honest, over = simulation.of("1"), simulation.of("2")
    assert honest
    assert honest.verdict is Verdict.AGREE
    assert over
    assert over.verdict is Verdict.MFU_ABOVE_OFU
    assert over.causes
    assert over.causes.first
    assert over.causes.first.cause == "full_attention_counted"


def test_what_a_real_scheduler_names_is_never_spoken_for() -> None:
    assert Simulation(a_job(OVER, "2", scheduler="slurm")).run().of("2") is None


def test_jobs_that_are_not_in_the_table_report_nothing() -> None:
    assert Simulation(a_job("chat-serving", "3")).run().of("3") is None


def test_a_job_of_which_nothing_was_observed_yet_reports_nothing() -> None:
    simulation = Simulation(a_job(HONEST, "1"))
    for view in simulation.node.tick(5.0).jobs:
        simulation.reporter.report(view)
    assert simulation.of("1") is None


def test_a_report_covers_the_time_since_the_one_before_and_no_other() -> None:
    """The first covers 5 s. The load of each is its own."""
    simulation = Simulation(a_job(HONEST, "1")).run(until=30, every=30, tensor=0.2)
    first = simulation.of("1")
    assert first
    assert first.total.gpu_seconds == pytest.approx(5.0)
    assert first.total.mfu == pytest.approx(0.2 * CLOCK / 1.015, rel=0.03)
    simulation.run(until=60, every=30, tensor=0.6)
    second = simulation.of("1")
    assert second
    assert second.last == EPOCH + 60
    assert second.total.gpu_seconds == pytest.approx(35.0)
    assert second.recent_mfu_ratio == pytest.approx(
        (5 * 0.2 + 30 * 0.6) / 35 * CLOCK / 1.015, rel=0.03
    )


def test_a_report_ends_with_what_it_is_about_and_not_when_it_is_made() -> None:
    simulation = Simulation(a_job(HONEST, "1"))
    (view,) = simulation.node.run(0.0, 30.0).jobs
    simulation.clock.now = 33.0
    simulation.reporter.report(view)
    told = simulation.of("1")
    assert told
    assert told.last == EPOCH + 30


def test_every_demo_says_the_same() -> None:
    one, other = (Simulation(a_job(HONEST, "1")).run(until=60) for _ in range(2))
    assert one.of("1") == other.of("1")


def test_a_refusal_is_logged_and_the_time_is_told_with_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    simulation = Simulation(a_job(HONEST, "1"))
    elsewhere = ReportBook(lambda: None)
    reporter = SimulatedReports(lambda: simulation.node.last, elsewhere)
    (view,) = simulation.node.run(0.0, 30.0).jobs
    reporter.report(view)
    assert caplog.messages == [
        "simulated report of job 1: '1' holds no GPU that this agent measures. "
        "Report to the node on which the job has its GPUs, under its scheduler's job id."
    ]
    reporter._book = simulation.book
    simulation.clock.now = 30.0
    reporter.report(view)
    assert simulation.of("1")


def test_before_there_is_a_snapshot_nobody_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedReports, "every_seconds", 0.01)
    simulation = Simulation(a_job(HONEST, "1"))
    simulation.node.run(0.0, 30.0)
    simulation.clock.now = 30.0
    shown: list[Snapshot | None] = [None]
    asked = threading.Semaphore(0)

    def snapshot() -> Snapshot | None:
        asked.release()
        return shown[0]

    reporter = SimulatedReports(snapshot, simulation.book)
    reporter.start()
    for _ in range(3):
        assert asked.acquire(timeout=SOON)
    assert simulation.of("1") is None
    shown[0] = simulation.node.last
    until(lambda: simulation.of("1"))
    reporter.stop()


def test_the_over_report_is_what_the_formula_makes_of_its_model() -> None:
    job = counted_step(ModelBody(**REPORTING[OVER].facts["model"]))
    facts = CauseFacts(step=job)
    (cause,) = [each for each in causes() if each.slug == "full_attention_counted"]
    (hypothesis,) = cause.hypotheses(facts)
    assert hypothesis.miscount is not None
    ratio = hypothesis.miscount(job).flops() / job.flops()
    assert ratio == pytest.approx(feeds._FULL_OVER_CAUSAL, rel=1e-4)


START = 10.0
"""When the job begins in the recording."""
EVERY = 20.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A job that reports every 20 s for 100 s."""
    file = tmp_path / "recording"
    writer = recording.RecordingWriter(file, recording.RecordingHeader("nvml", False, ""), 0.0)
    writer.put([job_line(RecordedJob(Job("replay", "7", "train"), ("0",), START, 110.0))])
    for number in range(5):
        start = START + EVERY * number
        body = {"job_id": "7", "mfu": 0.3, "start": start, "end": start + EVERY}
        writer.put([{"report": body}])
    writer.write([reading(0.0, 120.0)])
    writer.close()
    return file


class Replay:
    """A node with the recorded job, which began at 0 there."""

    def __init__(self, path: Path, scheduler: str = "replay", began: float = 0.0) -> None:
        self.node = Node(1)
        self.clock = FakeClock(0.0)
        self.book = ReportBook(
            lambda: self.node.last, clock=self.clock, unix=lambda: EPOCH + self.clock.now
        )
        self.reports = RecordedReports(
            lambda: self.node.last, self.book, path, unix=lambda: EPOCH + began
        )
        self.scheduler = scheduler

    def run(self, seconds: float, started: float = 0.0, job_id: str = "7") -> int:
        """Play so long; how many reports of the job were taken in."""
        job = Job(self.scheduler, job_id, "train", started=EPOCH + started, uid=str(started))
        self.node.give(self.clock.now, whole(job, "0"))
        for _ in range(int(seconds)):
            self.clock.now += 1.0
            self.node.run(self.clock.now - 1.0, self.clock.now)
            for view in self.node.last.jobs:
                self.reports.report(view)
        (view,) = self.book.reviewed(self.node.last).jobs
        return view.reports.outcomes["accepted"] if view.reports else 0


def test_a_report_comes_when_its_interval_ends(path: Path) -> None:
    replay = Replay(path)
    assert replay.run(19.0) == 0
    assert replay.run(1.0) == 1
    assert replay.run(19.0) == 1
    assert replay.run(200.0) == 5
    assert not replay.book.rejected


def test_the_compared_seconds_are_those_of_the_reports(path: Path) -> None:
    replay = Replay(path)
    replay.run(100.0)
    (view,) = replay.book.reviewed(replay.node.last).jobs
    assert view.reports
    assert view.reports.total.gpu_seconds == pytest.approx(100.0)
    assert view.reports.total.mfu_seconds == pytest.approx(30.0)


def test_another_round_reports_again(path: Path) -> None:
    replay = Replay(path)
    assert replay.run(120.0) == 5
    replay.run(120.0, started=120.0)
    assert replay.reports.until == {"7": EPOCH + 220.0}


def test_an_agent_that_starts_later_does_not_repeat_what_was_reported(path: Path) -> None:
    assert Replay(path, began=50.0).run(120.0) == 3


@pytest.mark.parametrize(("scheduler", "job_id"), [("slurm", "7"), ("replay", "8")])
def test_no_other_job_is_spoken_for(path: Path, scheduler: str, job_id: str) -> None:
    assert Replay(path, scheduler).run(120.0, job_id=job_id) == 0


def test_a_file_that_cannot_be_read_is_said_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.unlink()
    assert Replay(path).run(30.0) == 0
    (line,) = (r.getMessage() for r in caplog.records if r.levelname == "WARNING")
    assert str(path) in line


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
        nobody = NOBODY.model_copy(update={"every": 300.0})
        engine = PullSetting(job_id="8", url=url, every=300.0, timeout=60.0)
        fed.feeds.run([nobody, engine], {})
        until(lambda: len(fed.feeds.outcomes()) == 2)
    assert fed.feeds.outcomes() == {("7", "unreachable"): 1, ("8", "served"): 1}


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
