"""The time of a job as a strip: the truth is the times that the test made up."""

from __future__ import annotations

from typing import Any

import pytest

from ofu_exporter.jobs.gpu_totals import RunTotals
from ofu_exporter.jobs.reported_mfu import ReportedMfu
from ofu_exporter.jobs.strip import COLUMNS, StripPiece, by_kind, strip, strip_lines
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.values.instant import Span
from ofu_exporter.values.progress import Progress, Recovery, RunLine

T = 1_800_000_000.0


def run(began: float, ended: float | None, node: str = "n1") -> RunTotals:
    return RunTotals(
        node=node,
        uid="",
        began=T + began,
        ended=None if ended is None else T + ended,
        held_seconds=0.0,
        observed_seconds=0.0,
        utilization_seconds=0.0,
    )


def job(*runs: RunTotals, progress: Progress | None = None, **fields: Any) -> JobTotals:
    reported = ReportedMfu(progress=progress) if progress else None
    return JobTotals(
        scheduler="slurm",
        job_id="7",
        began=T,
        updated=T + 1000,
        runs=runs,
        reported=reported,
        **fields,
    )


STEPS = {"": RunLine(150, T + 900)}
REQUEUED = job(
    run(0, 400),
    run(500, None),
    starts=((T, T + 100), (T + 500, T + 600)),
    progress=Progress(
        lines=STEPS,
        step=150,
        again=(Span(T + 600, T + 700),),
        recoveries=(Recovery(T + 390, 50, 100, T + 705, T + 610),),
    ),
)


def test_a_job_that_was_requeued() -> None:
    assert strip(REQUEUED) == [
        StripPiece("starting", T, T + 100),
        StripPiece("progress", T + 100, T + 400),
        StripPiece("waiting", T + 400, T + 500),
        StripPiece("starting", T + 500, T + 600),
        StripPiece("done again", T + 600, T + 700),
        StripPiece("progress", T + 700, T + 1000),
    ]
    assert by_kind(strip(REQUEUED)) == pytest.approx(
        {"starting": 0.2, "progress": 0.6, "done again": 0.1, "waiting": 0.1}
    )


def test_the_text_has_a_mark_for_each_sixtieth() -> None:
    time, legend, recovery = strip_lines(REQUEUED)
    marks = time.split("[")[1].split("]")[0]
    assert marks == "s" * 6 + "#" * 18 + "." * 6 + "s" * 6 + "r" * 6 + "#" * 18
    assert len(marks) == COLUMNS
    assert legend == "  s starting 20.0%, # progress 60.0%, r done again 10.0%, . waiting 10.0%"
    assert recovery == "After its last restarts: 5 min from the last step to a new one"


def test_a_job_without_steps_runs_and_is_not_called_progress() -> None:
    one = job(run(0, 500), starts=((T, T + 100),))
    assert [each.kind for each in strip(one)] == ["starting", "running"]


def test_a_start_that_lasts_and_one_before_the_run_was_seen() -> None:
    one = job(run(100, None), starts=((T - 50, T + 20), (T + 900, None)))
    assert strip(one) == [
        StripPiece("running", T + 100, T + 900),
        StripPiece("starting", T + 900, T + 1000),
    ]


def test_runs_of_several_nodes_wait_only_where_all_do() -> None:
    one = job(run(0, 400), run(0, 300, "n2"), run(500, None), run(450, None, "n2"))
    assert [each.kind for each in strip(one)] == ["running", "waiting", "running"]
    assert strip(one)[1] == StripPiece("waiting", T + 400, T + 450)


@pytest.mark.parametrize("runs", [(), (run(0, 0),), (run(0, None),)])
def test_where_there_is_nothing_to_tell_apart_there_is_no_strip(runs: tuple[RunTotals]) -> None:
    assert strip_lines(job(*runs)) == []


def test_a_job_on_thousands_of_nodes_costs_no_strip() -> None:
    one = job(*(run(at, at + 5000.5) for at in range(3000)))
    assert strip(one) == []


def test_a_job_that_has_not_come_further_yet_says_so() -> None:
    one = job(run(0, None), progress=Progress(lines=STEPS, recoveries=(Recovery(T, 50, 150),)))
    assert strip_lines(one) == ["After its last restarts: not yet beyond its highest step"]


@pytest.mark.parametrize(("starts", "is_drawn"), [(999, True), (1000, False)])
def test_a_job_of_more_than_two_thousand_edges_has_no_strip(starts: int, is_drawn: bool) -> None:
    """The begin and the end of the run are edges, too."""
    spans = tuple((T + number / 4 + 0.1, T + number / 4 + 0.2) for number in range(starts))
    assert bool(strip(job(run(0, 900), starts=spans))) == is_drawn


def test_steps_that_a_start_does_again_are_done_again_and_a_mark_is_of_its_middle() -> None:
    """A sixtieth of a minute is a second: half of one and more has its mark."""
    again = Progress(lines=STEPS, again=(Span(T + 10.6, T + 20.4),))
    one = job(run(0, 60), starts=((T, T + 30),), progress=again)
    assert strip_lines(one)[0].split("[")[1][:31] == "s" * 11 + "r" * 9 + "s" * 10 + "#"


def test_the_last_three_recoveries_are_told_and_whether_the_last_one_is_over() -> None:
    took = [Recovery(T, 50, 150, T + 60.0 * minutes, T) for minutes in (1, 2, 3, 4)]
    one = job(run(0, None), progress=Progress(lines=STEPS, recoveries=(*took,)))
    begin = "After its last restarts: 2 min, 3 min, 4 min from the last step to a new one"
    assert strip_lines(one) == [begin]
    open_ = Progress(lines=STEPS, recoveries=(*took, Recovery(T, 50, 150)))
    assert strip_lines(job(run(0, None), progress=open_)) == [
        f"{begin}, not yet beyond its highest step"
    ]
