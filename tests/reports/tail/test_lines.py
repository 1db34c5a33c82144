"""Lines of files that grow, rotate, are truncated or come later, and of pipes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.reports.tail import lines
from ofu_exporter.reports.tail.lines import LogFile, LogLine, Pipe


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "train.log"


def append(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def texts(source: LogFile | Pipe) -> list[str]:
    return [line.text for line in source.read()]


def test_only_what_is_written_later_is_read(log: Path) -> None:
    append(log, "old\n")
    source = LogFile(log, from_start=False)
    assert texts(source) == []
    append(log, "one\ntwo\n")
    assert list(source.read()) == [LogLine("one", True), LogLine("two", True)]
    assert texts(source) == []


def test_old_lines_are_told_from_new_ones(log: Path) -> None:
    append(log, "old\nhalf")
    source = LogFile(log, from_start=True)
    append(log, " and new\nnew\n")
    assert list(source.read()) == [
        LogLine("old", False),
        LogLine("half and new", True),
        LogLine("new", True),
    ]


def test_a_line_that_is_half_written_at_the_start_is_read_whole(log: Path) -> None:
    append(log, "old\nhal")
    source = LogFile(log, from_start=False)
    append(log, "f\n")
    assert texts(source) == ["half"]


def test_half_a_line_waits_for_its_other_half(log: Path) -> None:
    append(log, "")
    source = LogFile(log, from_start=False)
    for piece in ("a", "b", "c\nd"):
        append(log, piece)
        found = texts(source)
    assert found == ["abc"]
    assert [line.text for line in source.rest()] == ["d"]


def test_a_file_that_comes_later_is_read_from_its_start(log: Path) -> None:
    source = LogFile(log, from_start=False)
    assert not source.is_there
    assert texts(source) == []
    append(log, "first\n")
    assert list(source.read()) == [LogLine("first", True)]


def test_a_rotated_file_is_read_to_its_end_and_the_new_one_from_its_start(log: Path) -> None:
    append(log, "")
    source = LogFile(log, from_start=False)
    append(log, "one\n")
    assert texts(source) == ["one"]
    append(log, "last\nno end")
    log.rename(log.with_suffix(".1"))
    assert texts(source) == ["last"], "the name is gone for a moment"
    append(log, "new\n")
    assert texts(source) == ["no end", "new"]


def test_a_copy_under_the_same_name_has_nothing_new(log: Path) -> None:
    append(log, "one\n" * 1000)
    source = LogFile(log, from_start=True)
    assert len(texts(source)) == 1000
    copy = log.with_suffix(".copy")
    append(copy, "one\n" * 1000 + "two\n")
    copy.rename(log)
    again = list(source.read())
    assert again[-1] == LogLine("two", False)
    assert not any(line.is_new for line in again)
    append(log, "three\n")
    assert list(source.read()) == [LogLine("three", True)]


def test_a_truncated_file_begins_anew(log: Path) -> None:
    append(log, "a long line that was there\nhalf")
    source = LogFile(log, from_start=True)
    assert texts(source) == ["a long line that was there"]
    os.truncate(log, 0)
    append(log, "new\n")
    assert list(source.read()) == [LogLine("new", True)], "and the half line is no one's"


def test_bytes_that_are_no_text_cost_only_themselves(log: Path) -> None:
    append(log, b"")
    source = LogFile(log, from_start=False)
    append(log, b"\xff\xfe\x00\ngood\n")
    assert texts(source)[1] == "good"


def test_a_line_without_end_needs_no_memory(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE_BYTES", 100)
    append(log, "")
    source = LogFile(log, from_start=False)
    for _ in range(10):
        append(log, "x" * 50)
        assert texts(source) == []
    append(log, "x\nshort\n")
    assert texts(source) == ["short"]
    assert source.dropped == 1


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it is a directory"):
        LogFile(tmp_path, from_start=False)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def test_a_pipe_ends_with_its_writer(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    source = Pipe(reading, is_new=True)
    assert texts(source) == [], "nothing is waited for"
    os.write(writing, b"one\ntw")
    assert list(source.read()) == [LogLine("one", True)]
    assert not source.ended
    os.write(writing, b"o\nthree")
    os.close(writing)
    assert texts(source) == ["two"]
    assert source.ended
    assert [line.text for line in source.rest()] == ["three"]
