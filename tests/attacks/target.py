"""Starts a fresh agent to be attacked, in a process of its own, and reads what the system knows of that process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.attacks.memory_limit import MemoryLimit
from tests.attacks.scraper import OWN, Scrape, context_of, scrape
from tests.helpers.agent import bare_environment, started, until
from tests.helpers.warm import WarmProcess

COMMAND = (sys.executable, "-m", "ofu_exporter")
"""As people run it: warnings are no errors here, and no lines of a log."""
GPUS = 8
PACE = ("--interval", "0.5s", "--clock-interval", "0.25s")
SIMULATED = ("--source", "simulate", "--scheduler", "simulate", *PACE)
F_SETPIPE_SZ = 1031
"""As fcntl(2) has it; Python only knows it since 3.10.1, and not on every system."""
PIPE_BYTES = 4096
START_SECONDS = 60.0
STOP_SECONDS = 20.0
"""How long an agent is waited for after SIGTERM before it counts as one that does not obey."""


@dataclass(slots=True)
class Setup:
    """The agent that one attack is made on."""

    args: list[str] = field(default_factory=lambda: [*SIMULATED])
    env: dict[str, str] = field(default_factory=dict)
    descriptors: int = 0
    """Most open files of the process, soft and hard; 0 = the machine's own limit."""
    is_log_read: bool = True
    """Whether anybody reads standard error; else it is a pipe that fills up."""
    ca: Path | None = None
    certificate: Path | None = None
    """What a scraper needs where the agent has TLS."""
    scraper: str = OWN
    """The address that is scraped from."""
    authorization: str = ""
    """What a scraper shows where reading is closed by passwords."""
    memory: MemoryLimit | None = None
    """The control group that the process is in."""
    has_counters: bool = True
    """Whether there is anything that the agent could measure."""
    may_be_warm: bool = False
    """Whether it may be forked from one that has imported the program: quicker, and with warnings as errors."""


class NotStartedError(Exception):
    """The agent ended before it served; its log."""


class Target:
    """A running agent, and what an attack has noticed of it."""

    def __init__(self, setup: Setup, folder: Path) -> None:
        self.setup = setup
        self.folder = folder
        self.statuses: Counter[int] = Counter()
        """Of the answers that the attack got."""
        self.let_in: Counter[str] = Counter()
        """What was done for the attacker, and should have been refused."""
        self._log_path = folder / "log"
        self._pipe: int | None = None
        self.process = self._started()
        try:
            self.url = until(self._serving, START_SECONDS)
        except AssertionError:  # on a machine that has too much to do
            self.process.kill()
            self.process.wait()
            raise
        where = urlsplit(self.url)
        assert where.hostname is not None
        assert where.port is not None
        self.address = (where.hostname, where.port)

    def _started(self) -> subprocess.Popen[bytes] | WarmProcess:
        args = ["run", *self.setup.args, "--listen", "127.0.0.1:0"]
        command: Sequence[str] = COMMAND
        if self.setup.descriptors:
            limited = f'ulimit -n {self.setup.descriptors}; exec "$@"'
            command = ["/bin/sh", "-c", limited, "sh", *command]
        if self.setup.memory is not None:
            command = self.setup.memory.command(command)
        is_warm = self.setup.may_be_warm and command is COMMAND
        if self.setup.is_log_read:
            errors = os.open(self._log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        else:
            self._pipe, errors = os.pipe()
            os.set_blocking(self._pipe, False)
            fcntl.fcntl(errors, F_SETPIPE_SZ, PIPE_BYTES)
        try:
            return started(
                args, bare_environment(self.setup.env), errors, errors, None if is_warm else command
            )
        finally:
            os.close(errors)

    def _serving(self) -> str | None:
        log = self.log()
        if self.process.poll() is not None:
            raise NotStartedError(log)
        found = re.search(r"serving on (https?://[^\s\"]+)", log)
        return found[1] if found else None

    def log(self) -> str:
        """What the agent has written. Where nobody reads it, a call makes room in the pipe."""
        if self._pipe is not None:
            with contextlib.suppress(BlockingIOError), self._log_path.open("ab") as file:
                while piece := os.read(self._pipe, 1 << 16):
                    file.write(piece)
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def log_bytes(self) -> int:
        """Bytes of the log that somebody has read."""
        return self._log_path.stat().st_size if self._log_path.exists() else 0

    @property
    def context(self) -> ssl.SSLContext | None:
        ca, certificate = self.setup.ca, self.setup.certificate
        return context_of(str(ca) if ca else None, str(certificate) if certificate else None)

    def get(self, path: str = "/metrics") -> Scrape:
        setup = self.setup
        return scrape(self.url, self.context, path, setup.scraper, setup.authorization)

    def rss_mib(self) -> float:
        """The most memory that was resident since the start, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def hang_up(self) -> None:
        """SIGHUP: the agent reads its configuration anew."""
        self.process.send_signal(signal.SIGHUP)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


@contextlib.contextmanager
def target(setup: Setup, folder: Path) -> Iterator[Target]:
    running = Target(setup, folder)
    try:
        yield running
    finally:
        running.close()
