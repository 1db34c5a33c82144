"""Sets up logging: lines of text, or one JSON object per line."""

from __future__ import annotations

import json
import logging
from typing import Any

from ofu_exporter.support.plain_text import escaped, escaped_lines


class TextLines(logging.Formatter):
    """One line of text per record, and one for each line of a traceback: others cannot write lines of their own."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = escaped(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return escaped_lines(super().formatException(ei))


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def configure_logging(log_format: str) -> None:
    """Log to standard error, as text or as JSON lines."""
    handler = logging.StreamHandler()
    text = TextLines("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if log_format == "json" else text)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    # uvicorn warns of every malformed request, and anybody may send one.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    logging.getLogger("httpx").setLevel(logging.WARNING)
