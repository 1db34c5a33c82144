"""Two clocks say by how much one of them was set: within one boot exactly, over a boot as far as can be known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter.jobs.clock_mark import ClockMark, moved, set_by
from ofu_exporter.values.instant import Span
from ofu_exporter.values.progress import Fall, Progress, Recovery, RunLine, Unsure
from ofu_exporter.values.trace import TimeParts, TraceSummary
from tests.helpers.documents import REPORTS, reporting
from tests.helpers.every import every
from tests.helpers.stored_job import TOTALS

NOW = ClockMark("this", 1000.0, 2_000_000.0)


@every(
    [
        (ClockMark("this", 900.0, 1_999_900.0), 0.0),
        (ClockMark("this", 900.0, 1_999_900.4), 0.0),
        (ClockMark("this", 900.0, 1_978_300.0), 21_600.0),
        (ClockMark("this", 900.0, 1_999_940.0), -40.0),
        (ClockMark("this", 1000.0, 1_978_400.0), 21_600.0),
        (ClockMark("this", 1100.0, 1_999_900.0), 0.0),
        (ClockMark("this", 1100.0, 2_000_040.0), -40.0),
        (ClockMark("other", 5000.0, 1_900_000.0), 0.0),
        (ClockMark("other", 5000.0, 1_999_500.0), -500.0),
        (ClockMark("", 900.0, 1_978_300.0), 0.0),
        (ClockMark("", 900.0, 2_000_040.0), -40.0),
    ]
)
def test_what_a_clock_was_set_by(before: ClockMark, seconds: float) -> None:
    assert set_by(before, NOW) == pytest.approx(seconds)


def test_no_time_of_a_job_is_ahead_and_its_row_keeps_its_name() -> None:
    job = TOTALS.model_copy(
        update={
            "held_since": TOTALS.began,
            "ended": TOTALS.updated,
            "starts": ((TOTALS.began, TOTALS.began + 60.0), (TOTALS.updated, None)),
        }
    )
    now = TOTALS.updated - 10.0
    after = moved(job, 0.0, now)
    assert (after.updated, after.ended, after.began) == (now, now, job.began)
    assert moved(job, 0.0, job.updated) is job
    assert after.starts == (job.starts[0], (now, None))
    later = moved(job, 3600.0, job.updated + 3600.0)
    assert later.updated == job.updated + 3600.0
    assert later.held_since == job.began + 3600.0
    assert [run.began for run in later.runs] == [run.began + 3600.0 for run in job.runs]
    assert later.starts[0] == (job.began + 3600.0, job.began + 3660.0)


def test_steps_restarts_and_the_last_trace_were_when_the_clock_now_says() -> None:
    """Else a step after it would be an hour late, and a restart would take an hour more or less than it took."""
    hour, end = 3600.0, reporting().updated
    progress = Progress(
        lines={"a": RunLine(9, end - 90, 8)},
        step=9,
        stopped=end - 80,
        until=end - 10,
        told=end - 60,
        fall=Fall(7, end - 30, end - 20, 7, end - 40),
        recoveries=(Recovery(end - 80, 5, 8, None, end - 50),),
        again=(Span(end - 70, end - 60),),
        unsure=(Unsure("evaluation", end - 30, end - 20, 10.0),),
    )
    trace = TraceSummary(end - 70, 1, 2.0, dict.fromkeys(TimeParts._fields, 0.2))
    job = reporting(progress=progress, trace=trace)
    after = moved(job, hour, end + hour).reported
    assert after is not None
    assert after.last == (REPORTS.last or 0.0) + hour
    assert after.trace == replace(trace, at=trace.at + hour)
    assert after.progress == Progress(
        lines={"a": RunLine(9, end - 90 + hour, 8)},
        step=9,
        stopped=end - 80 + hour,
        until=end - 10 + hour,
        told=end - 60 + hour,
        fall=Fall(7, end - 30 + hour, end - 20 + hour, 7, end - 40 + hour),
        recoveries=(Recovery(end - 80 + hour, 5, 8, None, end - 50 + hour),),
        again=(Span(end - 70 + hour, end - 60 + hour),),
        unsure=(Unsure("evaluation", end - 30 + hour, end - 20 + hour, 10.0),),
    )
    ahead = moved(job, 0.0, end - 40).reported
    assert ahead is not None
    assert ahead.progress is not None
    assert (ahead.progress.until, ahead.progress.unsure) == (end - 40, ())
