"""A file has its name only once it is whole."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ofu_exporter.support.whole_file import whole_file


def test_a_file_gets_its_name_at_the_end(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a") as file:
        file.write("text")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_text() == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_two_who_write_it_at_once_leave_it_whole(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a") as first:
        first.write("first ")
        with whole_file(tmp_path / "a") as second:
            second.write("second")
        assert (tmp_path / "a").read_text() == "second"
        first.write("whole")
    assert (tmp_path / "a").read_text() == "first whole"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def write_until(error: type[BaseException], path: Path) -> None:
    with whole_file(path) as file:
        file.write("new")
        raise error


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_was_there_stays_when_it_is_not_whole(
    error: type[BaseException], tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(error):
        write_until(error, tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_what_killed_writers_left_is_deleted_a_day_later(tmp_path: Path) -> None:
    code = """if True:
        import os, signal, sys
        from pathlib import Path
        from ofu_exporter.support.whole_file import whole_file
        with whole_file(Path(sys.argv[1])) as file:
            os.kill(os.getpid(), signal.SIGKILL)
    """
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=False)
    (tmp_path / "b.part").touch()
    left, fresh = (each for each in tmp_path.iterdir() if each.name != "b.part")
    now = time.time()
    for each, seconds in ((left, 90_000), (tmp_path / "b.part", 90_000), (fresh, 80_000)):
        os.utime(each, (now - seconds, now - seconds))
    with whole_file(tmp_path / "a") as file:
        file.write("text")
    assert {each.name for each in tmp_path.iterdir()} == {"a", "b.part", fresh.name}
