"""The socket at which processes of the node ask whether they are to record a trace: the part of PyTorch's daemon.

One thread answers, two hundred messages a second at most, so that a flood takes little of the agent. Each user is
answered from a socket of his own: answers that nobody reads fill the sender's buffer.
"""

from __future__ import annotations

import logging
import os
import secrets
import select
import socket
import stat
import struct
import threading
import time
from pathlib import Path

from ofu_exporter.agent import trace_files
from ofu_exporter.agent.trace_desk import TraceDesk
from ofu_exporter.errors import ConfigError
from ofu_exporter.traces import daemon_messages
from ofu_exporter.traces.daemon_messages import DaemonQuestion, Registration
from ofu_exporter.traces.registry import MOST_USERS, Peer, Process

log = logging.getLogger(__name__)

NAME = "dynolog"
PAUSE_SECONDS, WAIT_MS = 0.005, 1000
SWEEP_SECONDS = 600.0
_CREDENTIALS = struct.Struct("=iii")
_OTHER = "another daemon (dynolog?) has it: take traces through that one, and show them with `profile --post`"


class TraceSocket:
    """The bound socket, and the thread that serves it."""

    def __init__(self, folder: Path | None, desk: TraceDesk) -> None:
        """`folder` is where the socket is; None = the abstract name. Raises ConfigError where it cannot be had."""
        self._folder, self._desk = folder, desk
        self._socket = _in(folder) if folder else _abstract()
        self._of_user: dict[int, socket.socket] = {}
        self._arrivals = select.poll()
        self._arrivals.register(self._socket, select.POLLIN)
        self._stopped = threading.Event()

    def start(self) -> None:
        """Answer from now on, until the process ends."""
        threading.Thread(target=self._run, name="ofu-kineto", daemon=True).start()

    def _run(self) -> None:
        swept = -SWEEP_SECONDS
        while True:
            try:
                if time.monotonic() - swept > SWEEP_SECONDS:
                    swept = time.monotonic()
                    self._sweep()
                self._take()
            except OSError as error:
                log.debug("trace socket: %s", error)
            time.sleep(PAUSE_SECONDS)

    def _sweep(self) -> None:
        trace_files.sweep_traces(self._desk.folder, time.time())
        if self._folder:  # one of root's cannot be listed: root sweeps it
            trace_files.sweep_sockets(self._folder)

    def _take(self) -> None:
        """Answer one message, or wait for a while. The socket never blocks: Python would try for as long as that to
        answer who reads no answers."""
        if not self._arrivals.poll(WAIT_MS):
            return
        try:
            # There is room for the credentials alone: the kernel drops files that a message brings.
            room = socket.CMSG_SPACE(_CREDENTIALS.size)
            data, extra, _, address = self._socket.recvmsg(daemon_messages.MOST_BYTES + 1, room)
        except BlockingIOError:
            return
        peer = _peer(extra, os.fsencode(address or b""))
        if peer is None or not self._is_client(peer):
            self._desk.registry.refused["stranger"] += 1
            return
        try:
            message = daemon_messages.parsed(data)
        except ValueError:
            self._desk.registry.refused["malformed"] += 1
            return
        process = self._desk.registry.take(message, peer, time.monotonic())
        if process is not None:
            self._answer(message, process, peer)

    def _answer(self, message: Registration | DaemonQuestion, process: Process, peer: Peer) -> None:
        if isinstance(message, Registration):
            answer = daemon_messages.registered(1)
        else:
            answer = daemon_messages.answer(self._desk.configuration(process))
        try:
            self._answering(peer.uid).sendto(answer, peer.address)
        except OSError:  # it reads too few of its answers: it is told with the next one
            self._desk.take_back(process)
            raise

    def _answering(self, uid: int) -> socket.socket:
        """The socket from which a user is answered."""
        if uid not in self._of_user:
            if len(self._of_user) >= MOST_USERS:
                for each in self._of_user.values():
                    each.close()
                self._of_user.clear()
            self._of_user[uid] = _answering_in(self._folder)
        return self._of_user[uid]

    def _is_client(self, peer: Peer) -> bool:
        """Whether a sender's socket is one that Kineto makes: nothing is sent to others on somebody's word."""
        if self._folder is None:
            return peer.address.startswith(b"\0dynoconfigclient")
        folder, name = os.path.split(peer.address)
        if folder != os.fsencode(self._folder) or not name.startswith(b"dynoconfigclient"):
            return False
        try:
            status = os.lstat(peer.address)
        except OSError:
            return False
        return stat.S_ISSOCK(status.st_mode) and status.st_uid == peer.uid


def _peer(extra: list[tuple[int, int, bytes]], address: bytes) -> Peer | None:
    for level, kind, data in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid, uid, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
            return Peer(pid, uid, address)
    return None


def _new() -> socket.socket:
    unbound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    unbound.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    unbound.setblocking(False)
    return unbound


def _abstract() -> socket.socket:
    bound = _new()
    try:
        bound.bind(b"\0dynolog\0")
    except OSError as error:
        bound.close()
        raise ConfigError(f"the abstract name dynolog: {_OTHER}") from error
    return bound


def _answering_in(folder: Path | None) -> socket.socket:
    """A socket with a name beside the daemon's, which clients look at; its file is not needed."""
    bound, name = _new(), f"{NAME}.{secrets.token_hex(8)}"
    try:
        bound.bind(str(folder / name) if folder else f"\0{name}\0".encode())
    except OSError:
        bound.close()
        raise
    if folder:
        trace_files.delete(folder / name)
    return bound


def _in(folder: Path) -> socket.socket:
    """The socket in a folder. It stays when the agent ends, so that nobody else can put one there."""
    trace_files.prepare(folder, needs_own=False)
    path, other = folder / NAME, folder / f"{NAME}.{secrets.token_hex(8)}"
    bound = _new()
    try:
        if os.path.lexists(path) and trace_files.is_held(str(path)):
            raise ConfigError(f"{path}: {_OTHER}")
        bound.bind(str(other))
        os.chmod(other, 0o666)
        os.rename(other, path)
    except OSError as error:
        trace_files.delete(other)
        bound.close()
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    return bound
