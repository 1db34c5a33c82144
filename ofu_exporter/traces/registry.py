"""Keeps which processes of a node would record a trace, by what the kernel says of them. Pure but for reading /proc.

A message says a process id and a job; both may be forged. The user is the kernel's word, and so is the job where the
process stands in a control group of Slurm. What one user sends takes no room from another.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.traces.daemon_messages import ACTIVITIES, Question, Registration

MOST_OF_A_USER, MOST_USERS = 256, 64
FORGET_SECONDS = 60.0
"""A process asks every 5 to 10 s."""
_IN_CGROUP = re.compile(r"/job_(\d{1,18})(?:/|$)", re.MULTILINE)


class Peer(NamedTuple):
    """The sender of a message, as the kernel says."""

    pid: int
    """0 = it cannot be seen from here."""
    uid: int
    address: bytes
    """Of its socket."""


@dataclass(slots=True)
class Process:
    """A process that asks for work."""

    peer: Peer
    pid: int
    """As it sees itself: part of the name of its file."""
    job: str
    seen: float
    gpu: int | None = None
    """As CUDA numbers it in the process; None = it has not said so."""
    can_record: bool = False


class Registry:
    """The processes that were heard of in the last minute."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._of_user: dict[int, dict[bytes, Process]] = {}
        self.refused: Counter[str] = Counter()

    def take(self, message: Registration | Question, peer: Peer, now: float) -> Process | None:
        """The sender of a message; None where its user has too many, or the users are too many."""
        self._forget(now)
        if peer.uid not in self._of_user and len(self._of_user) >= MOST_USERS:
            self.refused["too_many"] += 1
            return None
        known = self._of_user.setdefault(peer.uid, {})
        process = known.get(peer.address)
        if process is None and len(known) >= MOST_OF_A_USER:
            self.refused["too_many"] += 1
            return None
        pid = message.pids[0] if isinstance(message, Question) else message.pid
        if process is None:
            job = self._job(peer.pid) or (str(message.job) if message.job > 0 else "")
            process = known[peer.address] = Process(peer, pid, job, now)
        process.seen, process.pid = now, pid
        if isinstance(message, Question):
            process.can_record = bool(message.kind & ACTIVITIES)
        else:
            process.gpu = message.gpu
        return process

    def of(self, job: str, now: float) -> list[Process]:
        """The processes that say that they belong to a job, and can record."""
        self._forget(now)
        return [
            each
            for known in [*self._of_user.values()]
            for each in [*known.values()]
            if each.job == job and each.can_record
        ]

    def _forget(self, now: float) -> None:
        for uid, known in [*self._of_user.items()]:
            for address in [a for a, each in known.items() if now - each.seen > FORGET_SECONDS]:
                del known[address]
            if not known:
                del self._of_user[uid]

    def _job(self, pid: int) -> str:
        """The job of Slurm in whose control group a process runs; "" where there is none to be seen."""
        try:
            with (self._proc / str(pid) / "cgroup").open() as file:
                found = _IN_CGROUP.search(file.read(1 << 14))
        except (OSError, ValueError):
            return ""
        return found[1] if found else ""
