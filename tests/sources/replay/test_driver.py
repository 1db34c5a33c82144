"""What a replay promises: the recorded values, at the pace and in the order they were recorded."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ofu_exporter import recordings
from ofu_exporter.errors import GpuError, SourceError
from ofu_exporter.recordings import recording
from ofu_exporter.sources.replay import driver
from ofu_exporter.values.reading import ActivitySample, ClockSample, Fault, Reading
from ofu_exporter.values.reasons import Reason
from tests.helpers.node import snapshot_of
from tests.helpers.values import FakeClock, fault, gpu, reading

EPOCH = 500.0
"""When the recording was made, on the clock of then."""
START = 1000.0
"""When it is replayed, on the clock of now."""

Event = Reading | Fault


class Player:
    """A replay and its clock."""

    def __init__(self, path: Path, loop: bool = False) -> None:
        self.clock = FakeClock(START)
        self.source = driver.Source(driver.Options(path=path, loop=loop), self.clock)
        (self.probe,) = self.source.open()

    def read(self, after: float = 0.0) -> Sequence[Event]:
        self.clock.now += after
        return self.probe.read()

    def ends(self) -> Reason:
        with pytest.raises(GpuError) as caught:
            self.probe.read()
        return caught.value.reason


def write(path: Path, events: Sequence[Event], simulated: bool = False) -> Path:
    header = recording.RecordingHeader("nvml", simulated, "2025-01-01T00:00:00+00:00")
    writer = recording.RecordingWriter(path, header, EPOCH)
    for event in events:
        writer.write([event])
    writer.close()
    return path


def window(number: int, **more: object) -> Reading:
    """The window of 5 s with that number since the recording began."""
    return reading(EPOCH + 5.0 * number, EPOCH + 5.0 * (number + 1), tensor=number / 10)


@pytest.fixture
def three(tmp_path: Path) -> Path:
    return write(tmp_path / "three.jsonl.gz", [window(0), window(1), window(2)])


def tensors(events: Sequence[Event]) -> list[float | None]:
    return [event.tensor_active for event in events if isinstance(event, Reading)]


def test_a_reading_comes_when_its_window_ends(three: Path) -> None:
    player = Player(three)
    assert tensors(player.read(after=4.9)) == []
    assert tensors(player.read(after=0.1)) == [0.0]
    assert tensors(player.read(after=4.9)) == []
    assert tensors(player.read(after=0.1)) == [0.1]


def test_a_window_of_samples_has_the_ofu_that_it_had(tmp_path: Path) -> None:
    """As a host engine of DCGM gives them, each with the clock of its own time."""
    halves = (
        ActivitySample(EPOCH, EPOCH + 2, 0.2, {"hmma": 0.2}),
        ActivitySample(EPOCH + 2, EPOCH + 4, 0.8, {"hmma": 0.8}),
    )
    clocks = (ClockSample(EPOCH + 1, 915e6), ClockSample(EPOCH + 3, 1830e6))
    recorded = replace(reading(EPOCH, EPOCH + 4, 0.5), clocks=clocks, samples=halves)
    (replayed,) = Player(write(tmp_path / "dcgm.jsonl.gz", [recorded])).read(after=4.0)
    assert isinstance(replayed, Reading)
    for each in (recorded, replayed):
        window = snapshot_of(each).gpus[0].window
        assert window is not None
        assert window.utilization == pytest.approx((0.2 * 0.5 + 0.8) / 2)


def test_what_was_not_fetched_in_time_comes_together_and_in_order(three: Path) -> None:
    assert tensors(Player(three).read(after=60.0)) == [0.0, 0.1, 0.2]


def test_replayed_values_are_the_recorded_ones(tmp_path: Path) -> None:
    device = gpu(3, instance="2")
    made = reading(
        START,
        START + 5,
        0.625,
        hz=[1.3e9, 1.4e9],
        device=device,
        pipes={"hmma": 0.5, "imma": 0.125},
        cycles=(1e12, 5e11),
    )
    path = tmp_path / "r.jsonl.gz"
    header = recording.RecordingHeader("nvml", False, "")
    writer = recording.RecordingWriter(path, header, epoch=START)
    writer.write([made])
    writer.close()
    assert list(Player(path).read(after=5.0)) == [made]


def test_times_are_moved_to_the_clock_of_now(three: Path) -> None:
    (event,) = Player(three).read(after=5.0)
    assert isinstance(event, Reading)
    assert (event.start, event.end) == (START, START + 5.0)
    assert all(event.start < sample.at <= event.end for sample in event.clocks)


def test_faults_are_replayed_too(tmp_path: Path) -> None:
    path = write(tmp_path / "r", [window(0), fault(EPOCH + 7.0, Reason.LOST)])
    player = Player(path)
    player.read(after=5.0)
    assert list(player.read(after=2.0)) == [fault(START + 7.0, Reason.LOST)]


def test_gpus_are_in_the_order_of_the_node_however_they_were_recorded(tmp_path: Path) -> None:
    named = [replace(gpu(9), index=name, uuid=name) for name in "ba"]
    order = [gpu(10), gpu(2, instance="11"), *named, gpu(2, instance="2"), gpu(0)]
    events = [reading(EPOCH, EPOCH + 5, device=device) for device in order]
    player = Player(write(tmp_path / "r", events))
    player.read(after=5.0)
    names = [(found.index, found.instance) for found in player.probe.gpus()]
    assert names == [("0", ""), ("2", "2"), ("2", "11"), ("10", ""), ("a", ""), ("b", "")]


def test_gpus_are_known_once_they_were_read(tmp_path: Path) -> None:
    later = reading(EPOCH + 5, EPOCH + 10, device=gpu(1))
    player = Player(write(tmp_path / "r", [window(0), later]))
    player.read(after=5.0)
    assert [found.index for found in player.probe.gpus()] == ["0"]
    player.read(after=5.0)
    assert [found.index for found in player.probe.gpus()] == ["0", "1"]


def test_the_end_of_a_recording_is_a_reason(three: Path) -> None:
    player = Player(three)
    player.read(after=15.0)
    assert [player.ends(), player.ends()] == [Reason.RECORDING_ENDED] * 2


def test_an_empty_recording_ends_at_once_looped_or_not(tmp_path: Path) -> None:
    path = write(tmp_path / "r", [])
    assert Player(path).ends() is Reason.RECORDING_ENDED
    assert Player(path, loop=True).ends() is Reason.RECORDING_ENDED


def test_a_loop_goes_on_where_the_recording_ended(three: Path) -> None:
    player = Player(three, loop=True)
    taken: list[Event] = []
    for _ in range(100):
        taken += player.read(after=1.0)
    played = [event for event in taken if isinstance(event, Reading)]
    assert tensors(played)[:7] == [0.0, 0.1, 0.2, 0.0, 0.1, 0.2, 0.0]
    assert [r.end for r in played] == [START + 5.0 * (i + 1) for i in range(20)]
    assert all(a.end == b.start for a, b in itertools.pairwise(played))


def test_a_recording_that_is_gone_when_its_loop_begins_again_is_a_reason(three: Path) -> None:
    """A probe says what is wrong with a GpuError, as every probe does."""
    player = Player(three, loop=True)
    player.read(after=15.0)
    three.unlink()
    assert player.ends() is Reason.BAD_RECORDING


@pytest.mark.parametrize("simulated", [True, False])
def test_a_recording_of_a_simulation_stays_simulated(tmp_path: Path, simulated: bool) -> None:
    assert Player(write(tmp_path / "r", [window(0)], simulated)).source.simulated is simulated


def test_a_replay_says_of_which_day_it_is(three: Path) -> None:
    assert Player(three).source.recorded == "2025-01-01"


def test_a_file_that_is_no_recording_is_said_when_opened(tmp_path: Path) -> None:
    path = tmp_path / "other"
    for make in (lambda: None, lambda: path.write_text("other"), path.unlink, path.mkdir):
        make()
        with pytest.raises(SourceError) as caught:
            Player(path)
        assert caught.value.reason is Reason.BAD_RECORDING
        assert str(path) in str(caught.value)


def test_lines_that_cannot_be_read_are_counted(three: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.jsonl"
    header = '{"format":"ofu-recording","version":1,"source":"x","simulated":false,"created":""}'
    plain.write_text(f"{header}\nnonsense\n{{}}\n")
    player = Player(plain)
    assert player.source.rejected == {}
    assert player.ends() is Reason.RECORDING_ENDED
    assert player.source.rejected == {"damaged_line": 2}


def test_nothing_is_rejected_of_a_whole_recording(three: Path) -> None:
    player = Player(three)
    player.read(after=15.0)
    assert player.source.rejected == {}


# --- the recording's own clock ---------------------------------------------------------------------


def anew(player: Player, path: Path, loop: bool) -> driver.Probe:
    """The probe after a pause, in which the source was closed."""
    source = driver.Source(driver.Options(path=path, loop=loop), player.clock)
    (probe,) = source.open()
    return probe


@pytest.mark.parametrize("loop", [True, False])
def test_a_recording_goes_on_in_a_pause_and_what_nobody_read_is_left_out(
    tmp_path: Path, loop: bool
) -> None:
    path = write(tmp_path / "recording", [window(number) for number in range(6)])
    player = Player(path, loop)
    assert [event.gpu for event in player.read(after=7.0)] == [gpu(0)]
    player.clock.now = START + 11.0
    probe = anew(player, path, loop)
    assert probe.read() == []
    player.clock.now = START + 20.0
    (event,) = probe.read()
    assert isinstance(event, Reading)
    assert (event.start, event.tensor_active) == (START + 15.0, 0.3), "the third was begun already"


def test_in_a_loop_a_pause_may_last_for_rounds(tmp_path: Path) -> None:
    path = write(tmp_path / "recording", [window(number) for number in range(4)])
    player = Player(path, loop=True)
    player.clock.now = START + 3 * 20.0 + 4.0
    probe = anew(player, path, loop=True)
    player.clock.now = START + 4 * 20.0 + 6.0
    events = [event for _ in range(3) for event in probe.read() if isinstance(event, Reading)]
    assert [event.start - START for event in events] == [65.0, 70.0, 75.0, 80.0]
    assert [event.tensor_active for event in events] == [0.1, 0.2, 0.3, 0.0]


def test_a_source_that_opens_late_is_where_the_recording_is(tmp_path: Path) -> None:
    """Whoever asked first began it: the scheduler, before the source was open."""
    path = write(tmp_path / "recording", [window(number) for number in range(4)])
    clock = FakeClock(START)
    assert recordings.began(path, clock) == START
    clock.now += 0.4
    (probe,) = driver.Source(driver.Options(path=path), clock).open()
    clock.now = START + 10.0
    (event,) = probe.read()
    assert isinstance(event, Reading)
    assert event.start == START + 5.0
