"""Sets up logging as text, JSON or key=value pairs, one line each, through a queue that never blocks the caller."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

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
    if record.exc_info:
        fields["exception"] = formatter.formatException(record.exc_info)[-MOST_CHARACTERS:]
    return fields


def _quoted(value: str) -> str:
    return value if _BARE.fullmatch(value) else json.dumps(value)


class QueuedLines(logging.Handler):
    """Writes lines on a thread of its own; drops and counts lines for which there is no room.

    A standard error that nobody reads, such as a full pipe, blocks only that thread. Lines are written to the
    descriptor and not to `sys.stderr`, because a write that hangs would hold the lock of `sys.stderr` until the
    process ends.
    """

    def __init__(
        self, descriptor: int = STANDARD_ERROR, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.dropped = 0
        """Lines that were not written."""
        self._told = 0
        self._descriptor = descriptor
        self._clock = clock
        self._room, self._counted_at = float(BURST_BYTES), clock()
        self._lines: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._writing = False
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode(errors="backslashreplace")[:MOST_LINE_BYTES] + b"\n"
        except Exception:  # noqa: BLE001 - a line that cannot be made is a dropped one
            self.dropped += 1
            return
        with self._changed:
            if len(self._lines) >= MOST_WAITING_LINES or not self._allows(len(line)):
                self.dropped += 1
                return
            self._lines.append(line)
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
            self._thread.start()

    def _allows(self, size: int) -> bool:
        """Whether a line of this size is within the rate. If so, the line is counted."""
        now = self._clock()
        self._room = min(BURST_BYTES, self._room + (now - self._counted_at) * BYTES_PER_SECOND)
        self._counted_at = now
        if size > self._room:
            return False
        self._room -= size
        return True

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                while not self._lines:
                    self._changed.wait()
                line = self._lines.popleft()
                self._writing = True
                missing, self._told = self.dropped - self._told, self.dropped
            if missing:
                line = b"(%d log lines were dropped here)\n" % missing + line
            self._write(line)

    def _write(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:
            self.dropped += 1

    def flush(self) -> None:
        """Wait until all is written, for a moment at most."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._lines or self._writing), FLUSH_SECONDS)


def configure_logging(log_format: str, log_level: str = "info") -> None:
    """Log to standard error as text, JSON lines or logfmt, from this level on."""
    root = logging.getLogger()
    handler = next((one for one in root.handlers if isinstance(one, QueuedLines)), None)
    handler = handler or QueuedLines()
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
    return sum(
        handler.dropped
        for handler in logging.getLogger().handlers
        if isinstance(handler, QueuedLines)
    )
