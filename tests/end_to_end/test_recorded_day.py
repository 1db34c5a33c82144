"""Five real training jobs through schedulers, tick and book, as the demo plays them (docs/hardware.md).

The truth is summed up here from the recording's own lines, and from what torch counted while the jobs ran.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.jobs.totals import JobTotals, totals_of
from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.recordings import H100_TRAINING, Options, recording
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.feeds import RecordedReports
from ofu_exporter.schedulers.replay.driver import Scheduler
from ofu_exporter.values.job import Ownership
from ofu_exporter.values.losses import Loss
from ofu_exporter.values.reading import Reading
from ofu_exporter.values.reported import ReportsView, Verdict
from ofu_exporter.values.snapshot import JobView, SchedulerHealth, Snapshot, SourceHealth
from tests.helpers.node import EPOCH
from tests.helpers.values import FakeClock

pytestmark = pytest.mark.slow

TENSOR_HZ, PEAK_FLOPS = 1830e6, 989.43e12
"""Of the H100 SXM: dense BF16 is 132 SMs x 4096 FLOPs x 1830 MHz."""
POLL_SECONDS = 0.25
STEPS = Path(__file__).parents[1] / "measured" / "h100-training.json"
PAGE = (Path(__file__).parents[2] / "docs" / "hardware.md").read_text()
HONEST = {"101": "plain", "104": "waiting"}
"""Jobs whose MFU is right, and their names in h100-training.json."""
ATTENTION = "scaled_dot_product"


@dataclass
class Day:
    """The recording, played by hand: every job as it was shown last while it ran."""

    clock: FakeClock = field(default_factory=lambda: FakeClock(0.0))
    last: Snapshot | None = None
    running: dict[str, JobView] = field(default_factory=dict)
    views: dict[str, JobView] = field(default_factory=dict)

    def unix(self) -> float:
        return EPOCH + self.clock.now

    def play(self) -> Day:
        scheduler = Scheduler(Options(path=H100_TRAINING), self.clock, self.unix)
        book = ReportBook(lambda: self.last, clock=self.clock, unix=self.unix)
        reports = RecordedReports(lambda: self.last, book, H100_TRAINING, self.unix)
        state = State()
        health = SourceHealth("replay", up=True, reason=None)
        for event in recording.read(H100_TRAINING).events:
            assert isinstance(event, Reading)
            end = event.end
            owners = []
            while self.clock.now + POLL_SECONDS < end:
                self.clock.now += POLL_SECONDS
                owners.append(Ownership(self.clock.now, tuple(scheduler.claims())))
            self.clock.now = end
            told = (SchedulerHealth("replay", up=True, reason=None, answered_at=end),)
            tick = Tick(end, 1.0, [event.gpu], [event], health, (), self.unix(), owners, told)
            state, self.last = step(state, tick)
            for view in self.last.jobs:
                reports.report(view)
            for view in book.reviewed(self.last).jobs:
                self.views[view.job.job_id] = view
                if view.ended is None:
                    self.running[view.job.job_id] = view
        assert not book.rejected
        return self

    def reports(self, job_id: str) -> ReportsView:
        """What it had reported when it ended."""
        found = self.running[job_id].reports
        assert found is not None
        return found

    def totals(self, job_id: str) -> JobTotals:
        return totals_of(self.views[job_id], "node", False)


@pytest.fixture(scope="module")
def day() -> Day:
    return Day().play()


def lines(kind: str) -> list[dict[str, Any]]:
    """The lines of the recording that have this key."""
    with gzip.open(H100_TRAINING, "rt") as file:
        return [row for row in map(json.loads, file) if kind in row]


JOBS: Mapping[str, Mapping[str, Any]] = {row["job"]["job_id"]: row["job"] for row in lines("job")}


def summed(start: float, end: float) -> float:
    """OFU of the windows that lie between two times: tensor activity x mean of the clock reads x seconds."""
    used = observed = 0.0
    for row in lines("tensor"):
        if start <= row["start"] and row["end"] <= end:
            seconds = row["end"] - row["start"]
            hz = math.fsum(hz for _, hz in row["clocks"]) / len(row["clocks"])
            used += row["tensor"] * hz / TENSOR_HZ * seconds
            observed += seconds
    return used / observed


def test_it_is_of_five_jobs_in_ten_minutes() -> None:
    assert sorted(JOBS) == ["101", "102", "103", "104", "105"]
    assert len(lines("tensor")) == 555
    assert H100_TRAINING.stat().st_size < 300_000


@pytest.mark.parametrize("job_id", sorted(JOBS))
def test_the_ofu_of_a_job_is_the_sum_over_its_windows(day: Day, job_id: str) -> None:
    job = JOBS[job_id]
    truth = summed(job["start"], job["end"])
    assert day.totals(job_id).utilization_ratio == pytest.approx(truth, abs=0.003)


@pytest.mark.parametrize("job_id", sorted(JOBS))
def test_the_documented_ofu_of_a_job_is_that_of_the_recording(job_id: str) -> None:
    """The whole job's, and that of the seconds that its reports are of; the page has one digit."""
    reported, parts = (line.split("|") for line in PAGE.splitlines() if line[:5] == f"| {job_id}")
    spans = [row["report"] for row in lines("report") if row["report"]["job_id"] == job_id]
    of_reports = summed(min(s["start"] for s in spans), max(s["end"] for s in spans))
    of_job = summed(JOBS[job_id]["start"], JOBS[job_id]["end"])
    assert float(reported[4].strip(" %")) == pytest.approx(100 * of_reports, abs=0.1)
    assert float(parts[2].strip(" %")) == pytest.approx(100 * of_job, abs=0.06)


@pytest.mark.parametrize("job_id", sorted(JOBS))
def test_the_parts_of_a_job_add_up_to_its_peak(day: Day, job_id: str) -> None:
    (gpu,) = day.totals(job_id).gpus
    assert gpu.lost_seconds
    assert set(gpu.lost_seconds) == {Loss.CLOCK, Loss.NO_TENSOR, Loss.EMPTY_SMS, Loss.IDLE}
    parts = gpu.utilization_seconds + math.fsum(gpu.lost_seconds.values()) - gpu.gained_seconds
    assert parts / gpu.observed_seconds == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("job_id", "phase"), HONEST.items())
def test_what_torch_counted_lies_below_ofu_and_not_far(day: Day, job_id: str, phase: str) -> None:
    """torch counts every pair of attention; these kernels leave out the half that the mask hides."""
    rows = json.loads(STEPS.read_text())
    (row,) = (row for row in rows if row["phase"] == phase)
    flops = sum(n / 2 if ATTENTION in op else n for op, n in row["executed_flops"].items())
    mfu = flops * row["steps"] / (row["ended"] - row["began"]) / PEAK_FLOPS
    total = day.reports(job_id).total
    ofu = total.utilization_seconds / total.gpu_seconds
    assert 0.85 * ofu < mfu < ofu


@pytest.mark.parametrize(
    ("job_id", "verdict"),
    [
        ("101", Verdict.AGREE),
        ("102", Verdict.MFU_BELOW_OFU),
        ("103", Verdict.MFU_ABOVE_OFU),
        ("104", Verdict.AGREE),
    ],
)
def test_the_verdict_of_a_job_is_that_of_the_day(day: Day, job_id: str, verdict: Verdict) -> None:
    assert day.reports(job_id).recent_verdict is verdict


def test_recomputing_comes_first_where_a_job_recomputes(day: Day) -> None:
    causes = day.reports("102").causes
    assert causes
    assert causes.first
    assert causes.first.cause == "activation_recompute"


def test_counting_every_pair_fits_best_with_others_where_a_job_counts_every_pair(day: Day) -> None:
    causes = day.reports("103").causes
    assert causes
    tied = causes.fitting[: causes.tied]
    assert "full_attention_counted" in {each.cause for each in tied}


@pytest.mark.parametrize("job_id", sorted(JOBS))
def test_every_recorded_report_was_taken_in(day: Day, job_id: str) -> None:
    made = [row for row in lines("report") if row["report"]["job_id"] == job_id]
    view = day.views[job_id].reports
    assert view
    assert view.outcomes == {"accepted": len(made)}
