"""Reads the lines of a log that another program writes. The log grows, and may be rotated, truncated or not exist yet.

Only whole lines are returned. Lines that a file held when it was opened are old, later ones are new. They are kept
apart, because only for a new line is it known when it was written.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import ConfigError

PIECE_BYTES = 1 << 20
BEGINNING_BYTES = 1 << 10
"""Two files with the same first bytes, up to this number, count as one log."""
HEADER_BYTES = 1 << 14
"""A file in which one of the first bytes, up to this number, has changed is written again: the header of a CSV."""
LONGEST_LINE_BYTES = 1 << 20
"""A longer line is dropped, because it is no statement and a file without line ends must not fill the memory."""


class TailLine(NamedTuple):
    """One line without its end."""

    text: str
    is_new: bool
    """Whether the line was written while the log was followed, so about now."""


class _Splitter:
    """Makes whole lines from pieces of bytes."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_too_long = False
        self.dropped = 0

    def split(self, piece: bytes) -> list[str]:
        """The lines that a piece ends; a progress bar ends its own with a carriage return."""
        *whole, rest = (self._rest + piece.replace(b"\r", b"\n")).split(b"\n")
        if whole and self._is_too_long:
            whole.pop(0)
            self._is_too_long = False
        if len(rest) > LONGEST_LINE_BYTES:
            self.dropped += not self._is_too_long
            self._is_too_long = True
        self._rest = b"" if self._is_too_long else rest
        return [line.decode("utf-8", "replace") for line in whole]

    def take_rest(self) -> list[str]:
        """The last line if it has no end; the next text then begins a new line."""
        rest, self._rest, self._is_too_long = self._rest, b"", False
        return [rest.decode("utf-8", "replace")] if rest else []


class LogFile:
    """A file by its name. It may be missing at any time; a file that appears later is read from its start."""

    ended = False
    """A file never ends: more may always be written."""
    ends_here = True
    """What the file holds now has an end."""

    def __init__(self, path: Path, from_start: bool) -> None:
        self._path = path
        self._file: int | None = None
        self._old_until = 0
        self._read_beginning = b""
        self._is_table = path.suffix == ".csv"
        self._rows = 0
        """Lines of a table before the place where it is read."""
        self._header: list[str] = []
        """The first line of a table of which only what comes later is read."""
        self._splitter = _Splitter()
        self._open()
        if self._file is not None:
            size = self._size(self._file)
            self._old_until = size if from_start else self._line_start(self._file, size)
            if self._is_table and not from_start:
                self._header = self._first_line()
                self._pass_over_old(self._file)
            os.lseek(self._file, 0 if from_start else self._old_until, os.SEEK_SET)

    @property
    def is_there(self) -> bool:
        return self._file is not None

    @property
    def dropped(self) -> int:
        return self._splitter.dropped

    def wait(self, seconds: float) -> None:
        """Wait for the file to grow."""
        time.sleep(seconds)

    def read(self) -> Iterator[TailLine]:
        """Every whole line since the last call. Raises ConfigError when the log can't be read."""
        header, self._header = self._header, []
        yield from (TailLine(line, False) for line in header)
        yield from self._written_again()
        yield from self._grown()
        if self._is_replaced():
            yield from self._grown()  # lines that were written to the old file until now
            yield from self._lines(self._splitter.take_rest())
            before = self._beginning()
            self.close()
            self._open()
            if before and self._file is not None and self._beginning() == before:
                self._old_until = self._size(self._file)  # a copy, as editors and `sed -i` make
            yield from self._grown()

    def take_rest(self) -> Iterator[TailLine]:
        """The last line, where it has no end."""
        yield from self._lines(self._splitter.take_rest())

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file, self._old_until, self._read_beginning, self._rows = None, 0, b"", 0

    def _written_again(self) -> Iterator[TailLine]:
        """Go back to the start of a file that is written again.

        Of a table that is longer now, with another header, the rows that were read are passed over but for the last,
        which says that it is the same table.
        """
        if self._file is None:
            return
        at, rows = os.lseek(self._file, 0, os.SEEK_CUR), self._rows
        beginning = self._beginning(HEADER_BYTES)
        is_longer = self._size(self._file) >= at
        if is_longer and beginning.startswith(self._read_beginning):
            self._read_beginning = beginning
            return
        os.lseek(self._file, 0, os.SEEK_SET)
        self._splitter.take_rest()
        self._old_until = self._rows = 0
        self._read_beginning = beginning
        if self._is_table and is_longer and rows > 1:
            yield from (TailLine(line, False) for line in self._first_line())
            self._pass_over(self._file, rows - 1)

    def _grown(self) -> Iterator[TailLine]:
        while self._file is not None and (piece := self._piece(self._file)):
            self._rows += piece.count(b"\n")
            yield from self._lines(self._splitter.split(piece))

    def _pass_over_old(self, file: int) -> None:
        while os.lseek(file, 0, os.SEEK_CUR) < self._old_until and (piece := self._piece(file)):
            self._rows += piece.count(b"\n")

    def _pass_over(self, file: int, rows: int) -> None:
        """Go on after this number of lines."""
        while rows and (piece := self._piece(file)):
            passed = min(rows, piece.count(b"\n"))
            after = sum(map(len, piece.split(b"\n")[:passed])) + passed
            rows, self._rows = rows - passed, self._rows + passed
            if not rows:
                os.lseek(file, after - len(piece), os.SEEK_CUR)

    def _first_line(self) -> list[str]:
        return self._beginning(HEADER_BYTES).decode("utf-8", "replace").splitlines()[:1]

    def _beginning(self, size: int = BEGINNING_BYTES) -> bytes:
        with self._file_errors():
            return b"" if self._file is None else os.pread(self._file, size, 0)

    def _size(self, file: int) -> int:
        with self._file_errors():
            return os.fstat(file).st_size

    @contextlib.contextmanager
    def _file_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConfigError(f"cannot read {self._path}: {error.strerror}") from error

    def _piece(self, file: int) -> bytes:
        """More of the file; no piece has both old and new lines."""
        old = self._old_until - os.lseek(file, 0, os.SEEK_CUR)
        with self._file_errors():
            return os.read(file, min(old, PIECE_BYTES) if old > 0 else PIECE_BYTES)

    def _lines(self, texts: list[str]) -> Iterator[TailLine]:
        if self._file is not None:
            is_new = os.lseek(self._file, 0, os.SEEK_CUR) > self._old_until
            yield from (TailLine(text, is_new) for text in texts)

    def _is_replaced(self) -> bool:
        """Whether another file has the name now; false while there is no file, which may last only for a moment."""
        try:
            named = os.stat(self._path)
        except OSError:
            return False
        if self._file is None:
            return True
        opened = os.fstat(self._file)
        return (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino)

    def _open(self) -> None:
        with self._file_errors(), contextlib.suppress(FileNotFoundError):
            handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                os.close(handle)
                more = "give a pipe as standard input: ofu-exporter tail - < PIPE"
                raise ConfigError(f"cannot read {self._path}: it is not a file ({more})")
            self._file = handle

    @staticmethod
    def _line_start(file: int, size: int) -> int:
        """Where the last line begins, so that a half-written line is read as a whole."""
        begin = max(0, size - LONGEST_LINE_BYTES)
        end = os.pread(file, size - begin, begin).rfind(b"\n")
        return size if end < 0 and begin else begin + end + 1


class Pipe:
    """Standard input, or another stream that ends; its lines are all new, or all old without `is_new`."""

    is_there = True
    ends_here = False
    """A pipe ends when its writer ends, not before."""

    def __init__(self, file: int, is_new: bool) -> None:
        self._file = file
        self._is_new = is_new
        self._splitter = _Splitter()
        self.ended = False

    @property
    def dropped(self) -> int:
        return self._splitter.dropped

    def wait(self, seconds: float) -> None:
        """Wait until there is more to read, `seconds` at most."""
        select.select([self._file], [], [], seconds)

    def read(self) -> Iterator[TailLine]:
        """Every whole line that is there now."""
        while not self.ended and select.select([self._file], [], [], 0)[0]:
            piece = os.read(self._file, PIECE_BYTES)
            self.ended = not piece
            yield from (TailLine(text, self._is_new) for text in self._splitter.split(piece))

    def take_rest(self) -> Iterator[TailLine]:
        """The last line, where it has no end."""
        yield from (TailLine(text, self._is_new) for text in self._splitter.take_rest())

    def close(self) -> None:
        """Leave the stream open: it belongs to the caller."""
