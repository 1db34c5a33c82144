"""What went out is noted in a way that survives being cut off anywhere."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.digest.sent_file import SentFile, SentKey

WEEK = 7 * 86400.0
END = 1767571200.0
ADA = SentKey("user", "mail", "ada", "ada@example.org")
EVE = SentKey("user", "mail", "eve\r\n\x00", "eve@example.org")


def opened(path: Path, end: float = END) -> SentFile:
    return SentFile(path, end, WEEK / 2)


def note(path: Path, *states: str, key: SentKey = ADA, end: float = END) -> None:
    notes = opened(path, end)
    for state in states:
        notes.note(key, state)  # type: ignore[arg-type]
    notes.close()


def state(path: Path, key: SentKey = ADA, end: float = END) -> str | None:
    notes = opened(path, end)
    try:
        return notes.state(key)
    finally:
        notes.close()


def test_a_note_is_there_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "sent"
    assert state(path) is None
    note(path, "begun", "sent")
    note(path, "begun", key=EVE)
    assert (state(path), state(path, EVE)) == ("sent", "begun")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "other",
    [
        ADA._replace(by="account"),
        ADA._replace(via="webhook"),
        ADA._replace(name="Ada"),
        ADA._replace(to="b@x.org"),
    ],
)
def test_another_name_way_or_address_is_another_note(other: SentKey, tmp_path: Path) -> None:
    note(tmp_path / "sent", "begun", "sent")
    assert state(tmp_path / "sent", other) is None


@pytest.mark.parametrize(
    ("later", "found"), [(0.0, "sent"), (7200.0, "sent"), (-7200.0, "sent"), (WEEK, None)]
)
def test_a_run_that_is_repeated_soon_is_the_same_and_the_next_week_is_not(
    later: float, found: str | None, tmp_path: Path
) -> None:
    note(tmp_path / "sent", "begun", "sent")
    assert state(tmp_path / "sent", end=END + later) == found


@settings(max_examples=25)
@given(cut=st.integers(0, 400))
def test_cut_off_anywhere_it_never_says_that_nothing_was_begun_once_it_was(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cut") / "sent"
    note(path, "begun")
    begun = path.stat().st_size
    note(path, "sent")
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    wanted = None if cut < begun else "begun" if cut < len(whole) else "sent"
    assert state(path) == wanted
    note(path, "begun", key=EVE)
    assert (state(path), state(path, EVE)) == (wanted, "begun")


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    first = opened(tmp_path / "sent")
    with pytest.raises(ConfigError, match="another run is sending now"):
        opened(tmp_path / "sent")
    first.close()
    opened(tmp_path / "sent").close()


@pytest.mark.parametrize(
    "line", ["hello", "[]", "{}", json.dumps({**ADA._asdict(), "end": END, "state": "perhaps"})]
)
def test_a_file_of_something_else_is_refused_with_its_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "sent"
    note(path, "begun")
    with path.open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(ConfigError, match="line 2: is not a note"):
        opened(path)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--sent: .*: Is a directory"):
        opened(tmp_path)


def test_what_is_no_file_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not a file"):
        opened(Path("/dev/full"))


def test_without_room_for_a_note_it_stops_and_the_file_can_be_used_again(tmp_path: Path) -> None:
    path = tmp_path / "sent"
    note(path, "begun", "sent")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    notes = opened(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, hard))
    try:
        with pytest.raises(ConfigError, match=r"--sent: .*(no more room|too large)"):
            notes.note(EVE, "begun")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        notes.close()
    assert (state(path), state(path, EVE)) == ("sent", None)
