"""The pause file: whose counts, for how long, and what the log says of one that does not."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ofu_exporter.agent.pause_file import PauseFile

WRITTEN = 1_800_000_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pause"


def write(path: Path, text: str = "") -> None:
    path.write_text(text)
    path.chmod(0o644)
    os.utime(path, (WRITTEN, WRITTEN))


def paused(path: Path, after: float = 0.0, limit: float | None = None) -> bool:
    return PauseFile(path, limit, lambda: WRITTEN + after).paused()


def test_it_counts_while_it_is_there(path: Path) -> None:
    file = PauseFile(path, None)
    assert not file.paused()
    write(path)
    assert file.paused()
    path.unlink()
    assert not file.paused()


@pytest.mark.parametrize(
    ("text", "limit", "until"),
    [
        ("", None, None),
        ("", 60.0, 60.0),
        ("2h", None, 7200.0),
        ("2h\n", 60.0, 7200.0),
        ("for the new driver", 60.0, 60.0),
        ("for the new driver", None, None),
        ("\xff", None, None),
    ],
)
def test_how_long_it_counts(
    path: Path, text: str, limit: float | None, until: float | None
) -> None:
    write(path, text)
    assert paused(path, 0.0, limit)
    assert paused(path, -1e6, limit), "the clock was set back since"
    if until is None:
        assert paused(path, 1e9, limit)
    else:
        assert paused(path, until - 1.0, limit)
        assert not paused(path, until + 1.0, limit)


def test_one_that_cannot_be_read_counts(path: Path) -> None:
    """Whoever wrote it wants the GPUs; what was to stand in it is the smaller harm."""
    write(path, "2h")
    path.chmod(0)
    assert paused(path)


def a_link(path: Path) -> None:
    target = path.with_name("target")
    write(target)
    path.symlink_to(target)


def writable(path: Path, mode: int) -> None:
    write(path)
    path.chmod(mode)


def foreign(path: Path) -> None:
    write(path)
    os.chown(path, 12345, 12345)


@pytest.mark.parametrize(
    "make",
    [
        a_link,
        Path.mkdir,
        os.mkfifo,
        lambda path: writable(path, 0o666),
        lambda path: writable(path, 0o664),
        pytest.param(foreign, marks=pytest.mark.skipif(os.geteuid() != 0, reason="not root")),
    ],
)
def test_what_others_could_have_put_there_does_not_count_and_is_logged_once(
    path: Path, make: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    make(path)
    file = PauseFile(path, None)
    assert [file.paused() for _ in range(3)] == [False] * 3
    (message,) = caplog.messages
    assert message.removeprefix(f"the pause file {path} ") in (
        "is ignored: it is not a file of root or of the agent's own user",
        "is ignored: other users may write it",
    )


def test_each_file_of_a_pauser_counts_and_is_named_in_the_log(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that was forgotten can be found."""
    write(path.with_name("pause.mig"))
    caplog.set_level(logging.INFO)
    file = PauseFile(path, None)
    assert [file.paused() for _ in range(3)] == [True] * 3
    assert caplog.messages == [f"the pause file {path}.mig counts"]


@pytest.mark.parametrize(
    "name", ["pause.alice~", "pause.~1~", "pause.a.swp", "pause.", "pause.a b"]
)
def test_what_an_editor_leaves_does_not_count_and_is_logged_once(
    path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No `pause --by` writes it, and no `resume` would remove it."""
    write(path.with_name(name))
    file = PauseFile(path, None)
    assert [file.paused() for _ in range(3)] == [False] * 3
    assert caplog.messages == [
        f"the pause file {path.with_name(name)} is ignored: `pause --by` takes no such name"
    ]


@pytest.mark.parametrize("name", [".pause.a.swp", "#pause.a#", "pause~", "pausex"])
def test_other_files_of_the_folder_are_none_of_the_agents(
    path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(path.with_name(name))
    assert not paused(path)
    assert not caplog.records


def test_a_path_that_cannot_be_looked_at_is_no_pause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    assert not PauseFile(tmp_path / "file" / "pause", None).paused()
    assert "status cannot be read" in caplog.text
