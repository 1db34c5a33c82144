"""`events`: once, and as it happens, past an agent that goes away and comes back."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from tests.helpers.agent import (
    COMMAND,
    SIMULATED,
    SOON,
    Agent,
    agent,
    bare_environment,
    call,
    until,
)

pytestmark = pytest.mark.slow


@contextmanager
def following(*args: str) -> Iterator[tuple[list[str], list[str]]]:
    """`events --follow` in a process of its own: its lines, and those of standard error."""
    process = subprocess.Popen(
        [*COMMAND, "events", "--follow", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=bare_environment({"PYTHONUNBUFFERED": "1"}),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    both: tuple[list[str], list[str]] = ([], [])
    pipes = (process.stdout, process.stderr)
    readers = [
        threading.Thread(target=_take, args=pair, daemon=True)
        for pair in zip(pipes, both, strict=True)
    ]
    for reader in readers:
        reader.start()
    try:
        yield both
    finally:
        process.kill()
        process.wait(SOON)
        for reader, pipe in zip(readers, pipes, strict=True):
            reader.join(SOON)
            pipe.close()


def _take(pipe: IO[str], kept: list[str]) -> None:
    for line in pipe:
        kept.append(line.rstrip("\n"))


def test_what_has_happened_is_printed_once() -> None:
    with agent(*SIMULATED) as running:
        until(lambda: "job 1002" in running.get("/v1/events")[1])
        done = call("events", "--agent", running.url, "--json")
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert done.returncode == 0, done.stderr
        assert found[0]["number"] == 1
        text = call("events", "--agent", running.url, "--after", "1").stdout
        assert found[1]["sentence"] in text
        assert found[0]["sentence"] not in text
        table = call("events", "--agent", running.url, "--format", "csv").stdout
        rows = list(csv.DictReader(io.StringIO(table)))
        assert [row["sentence"] for row in rows[: len(found)]] == [
            event["sentence"] for event in found
        ]


def test_an_agent_that_is_not_there_is_named() -> None:
    done = call("events", "--agent", "http://ada:secret@127.0.0.1:1")
    assert done.returncode == 3
    assert done.stderr.strip() == (
        "ofu-exporter: the agent at http://127.0.0.1:1 does not answer: Connection refused"
    )


def test_a_follower_waits_for_the_next_agent_and_reads_it_from_its_beginning() -> None:
    with agent(*SIMULATED) as first:
        until(lambda: "job 1002" in first.get("/v1/events")[1])
        port = first.url.rpartition(":")[2]
        with following("--agent", first.url) as (lines, problems):
            until(lambda: any("job 1002" in line for line in lines))
            assert first.stop() == 0
            until(lambda: any("asking again" in line for line in problems))
            assert len(problems) == 1, problems
            seen = len(lines)
            second = Agent([*SIMULATED, "--listen", f"127.0.0.1:{port}"])
            try:
                until(lambda: any("job 1002" in line for line in lines[seen:]))
            finally:
                second.stop()
            assert any("the agent has restarted" in line for line in problems)
            assert any("source_changed" in line for line in lines[seen:]), "its first event"
