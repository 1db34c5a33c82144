"""Runs the real command in a process of its own, and reads what it serves."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

from prometheus_client.parser import text_string_to_metric_families

from tests.helpers import warm
from tests.helpers.quiet_server import QuietHandler, answering
from tests.helpers.warm import PYTHON, WarmProcess

SOON = 60.0
"""A bound on waiting that only a failing test reaches."""
PATIENCE = 180.0
"""The same for what several programs have to do, on a machine with twenty things to do."""
COMMAND = (*PYTHON, "-m", "ofu_exporter")
SIMULATED = ("demo", "--source", "simulate")
"""Serves a simulated node of 8 GPUs and its jobs."""


def bare_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without anybody's settings."""
    ours = re.compile("OFU_(?!TEST_)")
    kept = {name: value for name, value in os.environ.items() if not ours.match(name)}
    return {**kept, **(extra or {})}


def call(*args: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = started(args, bare_environment(env), out.fileno(), err.fileno())
        try:
            code = process.wait(PATIENCE)
        finally:
            process.kill()
        texts = [_whole(file) for file in (out, err)]
    return subprocess.CompletedProcess(args, code, *texts)


def _whole(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def started(
    args: Sequence[str],
    env: Mapping[str, str],
    stdout: int,
    stderr: int,
    command: Sequence[str] | None = None,
) -> subprocess.Popen[bytes] | WarmProcess:
    """The command, which begins warm where that is the same and no command line is given."""
    if command is None and warm.can_start(env):
        return WarmProcess(args, env, stdout, stderr)
    return subprocess.Popen([*(command or COMMAND), *args], stdout=stdout, stderr=stderr, env=env)


class Agent:
    """A running `ofu-exporter run` or `demo`."""

    def __init__(
        self,
        args: Sequence[str],
        env: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self.log: list[str] = []
        out, theirs = os.pipe()
        self._output = os.fdopen(out)
        try:
            self.process = started(args, bare_environment(env), theirs, theirs, command)
        finally:
            os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.url = until(self._serving)
        except AssertionError:
            self.kill()
            raise

    def _read(self) -> None:
        for line in self._output:
            self.log.append(line.rstrip("\n"))

    def _serving(self) -> str | None:
        if self.process.poll() is not None:
            raise AssertionError("\n".join(self.log))
        found = re.search(r"serving on (https?://[^\s\"]+)", "\n".join(self.log))
        return found[1].replace("0.0.0.0", "127.0.0.1") if found else None

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=SOON) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def value(self, name: str, **labels: str) -> float | None:
        """The one sample with this name and these labels; None when there is none."""
        matching = self.values(name, **labels)
        assert len(matching) < 2, matching
        return matching[0] if matching else None

    def values(self, name: str, **labels: str) -> list[float]:
        """Every sample with this name and these labels.

        No other line is parsed: whoever waits asks often.
        """
        lines = self.get("/metrics")[1].split("\n")
        those = "\n".join(line for line in lines if line.startswith((f"{name}{{", f"{name} ")))
        return [
            sample.value
            for family in text_string_to_metric_families(those)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def logged(self, text: str) -> bool:
        """Whether this has been read of its log so far."""
        return any(text in line for line in self.log)

    def logs(self, text: str) -> bool:
        """True once this is read; what an answer tells already may still be on its way here."""
        return bool(until(lambda: self.logged(text)))

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: it cannot put anything in order."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        return self.ended()

    def ended(self) -> int:
        """The exit code, once it has ended."""
        code = self.process.wait(SOON)
        self._reader.join(SOON)
        self._output.close()
        return code


@contextlib.contextmanager
def agent(
    *args: str,
    env: Mapping[str, str] | None = None,
    command: Sequence[str] | None = None,
    host: str = "127.0.0.1",
) -> Iterator[Agent]:
    running = Agent([*args, "--listen", f"{host}:0"], env, command)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.stop()


def until(wanted: Callable[[], object], seconds: float = PATIENCE) -> str:
    """Ask again and again until the answer is true, the less often the longer it takes; returns it."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < seconds:
        answer = wanted()
        if answer:
            return str(answer)
        threading.Event().wait(min(max(0.02, waited / 20), 0.5))
    raise AssertionError(f"not within {seconds} s: {wanted}")


@contextlib.contextmanager
def page_server(page: Callable[[], str], content_type: str = "text/plain") -> Iterator[str]:
    """Another exporter: serves what `page` returns; gives its URL."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.reply(page().encode(), headers={"Content-Type": content_type})

    with answering(Handler) as server:
        yield f"{server.url}/metrics"
