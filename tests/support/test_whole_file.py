"""A file has its name only once it is whole."""

from __future__ import annotations

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
