"""What is kept of one process: events in order, names once, and no more than its limits."""

from __future__ import annotations

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.traces import timeline as kept
from ofu_exporter.traces.timeline import HostEvents, Names, Timeline, interval
from ofu_exporter.values.trace import UNLIMITED, TraceLimits
from tests.helpers.every import every

FEW = TraceLimits(events=3)


@every([(1, 2.5, (1.0, 3.5)), (0, 0, (0.0, 0.0)), (-1, 1, None), (1, -1, None), (1.01e17, 1, None)])
def test_an_event_has_the_times_of_a_clock_or_none(
    start: float, duration: float, times: tuple[float, float] | None
) -> None:
    assert interval(start, duration) == times
    assert interval(str(start), duration) is None
    assert interval(start, float("nan")) is None


@pytest.mark.parametrize("starts", [(1.0, 2.0, 3.0), (3.0, 1.0, 2.0), (1.0, 1.0, 1.0)])
def test_events_come_by_their_start_and_the_longer_first(starts: tuple[float, ...]) -> None:
    """An operator that begins with another one and ends after it is around it."""
    events = HostEvents()
    events.starts.extend(starts)
    events.ends.extend((4.0, 6.0, 5.0))
    order = [(events.starts[each], -events.ends[each]) for each in events.by_start()]
    assert order == sorted(order)


def test_a_name_is_held_once_and_cut_and_of_too_many_all_are_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept, "MOST_NAMES", 2)
    names = Names()
    assert [names.number(text) for text in ("a", "b" * 3000, "a", "c", "d", "a")] == [
        *(0, 1, 0, 2, 2, 0)
    ]
    assert names.texts == ["a", "b" * kept.LONGEST_NAME, kept.OTHERS]
    assert Names().number("\ud800") == 0


def test_a_step_is_known_by_its_number_and_counts_once() -> None:
    timeline = Timeline(UNLIMITED)
    for name in ("ProfilerStep#7", "ProfilerStep#7", "ProfilerStep#x", "train_step"):
        timeline.step(name, (float(len(timeline.steps)), 9.0))
    assert timeline.steps == {7: (0.0, 9.0)}


def test_too_many_events_gpus_or_threads_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "EVENTS_BETWEEN_LOOKS", 1)
    timeline = Timeline(FEW)
    timeline.did("main", "aten::mm", (0.0, 1.0))
    timeline.add_event(0, "kernel", (0.0, 1.0), (7, 1), -1.0)
    with pytest.raises(ConfigError, match="more than 3 events"):
        timeline.did("main", "cudaLaunchKernel", (0.0, 1.0), call=1)
    many = Timeline(UNLIMITED)
    for number in range(kept.MOST_THREADS):
        many.add_event(number % kept.MOST_GPUS, "kernel", (0.0, 1.0), (7, 1), -1.0)
        many.did(number, "aten::mm", (0.0, 1.0))
    with pytest.raises(ConfigError, match="more than 64 GPUs"):
        many.add_event(kept.MOST_GPUS, "kernel", (0.0, 1.0), (7, 1), -1.0)
    with pytest.raises(ConfigError, match="more than 4,096 threads"):
        many.did("one more", "aten::mm", (0.0, 1.0))
    with pytest.raises(ConfigError, match="more than -1 s of CPU time"):
        Timeline(TraceLimits(seconds=-1.0)).look()
