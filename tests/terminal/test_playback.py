"""A recording: at its own pace, still, and window by window in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import SourceError
from ofu_exporter.recordings.recording import RecordingHeader, RecordingWriter
from ofu_exporter.serving.node_json import NodeJson
from ofu_exporter.terminal.playback import MOST_FRAMES, Playback
from ofu_exporter.terminal.scene import ofu_of
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason
from tests.helpers.desk import CLOCK
from tests.helpers.playback import RECORDINGS, play
from tests.helpers.values import FakeClock, fault, gpu, reading

FIRST, LAST = 0, 4


def recorded(
    path: Path, *events: Reading | Fault, created: str = "2026-01-01T00:00:00+00:00"
) -> Path:
    writer = RecordingWriter(path, RecordingHeader("nvml", False, created, interval=5.0), 0.0)
    writer.write(events)
    writer.close()
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Five windows of two GPUs, whose activity grows; the second is lost in the last one."""
    events: list[Reading | Fault] = []
    for number in range(5):
        start = 5.0 * number
        events.append(reading(start, start + 5, 0.1 * (number + 1), device=gpu(0)))
        late = start + 5.05
        if number < LAST:
            events.append(reading(start + 0.05, late, 0.5, device=gpu(1)))
        else:
            events.append(fault(late, Reason.LOST, gpu(1)))
    return recorded(tmp_path / "r.gz", *events)


def started(file: Path) -> tuple[Playback, FakeClock]:
    clock = FakeClock(0.0)
    played = Playback(file, clock)
    played.start()
    return played, clock


def node(played: Playback) -> NodeJson:
    (answer,) = played.scene().answers
    assert answer.node is not None
    return answer.node


def activity(played: Playback) -> float:
    """The first GPU's activity, which tells the window."""
    ofu = ofu_of(node(played).gpus[0])
    assert ofu is not None
    return ofu / CLOCK


def test_it_goes_at_the_pace_at_which_it_was_made(file: Path) -> None:
    played, clock = started(file)
    assert activity(played) == pytest.approx(0.1)
    clock.now = 4.9
    assert activity(played) == pytest.approx(0.1)
    clock.now = 5.1
    assert activity(played) == pytest.approx(0.2)
    clock.now = 1000.0
    assert activity(played) == pytest.approx(0.5)
    assert played.scene().origin == "a recording, at 25 s, its end"


def test_every_gpu_of_a_window_is_in_it(file: Path) -> None:
    played, _ = started(file)
    assert [ofu_of(each) is None for each in node(played).gpus] == [False, False]
    played.complete(10.0)
    assert [each.unavailable for each in node(played).gpus] == [None, "lost"]


def test_it_stands_still_and_goes_on(file: Path) -> None:
    played, clock = started(file)
    played.pause()
    clock.now = 100.0
    assert activity(played) == pytest.approx(0.1)
    assert played.scene().paused
    played.pause()
    assert activity(played) == pytest.approx(0.1), "the pause is no time of the recording"
    clock.now = 105.1
    assert activity(played) == pytest.approx(0.2)


def test_it_goes_by_single_windows_in_both_directions(file: Path) -> None:
    played, clock = started(file)
    seen = []
    for windows in (1, 1, -1, -1, -1, 1, 1, 1, 1, 1):
        played.step(windows)
        seen.append(round(10 * activity(played)))
    assert seen == [2, 3, 2, 1, 1, 2, 3, 4, 5, 5]
    assert played.scene().paused
    for _ in range(3):
        played.step(-1)
    played.pause()
    clock.now += 5.1
    assert round(10 * activity(played)) == 3, "it goes on from where it stood"
    clock.now += 100
    assert round(10 * activity(played)) == 5


def test_its_end_is_what_the_tick_makes_of_it() -> None:
    path = RECORDINGS / "simulated-8gpu.jsonl.gz"
    played, _ = started(path)
    played.complete(60.0)
    wanted = {view.gpu.uuid: view for view in play(path).gpus}
    found = node(played).gpus
    assert len(found) == 8
    for each in found:
        view = wanted[each.uuid]
        assert each.observed_seconds == pytest.approx(view.observed_seconds)
        assert each.utilization_seconds == pytest.approx(view.utilization_seconds)


def test_steps_back_are_bounded(tmp_path: Path) -> None:
    events = [reading(5.0 * n, 5.0 * n + 5) for n in range(MOST_FRAMES + 50)]
    played, _ = started(recorded(tmp_path / "long.gz", *events))
    played.complete(60.0)
    for _ in range(MOST_FRAMES + 10):
        played.step(-1)
    assert played.scene().origin == "a recording, at 255 s"
    assert len(played._kept) == MOST_FRAMES


def test_a_recording_without_a_date_has_no_time_of_day(tmp_path: Path) -> None:
    played, _ = started(recorded(tmp_path / "r.gz", reading(), created="yesterday"))
    assert node(played).unix is None


def test_an_empty_recording_says_so(tmp_path: Path) -> None:
    played, _ = started(recorded(tmp_path / "r.gz"))
    assert played.scene().missing[0].problem == "has no reading"
    played.step(1)
    played.step(-1)
    assert played.complete(1.0).nodes == []


def test_another_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no recording")
    with pytest.raises(SourceError, match="not a recording"):
        Playback(tmp_path / "x")


def test_a_file_that_was_cut_is_played_up_to_the_cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])
    played, _ = started(file)
    played.complete(10.0)
    assert len(node(played).gpus) == 2
