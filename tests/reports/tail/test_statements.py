"""Statements of a log and the intervals that they are about."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.client.intervals import Call, IntervalReport
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import readers
from ofu_exporter.flops.readers import JobFacts
from ofu_exporter.reports.tail.lines import TailLine
from ofu_exporter.reports.tail.statements import Drop, LogTail, stamp
from tests.helpers.every import every

NOW = 1_700_000_000.0


class Bench:
    """A tail on a clock of its own."""

    def __init__(self, framework: str = "auto", **job: int) -> None:
        self.now = NOW
        self.said: list[str] = []
        self.tail = LogTail(framework, JobFacts(**job), self.said.append, lambda: self.now)

    def take(self, text: str, after: float = 0.0, is_new: bool = True) -> Call | None:
        self.now += after
        call = self.tail.take(TailLine(text, is_new))
        assert not isinstance(call, IntervalReport)
        return call

    def dropped(self, why: Drop) -> int:
        return self.tail.drops[why]


def local(at: float) -> str:
    return time.strftime("[%Y-%m-%d %H:%M:%S]", time.localtime(at))


def megatron(
    step: int, elapsed: float, tflops: float | str = 400.0, at: float | None = None
) -> str:
    when = "" if at is None else local(at)
    return (
        f" {when} iteration {step:8d}/ 5000 | consumed samples: 51200 | elapsed time per iteration "
        f"(ms): {1000 * elapsed:.1f} | throughput per GPU (TFLOP/s/GPU): {tflops} | lm loss: 2.1"
    )


def verl(**values: object) -> str:
    given_values = {
        "perf/mfu/actor": 0.4,
        "perf/time_per_step": 100.0,
        "timing_s/gen": 40.0,
        "timing_s/update_actor": 30.0,
        **{name.replace("__", "/"): value for name, value in values.items()},
    }
    said = " - ".join(
        f"{name}:{value}" for name, value in given_values.items() if value is not None
    )
    return f"\x1b[36m(TaskRunner pid=7)\x1b[0m step:12 - actor/entropy:0.3 - {said}"


def test_an_iteration_lasts_as_long_as_it_says_and_ends_now() -> None:
    bench = Bench()
    report = bench.take(megatron(50, 5.0))
    assert report is not None
    assert (report.start, report.at, report.step) == (NOW - 5, NOW, 50)
    assert report.values == {"tflops_per_gpu": 400.0}
    assert bench.tail.framework == "megatron"


def test_a_line_stands_for_the_iterations_since_the_one_before() -> None:
    bench = Bench()
    bench.take(megatron(50, 5.0))
    report = bench.take(megatron(60, 5.0), after=60.0)
    assert report is not None
    assert (report.start, report.at) == (NOW + 10, NOW + 60), "10 s were for something else"


def test_a_restart_from_an_earlier_iteration_is_believed_for_one() -> None:
    bench = Bench()
    bench.take(megatron(50, 5.0))
    report = bench.take(megatron(40, 5.0), after=600.0)
    assert report is not None
    assert report.at - (report.start or 0.0) == pytest.approx(5.0)


def test_the_line_says_when_it_was_written() -> None:
    bench = Bench()
    report = bench.take(megatron(50, 5.0, at=NOW - 300), is_new=False)
    assert report is not None
    assert (report.start, report.at) == (NOW - 305, NOW - 300)


def test_a_buffered_line_that_is_new_is_placed_where_it_was_written() -> None:
    report = Bench().take(megatron(50, 5.0, at=NOW - 30))
    assert report is not None
    assert report.at == NOW - 30


def test_a_new_line_was_written_now_as_far_as_its_stamp_of_whole_seconds_says() -> None:
    """Else all iterations of a second would end with it."""
    bench = Bench()
    bench.now += 0.5
    report = bench.take(megatron(50, 5.0, at=NOW))
    assert report is not None
    assert report.at == NOW + 0.5


@every([(-1, -1), (1, 0)])
def test_an_old_line_of_the_last_moment_ends_when_it_says_but_never_later_than_now(
    ahead: int, end: int
) -> None:
    report = Bench().take(megatron(50, 5.0, at=NOW + ahead), is_new=False)
    assert report is not None
    assert report.at == NOW + end


def test_another_clock_or_zone_is_not_believed_for_a_new_line() -> None:
    for shift in (-7200.0, 7200.0):
        report = Bench().take(megatron(50, 5.0, at=NOW + shift))
        assert report is not None
        assert report.at == NOW


def test_old_lines_are_sent_as_far_as_they_lie_within_ten_minutes_and_said_once() -> None:
    bench = Bench()
    old = [bench.take(megatron(n, 5.0, at=NOW - 605 + 2 * n), is_new=False) for n in range(4)]
    assert [report is not None for report in old] == [False, False, False, True]
    assert bench.dropped(Drop.TOO_OLD) == 3
    assert len(bench.said) == 1
    assert "over 600 s old" in bench.said[0]


def test_old_lines_without_a_time_cannot_be_placed() -> None:
    bench = Bench()
    assert bench.take("  " + "x" * 100 + verl(), is_new=False) is None
    assert bench.dropped(Drop.NO_TIME) == 1
    assert bench.said == [
        f"no_time: it is not known when it was written: {'x' * 80!r}; further ones are counted"
    ]


def test_iterations_too_short_for_a_counter_are_averaged_with_the_next() -> None:
    bench = Bench()
    rates = [100.0, 200.0, 300.0, 400.0]
    reports = [bench.take(megatron(n, 0.04, rate), 0.04) for n, rate in enumerate(rates)]
    assert reports[:2] == [None, None]
    assert reports[2] is not None
    assert reports[2].values["tflops_per_gpu"] == pytest.approx(200.0)
    assert reports[2].at - (reports[2].start or 0.0) == pytest.approx(0.12)


def test_a_clock_that_is_set_back_costs_one_interval_at_most() -> None:
    bench = Bench()
    bench.take(megatron(1, 5.0))
    report = bench.take(megatron(2, 5.0), after=-3600.0)
    assert report is not None
    assert report.at == NOW - 3600
    bench = Bench()
    for after in (0.0, 20.0):
        bench.take('{"train_throughput_per_gpu": 300.0}', after)
    assert bench.take('{"train_throughput_per_gpu": 300.0}', after=-3600.0) is None
    assert bench.dropped(Drop.NO_LENGTH) == 2, "nor is the time since the last line known"


def test_what_is_written_again_is_not_reported_again() -> None:
    bench = Bench()
    lines = [megatron(n, 5.0, at=NOW - 100 + 5 * n) for n in range(3)]
    assert all(bench.take(line, is_new=False) for line in lines)
    assert not any(bench.take(line, is_new=False) for line in lines)
    assert bench.dropped(Drop.REPEATED) == 2, "the last one may be another in the same second"
    assert bench.said[0].startswith("repeated: written before the last statement: '[20")


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.floats(0, 50), st.floats(0, 2000)), min_size=1, max_size=30
    )
)
def test_intervals_never_overlap_and_no_mean_leaves_the_range_of_what_was_said(
    lines: list[tuple[float, float, float]],
) -> None:
    bench = Bench()
    until = 0.0
    said = [round(rate, 3) for _, _, rate in lines]
    for number, (after, elapsed, rate) in enumerate(lines):
        report = bench.take(megatron(number, elapsed, round(rate, 3)), after)
        if report is not None:
            assert until <= (report.start or 0.0) < report.at <= bench.now
            assert min(said) * 0.999 <= report.values["tflops_per_gpu"] <= max(said) * 1.001
            until = report.at


def test_verl_says_the_mfu_of_a_part_and_a_step_is_all_of_it() -> None:
    """30 s of the 100 s of a step at 40 %: 12 %. Generation has no MFU and adds nothing."""
    report = Bench().take(verl())
    assert report is not None
    assert (report.start, report.at, report.step) == (NOW - 100, NOW, 12)
    assert report.values == {"mfu": pytest.approx(0.12)}


def test_every_part_of_a_verl_step_counts_by_its_time() -> None:
    line = verl(perf__mfu__actor_infer=0.5, timing_s__old_log_prob="np.float64(10.0)")
    report = Bench().take(line)
    assert report is not None
    assert report.values["mfu"] == pytest.approx(0.12 + 0.05)


def test_verl_omni_is_put_right_by_the_data_parallel_size() -> None:
    report = Bench("verl", world_size=8, data_parallel_size=2).take(verl())
    assert report is not None
    assert report.values["mfu"] == pytest.approx(0.03)


def test_a_verl_mfu_of_zero_is_no_statement() -> None:
    bench = Bench()
    assert bench.take(verl(perf__mfu__actor=0.0)) is None
    assert "does not know the GPU or the model" in bench.said[0]


SUMMARY = """\
-------------------------- DeepSpeed Flops Profiler --------------------------
Profile Summary at step 10:
fwd flops per GPU:                                            6279.86 G
[rank3] something else
iter latency:                                                 2.0 s
"""


def test_a_deepspeed_summary_is_said_by_its_last_line() -> None:
    bench = Bench()
    assert [bench.take(line) for line in SUMMARY.splitlines()] == [None] * 5
    report = bench.take("----------------------------- Aggregated Profile per GPU ------")
    assert report is not None
    assert report.values["tflops_per_gpu"] == pytest.approx(3 * 6.27986 / 2)
    assert report.start == NOW - 2


def test_a_deepspeed_summary_without_end_is_given_up() -> None:
    bench = Bench()
    for line in [*SUMMARY.splitlines(), *["noise"] * 300, "-----"]:
        assert bench.take(line) is None
    assert bench.dropped(Drop.UNREADABLE) == 1


def totals(seconds: float, tflop: float) -> str:
    return (
        f'{{"train_iterations_end": 5, "train_iterations_time_total": {seconds}, '
        f'"train_tflop": {tflop}, "world_size": 8}}'
    )


def test_onelogger_totals_become_what_was_done_in_between() -> None:
    bench = Bench()
    assert bench.take(totals(100.0, 8e4)) == Call(NOW, {}, 5), "only a beginning"
    report = bench.take(totals(110.0, 8e4 + 8 * 10 * 400), after=12.0)
    assert report is not None
    assert report.values["tflops_per_gpu"] == pytest.approx(400.0)
    assert report.at - (report.start or 0.0) == pytest.approx(10.0)
    stalled = bench.take(totals(120.0, 8e4 + 8 * 10 * 400), after=12.0)
    assert stalled is not None
    assert stalled.values == {"tflops_per_gpu": 0.0}
    restarted = bench.take(totals(1.0, 800.0), after=60.0)
    assert restarted is not None
    assert restarted.values == {}


SAVED = (
    '{"train_iterations_save_checkpoint_end": 500, "save_checkpoint_count": 1}',
    '{"train_tflop_productive_end": 9e5, "train_iterations_productive_end": 500, '
    '"train_samples_productive_end": 128000, "train_iterations_time_total_productive": 4e3, '
    '"validation_iterations_time_total_productive": 0}',
    '{"save_checkpoint_sync_time_total_productive": 12.0, "save_checkpoint_sync_count": 1, '
    '"last_successful_save_checkpoint_sync_finish_time": 1700000012000, '
    '"save_checkpoint_sync_time_max": 12.0, "save_checkpoint_sync_time_total": 12.0}',
)
"""What Megatron-LM `one_logger_utils.py` logs while a checkpoint is saved: start, success, end."""


def test_onelogger_says_where_a_run_goes_on_and_what_it_saves() -> None:
    bench, tail = Bench(), LogTail("onelogger", JobFacts(), print, lambda: NOW)
    begins = (
        '{"train_iterations_start": 400, "app_train_loop_start_time": 1700000000000, '
        '"train_tflop_start": 7e5, "is_save_checkpoint_enabled": true}'
    )
    assert bench.take(begins) == Call(NOW, {}, 400)
    for _ in range(2):  # another run counts its seconds anew
        assert tail.take(TailLine(begins, is_new=True)) == Call(NOW, {}, 400)
        saved = [tail.take(TailLine(line, is_new=True)) for line in (*SAVED, SAVED[-1])]
        assert saved == [None, None, IntervalReport(NOW - 12, NOW, {}, 500, "checkpoint"), None]


def test_totals_of_another_run_are_not_held_against_those_of_the_run_before() -> None:
    """The run before ended after 10 s, so that the totals of this one are larger from the first on."""
    bench = Bench()
    bench.take(totals(10.0, 8 * 10 * 400))
    bench.take('{"train_iterations_start": 4}', after=60.0)
    assert bench.take(totals(100.0, 8 * 100 * 300), after=100.0) == Call(NOW + 160, {}, 5)
    report = bench.take(totals(110.0, 8 * 110 * 300), after=10.0)
    assert report is not None
    assert report.values["tflops_per_gpu"] == pytest.approx(300.0)


def test_a_throughput_without_its_time_lasts_since_the_one_before() -> None:
    bench = Bench()
    assert bench.take('{"train_throughput_per_gpu": 300.0}') is None
    assert bench.dropped(Drop.NO_LENGTH) == 1
    assert bench.said == [
        """no_length: does not say how long it took: '{"train_throughput_per_gpu": 300.0}'"""
        "; further ones are counted"
    ]
    for before, after in ((0.0, 20.0), (20.0, 0.5)):
        report = bench.take('{"train_throughput_per_gpu": 300.0}', after)
        assert report is not None
        assert (report.start, report.at) == (NOW + before, NOW + before + after)


def test_throughputs_too_short_for_a_counter_are_averaged_by_their_time() -> None:
    bench = Bench()
    bench.take('{"train_throughput_per_gpu": 300.0}')
    assert bench.take('{"train_throughput_per_gpu": 100.0}', after=0.03) is None
    report = bench.take('{"train_throughput_per_gpu": 300.0}', after=0.09)
    assert report is not None
    assert report.values["tflops_per_gpu"] == pytest.approx(250.0, rel=1e-5)


def test_a_line_that_cannot_be_read_costs_itself() -> None:
    bench = Bench()
    bench.take(megatron(1, 5.0))
    assert bench.take(megatron(2, 5.0, "fast"), 5.0) is None
    assert bench.take(megatron(2, 5.0, "nan"), 0.0) is None
    assert bench.take(megatron(3, 5.0), 5.0) is not None
    assert bench.dropped(Drop.UNREADABLE) == 2
    assert bench.said == [
        "unreadable: throughput per GPU: 'fast' is not a number; further ones are counted"
    ]


def test_a_line_that_one_framework_cannot_read_may_be_another_ones() -> None:
    bench = Bench()
    report = bench.take(f"{megatron(2, 5.0, 'fast')} {verl()}")
    assert report is not None
    assert bench.tail.framework == "verl"
    assert bench.dropped(Drop.UNREADABLE) == 1


@given(st.text(max_size=300))
def test_no_text_breaks_a_follower(text: str) -> None:
    for name in readers.log_names():
        bench = Bench(name)
        for line in (text, f"perf/mfu/{text}", f"iteration 1/ {megatron(1, 1.0, text)}"):
            bench.take(line)
            bench.take("{" + line)


@pytest.mark.parametrize(
    "line",
    [
        '{"perf/mfu/actor": 1, "data": 3}',
        '{"perf/mfu/actor": ' + "[" * 100_000,
        '{"train_tflop": ' + "[" * 100_000,
        '{"train_tflop": {}}',
        '{"train_tflop": 1, "world_size": 0, "train_iterations_time_total": 1}',
        megatron(1, 1.0).replace("iteration        1/", f"iteration {'9' * 5000}/"),
        verl(perf__time_per_step=0),
        verl(timing_s__update_actor=None),
        verl(timing_s__gen="soon"),
    ],
)
def test_what_looks_like_a_statement_and_is_none_is_counted(line: str) -> None:
    bench = Bench()
    assert bench.take(line) is None
    assert bench.dropped(Drop.UNREADABLE) == 1


def test_the_first_statement_says_whose_log_it_is() -> None:
    bench = Bench()
    assert bench.tail.framework is None
    bench.take(verl())
    assert bench.tail.framework == "verl"
    assert bench.take(megatron(1, 5.0), after=200.0) is None


def test_an_unknown_framework_is_named() -> None:
    known = ", ".join(readers.log_names())
    with pytest.raises(ConfigError, match=f"unknown log 'serving'; known: {known}"):
        Bench("serving")


@every(
    [
        ("2023-11-14T22:13:20Z x", 1_700_000_000.0),
        ("[2023-11-14 22:13:20,250+00:00]", 1_700_000_000.25),
        ("x 2023-11-15 00:13:20.5+0200", 1_700_000_000.5),
        ("2023-11-14 12:13:20-10:00", 1_700_000_000.0),
        ("2023-11-15 03:58:20+05:45", 1_700_000_000.0),
        ("x" * 150 + " 2023-11-14T22:13:20Z", 1_700_000_000.0),
        ("x" * 190 + " 2023-11-14T22:13:20Z", None),
        (f"{local(NOW)} here", NOW),
        ("no time", None),
        ("x" * 200 + "2023-11-14T22:13:20Z", None),
    ]
)
def test_stamps(text: str, at: float | None) -> None:
    assert stamp(text) == at


@pytest.mark.parametrize(
    ("zone", "text", "second", "repeated"),
    [
        ("EST5EDT,M3.2.0,M11.1.0", "2026-11-01 01:30:00", 1_793_514_600.0, 3600.0),
        ("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "2026-04-05 01:45:00", 1_775_315_700.0, 1800.0),
    ],
)
def test_a_time_that_comes_twice_is_the_last_one_until_now(
    zone: str, text: str, second: float, repeated: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert stamp(text, second + 60.0) == second
        assert stamp(text, second - 60.0) == second - repeated
    finally:
        monkeypatch.undo()
        time.tzset()
