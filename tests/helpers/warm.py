"""Starts the command in a process that has imported it already: a tenth of the CPU of a cold start.

A server that has imported the package forks for each command. What it forks is a process of its own, with its own
arguments, environment, folder, standard streams and exit code. Whatever the start itself is the point of, or the
memory, begins cold.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.doubles import native

ROOT = Path(__file__).parents[2]
# asyncio of Python 3.10 calls a TLS connection unclosed that its client ended.
OLD_TLS = (
    ("-W", "ignore:unclosed transport <asyncio.sslproto") if sys.version_info < (3, 11) else ()
)
PYTHON = (sys.executable, "-W", "error", *OLD_TLS)
PRELOADED = (
    "anyio._backends._asyncio",
    "fastapi.openapi.utils",
    "ofu_exporter.agent.build",
    "ofu_exporter.agent.daemon",
    "ofu_exporter.cli.check",
    "ofu_exporter.cli.fleet",
    "ofu_exporter.cli.job",
    "ofu_exporter.cli.pause",
    "ofu_exporter.cli.record",
    "ofu_exporter.cli.run",
    "ofu_exporter.cli.tail",
    "ofu_exporter.fleet.prometheus",
    "ofu_exporter.schedulers.kubernetes.driver",
    "ofu_exporter.schedulers.simulate.driver",
    "ofu_exporter.schedulers.slurm.driver",
    "ofu_exporter.serving.app",
    "ofu_exporter.serving.server",
    "ofu_exporter.sources.dcgm.driver",
    "ofu_exporter.sources.dcgm_exporter.driver",
    "ofu_exporter.sources.nvml.driver",
    "ofu_exporter.sources.simulate.driver",
    "uvicorn.protocols.http.h11_impl",
)
COLD = ("GCONV_", "LANG", "LC_", "LD_", "MALLOC_", "PYTHON")
"""Beginnings of the names of what is read when a program starts. Stand-ins in LD_LIBRARY_PATH can be loaded later."""


PRELOAD = "LD_PRELOAD"
SET_WHILE_IT_RUNS = "libsetclock.so"
"""Looks for its variable at each call: a server that has it preloaded forks processes that have it."""


def can_start(environment: Mapping[str, str]) -> bool:
    """Whether a command with this environment is the same when it is forked."""
    names = {name for name in (*environment, *os.environ) if name.startswith(COLD)}
    others = {name for name in names if environment.get(name) != os.environ.get(name)}
    if Path(environment.get(PRELOAD, "")).name == SET_WHILE_IT_RUNS:
        others.discard(PRELOAD)
    stand_ins = all(native.ROOT in folder.parents for folder in native.searched(environment))
    return not others or (others == {native.SEARCHED} and stand_ins)


class WarmProcess:
    """A command that runs; the part of `subprocess.Popen` that tests of running commands need."""

    def __init__(
        self, args: Sequence[str], environment: Mapping[str, str], stdout: int, stderr: int
    ) -> None:
        self.args = args
        self.returncode: int | None = None
        self._status = _server(environment.get(PRELOAD)).start(args, environment, (stdout, stderr))
        self._reading = threading.Lock()  # an attack signals from one thread, and another waits
        weakref.finalize(self, self._status.close)
        self.pid = int(self._line())

    def _line(self) -> bytes:
        """The next line of the process that waits for the command: its number, and later its exit code."""
        line = self._status.readline()
        assert line, "the server of warm processes is gone"
        return line

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self.returncode if self._has_ended(0.0) else None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises TimeoutExpired."""
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def _has_ended(self, timeout: float | None) -> bool:
        if self.returncode is None and self._has_news(timeout):
            with self._reading:
                if self.returncode is None:
                    self.returncode = int(self._line())
        return self.returncode is not None

    def _has_news(self, timeout: float | None) -> bool:
        poll = select.poll()  # other than select, for any descriptor
        poll.register(self._status, select.POLLIN)
        return bool(poll.poll(None if timeout is None else 1e3 * timeout))

    def send_signal(self, number: int) -> None:
        """Nothing happens to one that has ended, not even in the moment in which its exit code is on the way."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class _Server:
    """The process that forks: one for each process of tests and each library that is preloaded, started when it is
    first needed."""

    def __init__(self, preload: str | None) -> None:
        self.owner, self.preload = os.getpid(), preload
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*PYTHON, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
                env={**os.environ, PRELOAD: preload} if preload else None,
            )
        atexit.register(self.stop)

    def stop(self) -> None:
        """End the server, not what it has started."""
        self._socket.close()
        if self.owner == os.getpid():
            self._process.wait()

    def start(
        self, args: Sequence[str], environment: Mapping[str, str], streams: tuple[int, int]
    ) -> IO[bytes]:
        """Where the number and the exit code of the new process come."""
        status, theirs = os.pipe()
        wish = {"args": args, "environment": dict(environment), "folder": os.getcwd()}
        try:
            socket.send_fds(self._socket, [json.dumps(wish).encode()], [*streams, theirs])
        finally:
            os.close(theirs)
        return open(status, "rb", buffering=0)


_servers: list[_Server] = []
_one_at_a_time = threading.Lock()


def _server(preload: str | None) -> _Server:
    with _one_at_a_time:
        mine = [each for each in _servers if (each.owner, each.preload) == (os.getpid(), preload)]
        if not mine:
            mine = [_Server(preload)]
            _servers.extend(mine)
        return mine[0]


def serve(connection: socket.socket) -> dict[str, Any]:
    """Fork for every wish until nobody is there to have one; returns in the new process, with what it shall do."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, *_ = socket.recv_fds(connection, 1 << 20, 3)
        if not message:
            os._exit(0)
        if not os.fork():
            connection.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if not _watched(descriptors.pop()):
                _take_streams(descriptors)
                wish: dict[str, Any] = json.loads(message)
                return wish
        for descriptor in descriptors:
            os.close(descriptor)


def _watched(status: int) -> int:
    """Fork once more: 0 in the new process. The old one tells its number, waits for it, and tells its exit code."""
    started = os.fork()
    if started:
        os.closerange(0, status)
        os.closerange(status + 1, 256)
        os.write(status, b"%d\n" % started)
        _, ended = os.waitpid(started, 0)
        os.write(status, b"%d\n" % os.waitstatus_to_exitcode(ended))
        os._exit(0)
    os.close(status)
    return started


def _take_streams(descriptors: Sequence[int]) -> None:
    """Standard output and error of one's own, opened as the interpreter opens them."""
    for number, descriptor in enumerate(descriptors, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for name, number, errors in (("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        before = getattr(sys, name)
        stream = io.TextIOWrapper(
            open(number, "wb", closefd=False),  # noqa: SIM115 - as long as the process
            before.encoding,
            errors,
            line_buffering=number == 2,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def run(wish: Mapping[str, Any]) -> None:
    """Be the command."""
    os.chdir(wish["folder"])
    os.environ.clear()
    os.environ.update(wish["environment"])
    time.tzset()
    native.load_all(os.environ)
    sys.argv = ["ofu-exporter", *wish["args"]]
    from ofu_exporter.__main__ import main

    main()


if __name__ == "__main__":
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()
    run(serve(socket.socket(fileno=int(sys.argv[1]))))
