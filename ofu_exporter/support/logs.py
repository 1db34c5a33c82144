"""Sets up logging: lines of text, of key=value pairs, or one JSON object per line."""

from __future__ import annotations

import json
import logging
import re

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}
_BARE = re.compile(r"[\w.:/+@%-]+", re.ASCII)
"""A value of logfmt that needs no quotes."""


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
        "message": record.getMessage(),
    }
    if record.exc_info:
        fields["exception"] = formatter.formatException(record.exc_info)
    return fields


def _quoted(value: str) -> str:
    return value if _BARE.fullmatch(value) else json.dumps(value)


def configure_logging(log_format: str, log_level: str = "info") -> None:
    """Log to standard error: as text, as JSON lines or as logfmt, from a level on."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    formatters = {"json": JsonLines(), "logfmt": LogfmtLines()}
    handler.setFormatter(formatters.get(log_format, text))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    level = LEVELS[log_level]
    root.setLevel(level)
    # uvicorn warns of every malformed request, and anybody may send one.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    for name in ("asyncio", "httpcore", "httpx"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
