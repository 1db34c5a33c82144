"""The log: whoever writes a line waits for nobody, and what is not written is counted."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator

import pytest

from ofu_exporter.support.logs import (
    BURST_BYTES,
    BYTES_PER_SECOND,
    LEVELS,
    MOST_LAST_LINES,
    MOST_LINE_BYTES,
    MOST_WAITING_LINES,
    JsonLines,
    LastLines,
    LogfmtLines,
    QueuedLines,
    TextLines,
    configure_logging,
)
from tests.helpers.agent import until
from tests.helpers.every import every
from tests.helpers.values import FakeClock

pytestmark = pytest.mark.usefixtures("own_logging")


class Pipe:
    """A pipe to which lines are written, and that is read when a test wants to."""

    def __init__(self) -> None:
        self.out, self.into = os.pipe()
        os.set_blocking(self.out, False)
        self.text = b""

    def read(self) -> bytes:
        """All that has come until now."""
        while True:
            try:
                self.text += os.read(self.out, 1 << 20)
            except BlockingIOError:
                return self.text


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    opened = Pipe()
    yield opened
    os.close(opened.out)


def line(message: str) -> logging.LogRecord:
    return logging.LogRecord("x", logging.INFO, "x.py", 1, message, None, None)


def test_lines_come_in_their_order(pipe: Pipe) -> None:
    handler = QueuedLines(pipe.into)
    for number in range(50):
        handler.emit(line(str(number)))
    handler.flush()
    assert pipe.read().decode().split() == [str(number) for number in range(50)]
    assert handler.dropped == 0


def test_a_pipe_that_nobody_reads_holds_up_nobody_and_what_is_lost_is_told(pipe: Pipe) -> None:
    clock = FakeClock(0.0)
    handler = QueuedLines(pipe.into, clock)
    for _ in range(2 * MOST_WAITING_LINES):
        clock.now += 1.0
        handler.emit(line("x" * 4000))
    handler.flush()
    lost = handler.dropped
    assert 2 * MOST_WAITING_LINES - lost < MOST_WAITING_LINES + 100
    until(lambda: (pipe.read(), not handler.waiting.qsize())[1])
    handler.emit(line("after"))
    until(lambda: pipe.read().endswith(b"after\n"))
    told = re.findall(rb"^\((\d+) log lines were dropped here\)$", pipe.text, re.MULTILINE)
    assert sum(map(int, told)) == lost
    assert pipe.text.count(b"x" * 4000) == 2 * MOST_WAITING_LINES - lost


@pytest.mark.slow
def test_a_storm_is_held_to_a_rate(pipe: Pipe) -> None:
    clock = FakeClock(0.0)
    handler = QueuedLines(pipe.into, clock)
    written = 0
    for _ in range(600):
        clock.now += 0.1
        for _ in range(100):
            handler.emit(line("x" * 999))
        until(lambda: (pipe.read(), not handler.waiting.qsize())[1])
    written = len(pipe.read())
    assert BURST_BYTES < written <= BURST_BYTES + 60 * BYTES_PER_SECOND + 600 * 60
    assert handler.dropped > 50_000


def test_a_line_without_end_is_cut(pipe: Pipe) -> None:
    handler = QueuedLines(pipe.into)
    handler.emit(line("x" * 1_000_000))
    handler.flush()
    assert len(pipe.read()) == MOST_LINE_BYTES + 1


def test_a_line_that_cannot_be_made_is_dropped_and_the_next_is_not(pipe: Pipe) -> None:
    handler = QueuedLines(pipe.into)
    handler.emit(logging.LogRecord("x", logging.INFO, "x.py", 1, "%d", ("no number",), None))
    handler.emit(line("lone surrogate \ud800"))
    handler.flush()
    assert handler.dropped == 1
    assert b"lone surrogate \\ud800\n" in pipe.read()


def test_a_line_that_nobody_can_read_any_more_is_dropped() -> None:
    reader, into = os.pipe()
    os.close(reader)
    handler = QueuedLines(into)
    handler.emit(line("x"))
    until(lambda: handler.dropped == 1)
    os.close(into)


def test_a_json_line_stays_json_however_long_it_is() -> None:
    try:
        raise ValueError("\x00" * 100_000)
    except ValueError as error:
        caught = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "\x00" * 100_000, None, caught)
    text = JsonLines().format(record)
    assert len(text.encode()) < MOST_LINE_BYTES
    assert json.loads(text)["level"] == "error"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_names_of_others_cannot_write_lines_or_colours(log_format: str, pipe: Pipe) -> None:
    handler = QueuedLines(pipe.into)
    handler.setFormatter(
        JsonLines() if log_format == "json" else TextLines("%(levelname)s: %(message)s")
    )
    try:
        raise ValueError("x\n2026-01-01 00:00:00,000 INFO forged\x1b[31m")
    except ValueError as error:
        caught = (ValueError, error, error.__traceback__)
    message = "job 7\n2026 INFO forged\x1b[2J\x9b\u202e"
    handler.emit(logging.LogRecord("t", logging.ERROR, "x.py", 1, message, None, caught))
    handler.flush()
    lines = pipe.read().decode().splitlines()
    assert all(each.isprintable() for each in lines)
    if log_format == "json":
        assert len(lines) == 1
        assert json.loads(lines[0])["message"].startswith("job 7\n2026")
    else:
        assert sum("ERROR: job 7\\n2026 INFO forged\\x1b[2J" in each for each in lines) == 1
        assert "Traceback" in "".join(lines)


# Formats and levels.


def record(text: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("ofu.part", logging.WARNING, "", 0, text, arguments, None)


def test_a_json_line_has_the_fields() -> None:
    fields = json.loads(JsonLines().format(record("GPU %s", 3)))
    assert fields.pop("time").startswith("20")
    assert fields == {"level": "warning", "logger": "ofu.part", "message": "GPU 3"}


@every(
    [
        ("bare", "msg=bare"),
        ("two words", 'msg="two words"'),
        ('say "x"=1', r'msg="say \"x\"=1"'),
        ("line\nlevel=info", r'msg="line\nlevel=info"'),
        ("", 'msg=""'),
        ("\u2028", r'msg="\u2028"'),
    ]
)
def test_a_logfmt_line_is_one_line_whatever_it_says(text: str, written: str) -> None:
    line = LogfmtLines().format(record(text))
    assert line.endswith(f" level=warning logger=ofu.part {written}")
    assert len(line.splitlines()) == 1


def test_an_exception_is_in_the_line() -> None:
    made = record("it failed")
    made.exc_info = (ValueError, ValueError("why"), None)
    assert ' exception="ValueError: why"' in LogfmtLines().format(made)
    assert json.loads(JsonLines().format(made))["exception"] == "ValueError: why"


@pytest.mark.parametrize("level", LEVELS)
def test_lines_below_the_level_are_not_written(
    level: str, capfd: pytest.CaptureFixture[str]
) -> None:
    configure_logging("text", level)
    for name, number in LEVELS.items():
        logging.getLogger("ofu_exporter.x").log(number, "at %s", name)
    logging.getLogger().handlers[0].flush()
    written = [line.rpartition(" ")[2] for line in capfd.readouterr().err.splitlines()]
    assert written == [*LEVELS][[*LEVELS].index(level) :]


@pytest.mark.parametrize(
    ("library", "lowest"), [("uvicorn", logging.ERROR), ("httpx", logging.WARNING)]
)
def test_libraries_write_less_than_the_agent(library: str, lowest: int) -> None:
    """uvicorn warns of every malformed request, and anybody may send one."""
    configure_logging("text", "debug")
    assert logging.getLogger("ofu_exporter").isEnabledFor(logging.DEBUG)
    assert logging.getLogger(library).getEffectiveLevel() == lowest


def test_the_last_lines_are_kept_cut_and_without_control_characters() -> None:
    last = LastLines()
    for number in range(MOST_LAST_LINES + 5):
        last.emit(record("%d \x1b[2J" + "\u4e2d" * 1000, number))
    lines = last.newest_first()
    assert len(lines) == MOST_LAST_LINES
    assert lines[0].message.startswith(f"{MOST_LAST_LINES + 4} \\x1b[2J")
    assert {len(line.message) for line in lines} == {400}
    assert lines[0].level == "warning"
