"""Log lines: what each format writes of a record, and from which level on."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from ofu_exporter.support.logs import LEVELS, JsonLines, LogfmtLines, configure_logging


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Puts the root's handlers and level back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def record(text: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("ofu.part", logging.WARNING, "", 0, text, arguments, None)


def test_a_json_line_has_the_fields() -> None:
    fields = json.loads(JsonLines().format(record("GPU %s", 3)))
    assert fields.pop("time").startswith("20")
    assert fields == {"level": "warning", "logger": "ofu.part", "message": "GPU 3"}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("bare", "msg=bare"),
        ("two words", 'msg="two words"'),
        ('say "x"=1', r'msg="say \"x\"=1"'),
        ("line\nlevel=info", r'msg="line\nlevel=info"'),
        ("", 'msg=""'),
        ("\u2028", r'msg="\u2028"'),
    ],
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
    level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("text", level)
    for name, number in LEVELS.items():
        logging.getLogger("ofu_exporter.x").log(number, "at %s", name)
    written = [line.rpartition(" ")[2] for line in capsys.readouterr().err.splitlines()]
    assert written == [*LEVELS][[*LEVELS].index(level) :]
