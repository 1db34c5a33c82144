"""Sets up logging as text, JSON or key=value pairs, one line each, through a queue that never blocks the caller."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections import deque
from collections.abc import Callable
from logging.handlers import QueueHandler, QueueListener
from queue import Full, Queue
from typing import Any, NamedTuple

from ofu_exporter.support.rate_limit import RateLimit
from ofu_exporter.values.text import shown, shown_lines

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}
_BARE = re.compile(r"[\w.:/+@%-]+", re.ASCII)
"""A value of logfmt that needs no quotes."""
MOST_WAITING_LINES = 1000
MOST_LINE_BYTES = 32 << 10
MOST_CHARACTERS = 2000
"""Most characters of a message and of a traceback in a JSON line, which keeps the line below the limit on bytes."""
BYTES_PER_SECOND = 8 << 10
BURST_BYTES = 256 << 10
"""Most bytes at once. The rate above is the average per second: half a MB a minute."""
FLUSH_SECONDS = 0.3
"""How long the process waits at its end for lines that are not written yet."""
STANDARD_ERROR = 2
STRUCTURED = ("event", "subject")
"""Fields of a line that says what happened, and to what: the `extra` of a record."""
MOST_LAST_LINES = 30
MOST_SHOWN_CHARACTERS = 400
"""Most characters of a message that is kept in memory: a name in it may be anybody's text."""


class TextLines(logging.Formatter):
    """One line of text per record, and one per line of a traceback. A name in a message cannot forge a line."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = shown(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return shown_lines(super().formatException(ei))


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_fields(self, record))


class LogfmtLines(logging.Formatter):
    """One line of key=value pairs, as Prometheus' own exporters write them."""

    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(self, record)
        fields["msg"] = fields.pop("message")
        return " ".join(f"{name}={_quoted(value)}" for name, value in fields.items())


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, str]:
    fields = {
        "time": formatter.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage()[:MOST_CHARACTERS],
    }
    for name in STRUCTURED:
        if value := getattr(record, name, ""):
            fields[name] = str(value)[:MOST_CHARACTERS]
    if record.exc_info:
        fields["exception"] = formatter.formatException(record.exc_info)[-MOST_CHARACTERS:]
    return fields


def _quoted(value: str) -> str:
    return value if _BARE.fullmatch(value) else json.dumps(value)


class QueuedLines(QueueHandler):
    """Puts lines into a queue that a thread writes; drops and counts lines for which there is no room.

    A standard error that nobody reads, such as a full pipe, blocks only that thread. Lines are written to the
    descriptor and not to `sys.stderr`, because a write that hangs would hold the lock of `sys.stderr` until the
    process ends.
    """

    def __init__(
        self, descriptor: int = STANDARD_ERROR, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.waiting: Queue[Any] = Queue(MOST_WAITING_LINES)
        super().__init__(self.waiting)
        self.dropped = 0
        """Lines that were not written."""
        self._clock = clock
        self._rate: RateLimit[None] = RateLimit(BYTES_PER_SECOND, BURST_BYTES)
        _Writer(self, descriptor).start()

    def prepare(self, record: logging.LogRecord) -> bytes:
        return self.format(record).encode(errors="backslashreplace")[:MOST_LINE_BYTES] + b"\n"

    def enqueue(self, record: Any) -> None:
        """Raises Full where there is no room, or a line is beyond the rate."""
        if self.waiting.full() or self._rate.ask(None, self._clock(), len(record)):
            raise Full
        super().enqueue(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002 - as the library names it
        """A line that cannot be made, or has no room, is a dropped one."""
        self.dropped += 1

    def flush(self) -> None:
        """Wait until all is written, for a moment at most."""
        lines = self.waiting
        with lines.all_tasks_done:
            lines.all_tasks_done.wait_for(lambda: not lines.unfinished_tasks, FLUSH_SECONDS)


class _Writer(QueueListener):
    """Writes the lines, and says where some are missing."""

    def __init__(self, lines: QueuedLines, descriptor: int) -> None:
        super().__init__(lines.queue)
        self._lines = lines
        self._descriptor = descriptor
        self._dropped_before = 0

    def handle(self, record: Any) -> None:
        dropped = self._lines.dropped
        missing, self._dropped_before = dropped - self._dropped_before, dropped
        line = b"(%d log lines were dropped here)\n" % missing + record if missing else record
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:
            self._lines.dropped += 1


class LastLine(NamedTuple):
    unix: float
    level: str
    message: str


class LastLines(logging.Handler):
    """Keeps the last lines of a logger. Any thread may read them."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[LastLine] = deque(maxlen=MOST_LAST_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        message = shown(record.getMessage()[:MOST_SHOWN_CHARACTERS])[:MOST_SHOWN_CHARACTERS]
        self._lines.append(LastLine(record.created, record.levelname.lower(), message))

    def newest_first(self) -> list[LastLine]:
        return [*self._lines.copy()][::-1]


def configure_logging(log_format: str, log_level: str) -> None:
    """Log to standard error as text, JSON lines or logfmt, from this level on."""
    root = logging.getLogger()
    handler = next(iter(_queued()), None) or QueuedLines()
    text = TextLines("%(asctime)s %(levelname)s %(name)s: %(message)s")
    formatters = {"json": JsonLines(), "logfmt": LogfmtLines()}
    handler.setFormatter(formatters.get(log_format, text))
    root.handlers[:] = [handler]
    level = LEVELS[log_level]
    root.setLevel(level)
    # uvicorn warns of every malformed request, and anybody may send one.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    for name in ("asyncio", "httpcore", "httpx"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def dropped_lines() -> int:
    """Lines of the log that were not written."""
    return sum(handler.dropped for handler in _queued())


def _queued() -> list[QueuedLines]:
    return [each for each in logging.getLogger().handlers if isinstance(each, QueuedLines)]
