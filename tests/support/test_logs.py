"""A log line is one line, whoever wrote what is in it."""

from __future__ import annotations

import json
import logging

import pytest

from ofu_exporter.support.logs import configure_logging


@pytest.fixture
def _own_handlers() -> object:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.usefixtures("_own_handlers")
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_names_of_others_cannot_write_lines_or_colours(
    log_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(log_format)
    try:
        raise ValueError("x\n2026-01-01 00:00:00,000 INFO forged\x1b[31m")
    except ValueError:
        logging.getLogger("t").exception("job %s", "7\n2026 INFO forged\x1b[2J\x9b\u202e")
    written = capsys.readouterr().err
    lines = written.splitlines()
    assert all(line.isprintable() for line in lines)
    assert written.endswith("\n")
    if log_format == "json":
        assert len(lines) == 1
        assert json.loads(lines[0])["message"].startswith("job 7\n2026")
    else:
        assert sum("ERROR t: job 7\\n2026 INFO forged\\x1b[2J" in line for line in lines) == 1
        assert "Traceback" in written
