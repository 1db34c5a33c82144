"""Runs a command in the process of the test: for what a command answers, where its process is not the point.

Not for one that opens a source: a double of the driver that another test has loaded ends the whole process.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from click.testing import CliRunner

from ofu_exporter.cli import cli, main
from tests.helpers.agent import bare_environment


def call(
    *args: str, env: Mapping[str, str] | None = None, obj: object = None
) -> subprocess.CompletedProcess[str]:
    """As `tests.helpers.agent.call`, which starts a process and so costs a second of CPU."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n") for _ in range(2))
    with (
        mock.patch.dict(os.environ, bare_environment(env), clear=True),
        mock.patch.object(sys, "argv", ["ofu-exporter", *args]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _loggers_as_before(),
    ):
        code = _exit_code(obj)
    return subprocess.CompletedProcess(args, code, *map(_written, (out, err)))


def shown(*args: object) -> str:
    """What a command writes that succeeds."""
    result = CliRunner().invoke(cli, [*map(str, args)])
    assert result.exit_code == 0, result.output
    return result.output


def as_json(*args: object) -> dict[str, Any]:
    """The same of a command that answers with one object of JSON."""
    answer: dict[str, Any] = json.loads(shown(*args, "--format", "json"))
    return answer


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(errors="replace")


def _exit_code(obj: object) -> int:
    try:
        main(obj)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


@contextlib.contextmanager
def _loggers_as_before() -> Iterator[None]:
    """A command sets up its log for a process of its own."""
    root, ours = logging.getLogger(), logging.getLogger("ofu_exporter")
    before = [(each, each.level, each.handlers[:], each.propagate) for each in (root, ours)]
    try:
        yield
    finally:
        for logger, level, handlers, propagate in before:
            logger.setLevel(level)
            logger.handlers[:] = handlers
            logger.propagate = propagate
