"""One GPU from window to window: what is shown of it, what is added to its totals, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.hardware.gpu_models import rate
from ofu_exporter.ofu.gpu_state import GpuState, expire, reject, take_fault, take_reading
from ofu_exporter.ofu.peak_split import GRAIN_SECONDS
from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.job import Claim, Job, Ownership
from ofu_exporter.values.reading import Evidence, Fault, Reading
from ofu_exporter.values.reasons import Reason, Rejection
from ofu_exporter.values.snapshot import GpuView
from tests.helpers.values import fault, gpu, health, reading

INTERVAL = 5.0


def after(
    *events: Reading | Fault, device: Gpu | None = None, interval: float = INTERVAL
) -> GpuState:
    """What is known of a GPU after these, one after another."""
    device = device or (events[0].gpu if events else gpu())
    return going_on(GpuState(GpuView(device, rate(device))), *events, interval=interval)


def going_on(known: GpuState, *events: Reading | Fault, interval: float = INTERVAL) -> GpuState:
    for event in events:
        if isinstance(event, Fault):
            known = take_fault(known, event)
        else:
            known, _ = take_reading(known, event, interval)
    return known


def test_a_window_is_shown_and_added_to_the_totals() -> None:
    known = after(
        reading(0, 5, tensor=0.5, hz=[1464e6] * 10), reading(5, 10, tensor=0.25, hz=[1464e6] * 10)
    )
    assert known.view.window is not None
    assert known.view.window.utilization == pytest.approx(0.2)
    assert known.view.utilization_seconds == pytest.approx(0.4 * 5 + 0.2 * 5)
    assert known.view.observed_seconds == pytest.approx(10)
    assert known.view.sampled_at == 10


def test_only_a_window_with_an_ofu_is_handed_on_to_be_credited() -> None:
    known = after()
    assert take_reading(known, reading(0, 5), INTERVAL)[1] is not None
    assert take_reading(known, reading(0, 5, tensor=None), INTERVAL)[1] is None
    assert take_reading(known, reading(0, 5, hz=()), INTERVAL)[1] is None


def test_a_fault_ends_the_window_and_keeps_the_totals() -> None:
    known = after(reading(0, 5), fault(6, Reason.LOST))
    assert (known.view.window, known.view.reason, known.view.detail) == (
        None,
        Reason.LOST,
        "detail",
    )
    assert known.view.observed_seconds == 5


def test_a_gpu_that_comes_back_goes_on_counting() -> None:
    known = after(reading(0, 5), fault(6), reading(20, 25))
    assert (known.view.reason, known.view.detail, known.view.observed_seconds) == (None, "", 10)


def test_a_window_without_an_ofu_is_shown_with_the_reason_and_counts_nothing() -> None:
    known = after(fault(0), reading(0, 5, tensor=None))
    assert known.view.window is not None
    assert (known.view.reason, known.view.detail) == (Reason.NO_TENSOR_COUNTER, "")
    assert (known.view.observed_seconds, known.view.sampled_at) == (0.0, None)
    assert going_on(known, reading(5, 10, hz=[])).view.reason is Reason.NO_CLOCK


# How long a window is shown.


@pytest.mark.parametrize(
    ("seconds", "interval", "pace", "lasts"),
    [
        pytest.param(5, 5, 0, 13.5, id="as long as two windows that fail and a second"),
        pytest.param(30, 5, 0, 76.0, id="a long window as long as the next takes"),
        pytest.param(1, 5, 0, 13.5, id="a short window as long as the sampler's interval"),
        pytest.param(1, 5, 30, 76.0, id="that of a slow source until its next"),
    ],
)
def test_a_window_is_shown_until_its_successor_is_long_overdue(
    seconds: float, interval: float, pace: float, lasts: float
) -> None:
    late = replace(reading(100.0 - seconds, 100.0), pace=pace)
    known = after(late, interval=interval)
    assert expire(known, 100.0 + lasts) == known
    old = expire(known, 100.0 + lasts + 0.01)
    assert (old.view.window, old.view.reason) == (None, Reason.STALE)
    assert old.view.observed_seconds == known.view.observed_seconds


# What is not believed.


def test_time_is_never_counted_twice() -> None:
    known = after(reading(0, 5), reading(3, 8))
    assert known.view.observed_seconds == 5
    assert known.view.rejected == {Rejection.OVERLAP.value: 1}


def test_a_window_from_before_the_source_was_first_read_is_shown_and_not_counted() -> None:
    known = after()
    known = known._replace(counted_before=3.0)
    before = replace(reading(-25.0, 5.0), counts=False)
    known, counted = take_reading(known, before, INTERVAL)
    assert counted is None
    assert known.view.window is not None
    assert (known.view.observed_seconds, known.view.rejected, known.view.reason) == (0.0, {}, None)
    known, counted = take_reading(known, reading(5.0, 10.0), INTERVAL)
    assert counted is not None
    assert known.view.observed_seconds == 5.0


def test_what_an_earlier_agent_counted_is_not_counted_again() -> None:
    known = after()._replace(counted_before=30.0)
    known = going_on(known, reading(5, 35), reading(35, 40))
    assert known.view.observed_seconds == 5
    assert known.view.rejected == {Rejection.OVERLAP.value: 1}


def test_what_cannot_be_is_counted_and_nothing_is_shown_any_more() -> None:
    known = after(reading(0, 5), reading(5, 10, tensor=7.0), reading(10, 15, tensor=8.0))
    assert (known.view.window, known.view.reason) == (None, Reason.IMPOSSIBLE)
    assert known.view.detail == Rejection.TENSOR_OUT_OF_RANGE.value
    assert known.view.rejected == {Rejection.TENSOR_OUT_OF_RANGE.value: 2}
    assert known.view.observed_seconds == 5


def test_a_window_without_length_is_too_short_and_not_backwards() -> None:
    assert after(reading(5, 5)).view.rejected == {Rejection.WINDOW_TOO_SHORT.value: 1}


def test_what_made_counters_suspicious_is_forgotten_with_a_fault() -> None:
    def dead(number: int) -> Reading:
        busy = Evidence(1.0, 0.0, 0.9)
        return replace(reading(5 * number, 5 * number + 5, tensor=0.0), evidence=busy)

    known = after(dead(0), dead(1), fault(10), dead(2), dead(3))
    assert known.view.reason is None
    assert going_on(known, dead(4)).view.reason is Reason.IMPLAUSIBLE


def test_rejections_add_up_by_reason() -> None:
    known = reject(reject(after(), [Rejection.OVERLAP]), [Rejection.OVERLAP, Rejection.DUPLICATE])
    assert known.view.rejected == {Rejection.OVERLAP.value: 2, Rejection.DUPLICATE.value: 1}
    assert reject(known, []) is known


# What it is measured against.


UNKNOWN = Gpu("0", "GPU-u", name="NVIDIA Z999", max_sm_clock_hz=2000e6)


def test_an_unknown_model_has_its_activity_and_clock_and_no_ofu() -> None:
    known = after(reading(0, 5, 0.5, [1000e6] * 4, device=UNKNOWN, pipes={"hmma": 0.5}))
    assert (known.view.reason, known.view.observed_seconds) == (Reason.UNKNOWN_MODEL, 0.0)
    assert known.view.window is not None
    assert known.view.window.tensor_active == 0.5
    assert known.view.window.pipes == {"hmma": 0.5}
    assert known.view.window.sm_clock_hz == 1000e6
    assert (known.view.window.utilization, known.view.window.stderr) == (None, None)
    assert 'gpus: [{name: "NVIDIA Z999", tensor_clock_hz: HZ}]' in known.view.detail


def test_nothing_of_an_unknown_model_is_credited() -> None:
    known = after(device=UNKNOWN)
    assert take_reading(known, reading(0, 5, device=UNKNOWN), INTERVAL)[1] is None


def test_an_unknown_models_impossible_values_are_refused_too() -> None:
    known = after(reading(0, 5, 7.0, device=UNKNOWN))
    assert (known.view.window, known.view.reason) == (None, Reason.IMPOSSIBLE)
    known = after(reading(0, 5, 0.5, [2619e6], device=UNKNOWN))
    assert known.view.rejected == {Rejection.CLOCK_OUT_OF_RANGE.value: 1}


@pytest.mark.parametrize("reason", [Reason.NOT_SUPPORTED, Reason.NO_TENSOR_COUNTER])
def test_a_gpu_without_tensor_pipes_says_so_whatever_its_source_says(reason: Reason) -> None:
    old = Gpu("0", "GPU-o", name="Tesla P100-PCIE-16GB")
    assert after(fault(5, reason, old)).view.reason is Reason.NO_TENSOR_PIPES


def test_a_gpu_without_tensor_pipes_has_its_clock() -> None:
    old = Gpu("0", "GPU-o", name="Tesla P100-PCIE-16GB")
    known = after(reading(0, 5, None, [1303e6], device=old))
    assert known.view.reason is Reason.NO_TENSOR_PIPES
    assert known.view.window is not None
    assert known.view.window.sm_clock_hz == 1303e6


def test_the_models_maximum_clock_judges_where_the_source_tells_none() -> None:
    """2619 MHz is an H100's memory clock; a page that gives it for the SM clock is not believed."""
    named_only = Gpu("0", "GPU-p", name="NVIDIA H100 80GB HBM3")
    known = after(reading(0, 5, tensor=0.5, hz=[2619e6], device=named_only))
    assert known.view.reason is Reason.IMPOSSIBLE
    assert known.view.rejected == {Rejection.CLOCK_OUT_OF_RANGE.value: 1}


# The numbers.


def counted(start: float, end: float) -> Reading:
    """A window of a GPU half busy at 1400 MHz since time 0, by its cycle counters; the polls are 2 % off."""
    elapsed = end * 1400e6
    return reading(start, end, 0.5, hz=[1428e6] * 10, cycles=(elapsed, elapsed / 2))


TRUSTED = [counted(5.0 * number, 5.0 * number + 5) for number in range(6)]


def method(known: GpuState) -> str:
    assert known.view.window is not None
    return known.view.window.clock_method


def test_trusted_cycle_counters_make_ofu_exact() -> None:
    """Once the counters are believed, OFU is tensor cycles / (T x f_T)."""
    known = after(*TRUSTED)
    assert known.view.window is not None
    assert method(known) == "cycles"
    assert known.view.window.utilization == pytest.approx(0.5 * 1400 / 1830)
    assert known.view.window.stderr == 0.0


def test_cycle_counters_say_nothing_of_a_window_that_does_not_follow_the_last_one() -> None:
    """What they counted in the gap before it is not of this window: the clock would read 1540 MHz."""
    known = after(*TRUSTED, counted(30.5, 35.5))
    assert known.view.window is not None
    assert known.view.window.sm_clock_hz == pytest.approx(1428e6)
    methods = [method(known)]
    for number in range(4):
        known = going_on(known, counted(35.5 + 5 * number, 40.5 + 5 * number))
        methods.append(method(known))
    assert methods == ["polled"] * 4 + ["cycles"], "trust is earned anew"
    assert known.view.rejected == {}


def test_cycle_counters_are_not_trusted_over_a_fault_though_no_time_was_lost() -> None:
    assert method(after(*TRUSTED, fault(30.0), counted(30, 35))) == "polled"


def test_nor_over_a_reading_that_was_not_believed() -> None:
    known = after(*TRUSTED, reading(28, 27))
    assert known.view.detail == "the source's time runs backwards"
    known = going_on(known, counted(30, 35))
    assert (method(known), known.view.detail) == ("polled", "")


@given(st.lists(st.tuples(st.floats(0.1, 30), st.floats(0, 1), st.floats(2e8, 1.98e9)), min_size=1))
def test_rate_of_u_over_rate_of_o_is_the_time_weighted_mean(
    windows: list[tuple[float, float, float]],
) -> None:
    known, at, tensor_cycles = after(), 0.0, 0.0
    for seconds, tensor, hz in windows:
        known = going_on(known, reading(at, at + seconds, tensor, [hz] * 3))
        at += seconds
        tensor_cycles += tensor * hz * seconds
    grains = GRAIN_SECONDS * len(windows)
    assert known.view.observed_seconds == pytest.approx(at, abs=grains)
    assert known.view.utilization_seconds == pytest.approx(tensor_cycles / 1830e6, abs=grains)


def test_the_faces_are_given_what_is_known_and_who_holds_it() -> None:
    job = Job("slurm", "1")
    tick = Tick(
        now=5.0,
        interval=INTERVAL,
        present=[gpu()],
        events=[reading(0, 5)],
        source=health(),
        owners=(Ownership(0.0, (Claim(job, ("0",)),)),),
        readers={gpu().uuid: "dcgm"},
    )
    state, snapshot = step(State(), tick)
    (shown,) = snapshot.gpus
    assert (shown.holders, shown.source) == ((job,), "dcgm")
    assert shown.window is not None
    assert shown == state.gpus[gpu().key].view._replace(holders=(job,), source="dcgm")
