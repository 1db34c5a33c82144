"""Lines of files that grow, rotate, are truncated or come later, and of pipes."""

from __future__ import annotations

import os
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.reports.tail import lines
from ofu_exporter.reports.tail.lines import LogFile, Pipe, TailLine


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
    assert list(source.read()) == [TailLine("one", True), TailLine("two", True)]
    assert texts(source) == []


def test_old_lines_are_told_from_new_ones(log: Path) -> None:
    append(log, "old\nhalf")
    source = LogFile(log, from_start=True)
    append(log, " and new\nnew\n")
    assert list(source.read()) == [
        TailLine("old", False),
        TailLine("half and new", True),
        TailLine("new", True),
    ]


def test_a_last_line_without_an_end_is_as_old_as_the_file(log: Path) -> None:
    append(log, "old\nhalf")
    source = LogFile(log, from_start=True)
    assert list(source.read()) == [TailLine("old", False)]
    assert list(source.take_rest()) == [TailLine("half", False)]
    assert list(source.take_rest()) == [], "and is given once"


@pytest.mark.parametrize("old", ["old1\nold2\n", "old1\nold\n"])
def test_however_it_is_read_no_piece_has_both_old_and_new_lines(
    log: Path, old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "PIECE_BYTES", 4)
    append(log, old)
    source = LogFile(log, from_start=True)
    append(log, "new\n")
    assert [line.is_new for line in source.read()] == [False, False, True]


def test_a_line_that_is_half_written_at_the_start_is_read_whole(log: Path) -> None:
    append(log, "older\nold\nhal")
    source = LogFile(log, from_start=False)
    append(log, "f\n")
    assert texts(source) == ["half"]


@pytest.mark.parametrize("old", ["a longer line\nhal", "long\nhal"])
def test_of_a_large_file_only_the_end_is_searched_for_the_last_line(
    log: Path, old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE_BYTES", 4)
    append(log, old)
    source = LogFile(log, from_start=False)
    append(log, "f\n")
    assert texts(source) == ["half"]


def test_a_last_line_that_is_too_long_is_not_searched_for_its_begin(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE_BYTES", 4)
    append(log, "old\n" + "x" * 50)
    source = LogFile(log, from_start=False)
    append(log, "y\nnew\n")
    assert texts(source) == ["y", "new"]


def test_half_a_line_waits_for_its_other_half(log: Path) -> None:
    append(log, "")
    source = LogFile(log, from_start=False)
    for piece in ("a", "b", "c\nd"):
        append(log, piece)
        found = texts(source)
    assert found == ["abc"]
    assert [line.text for line in source.take_rest()] == ["d"]


def test_a_file_that_comes_later_is_read_from_its_start(log: Path) -> None:
    source = LogFile(log, from_start=False)
    assert not source.is_there
    assert texts(source) == []
    append(log, "\nfirst\n")
    assert list(source.read()) == [TailLine("", True), TailLine("first", True)]
    assert source.is_there


def test_a_rotated_file_is_read_to_its_end_and_the_new_one_from_its_start(log: Path) -> None:
    append(log, "")
    source = LogFile(log, from_start=False)
    append(log, "one\n")
    assert texts(source) == ["one"]
    append(log, "last\nno end")
    log.rename(log.with_suffix(".1"))
    assert texts(source) == ["last"], "the name is gone for a moment"
    append(log, "new\n")
    assert list(source.read()) == [TailLine("no end", True), TailLine("new", True)]


def test_a_new_file_is_one_though_it_looks_nearly_like_the_old_one(log: Path) -> None:
    append(log, "1 begins\n")
    source = LogFile(log, from_start=True)
    assert list(source.read()) == [TailLine("1 begins", False)]
    log.unlink()
    append(log, "2 begins\n")
    assert list(source.read()) == [TailLine("2 begins", True)]


def test_a_copy_under_the_same_name_has_nothing_new(log: Path) -> None:
    append(log, "one\n" * 1000)
    source = LogFile(log, from_start=True)
    assert len(texts(source)) == 1000
    copy = log.with_suffix(".copy")
    append(copy, "one\n" * 1000 + "two\n")
    copy.rename(log)
    again = list(source.read())
    assert again[-1] == TailLine("two", False)
    assert not any(line.is_new for line in again)
    append(log, "three\n")
    assert list(source.read()) == [TailLine("three", True)]


def test_a_truncated_file_begins_anew(log: Path) -> None:
    append(log, "a long line that was there\nhalf")
    source = LogFile(log, from_start=True)
    assert texts(source) == ["a long line that was there"]
    os.truncate(log, 0)
    append(log, "\nnew\n")
    assert list(source.read()) == [TailLine("", True), TailLine("new", True)], (
        "and the half line is no one's"
    )


def test_a_file_that_is_written_again_and_longer_begins_anew(log: Path) -> None:
    """As Lightning writes metrics.csv, in place, when a metric comes that its header lacks."""
    append(log, "epoch,step\n0,1\n")
    source = LogFile(log, from_start=True)
    assert texts(source) == ["epoch,step", "0,1"]
    log.write_text("epoch,step,val_loss\n0,1,\n")
    append(log, "0,2,1.5\n")
    assert texts(source) == ["epoch,step,val_loss", "0,1,", "0,2,1.5"]
    append(log, "0,3,")
    assert texts(source) == []


def test_the_header_of_a_table_is_read_though_its_rows_are_old(tmp_path: Path) -> None:
    table = tmp_path / "metrics.csv"
    append(table, "epoch,step\n0,1\n0,2\n")
    source = LogFile(table, from_start=False)
    assert list(source.read()) == [TailLine("epoch,step", False)]
    append(table, "0,3\n")
    assert list(source.read()) == [TailLine("0,3", True)]
    (tmp_path / "empty.csv").touch()
    assert texts(LogFile(tmp_path / "empty.csv", from_start=False)) == []


def test_bytes_that_are_no_text_cost_only_themselves(log: Path) -> None:
    append(log, b"")
    source = LogFile(log, from_start=False)
    append(log, b"\xff\xfe\x00\ngood\n\xff")
    assert texts(source) == ["\ufffd\ufffd\x00", "good"]
    assert list(source.take_rest()) == [TailLine("\ufffd", True)]


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
    append(log, "ha")
    assert texts(source) == []
    append(log, "lf\n" + "x" * 101)
    assert texts(source) == ["half"], "what follows a line that was dropped is read as ever"
    append(log, "\n" + "x" * 100)
    assert (texts(source), source.dropped) == ([], 2)
    append(log, "\n")
    assert texts(source) == ["x" * 100], "the longest line that is one"


def test_however_long_a_line_is_it_is_not_kept(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE_BYTES", 100)
    log.write_bytes(b"x" * (8 << 20))
    source = LogFile(log, from_start=True)
    tracemalloc.start()
    assert texts(source) == []
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2 << 20


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"cannot read {tmp_path}: it is not a file"):
        LogFile(tmp_path, from_start=False)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigError, match=r"cannot read .*/loop: Too many levels of symbolic"):
        LogFile(tmp_path / "loop", from_start=False)
    unreadable = LogFile(Path("/proc/self/mem"), from_start=True)  # nothing is mapped at 0
    with pytest.raises(ConfigError, match="cannot read /proc/self/mem: Input/output error"):
        texts(unreadable)
    unreadable.close()


def test_a_closed_file_has_nothing_more(log: Path) -> None:
    append(log, "one\nhalf")
    source = LogFile(log, from_start=True)
    source.wait(0.0)
    assert texts(source) == ["one"]
    source.close()
    assert not source.is_there
    assert list(source.take_rest()) == []


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
    assert list(source.read()) == [TailLine("one", True)]
    assert not source.ended
    os.write(writing, b"o\nthree")
    os.close(writing)
    assert texts(source) == ["two"]
    assert source.ended
    assert list(source.take_rest()) == [TailLine("three", True)]


def test_a_line_of_a_pipe_may_be_too_long_too(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE_BYTES", 10)
    reading, writing = pipe
    source = Pipe(reading, is_new=True)
    os.write(writing, b"x" * 50)
    assert (texts(source), source.dropped) == ([], 1)
    os.close(writing)


def test_a_pipe_is_waited_for_no_longer_than_something_is_there(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    source = Pipe(reading, is_new=False)
    source.wait(0.0)
    assert texts(source) == []
    writer = threading.Timer(0.1, os.write, (writing, b"one\n"))
    writer.start()
    source.wait(3600.0)
    assert list(source.read()) == [TailLine("one", False)]
    writer.join()
    os.close(writing)
