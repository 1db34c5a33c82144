"""Keeps which processes of a node would record a trace, by what the kernel says of them. Pure but for reading /proc.

A message says a process id and a job; both may be forged. The user is the kernel's word, and so is the job where the
process stands in a control group of Slurm or of a pod. What one user sends takes no room from another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.traces.daemon_messages import ACTIVITIES, DaemonQuestion, Registration

MOST_OF_A_USER, MOST_USERS = 256, 64
FORGET_SECONDS = 60.0
"""A process asks every 5 to 10 s."""
_IN_JOB = re.compile(r"/job_(\d{1,18})(?:/|$)", re.MULTILINE)
_IN_POD = re.compile(r"[/-]pod([0-9a-f][0-9a-f_-]{31,35})(?:\.slice)?(?:/|$)", re.MULTILINE)
"""As kubelet names them, by cgroupfs or systemd, which takes no dash."""


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
    pod: str
    """Uid of the pod in whose control group it runs; "" where there is none to be seen."""
    is_proven: bool
    """Whether its job is the kernel's word, and not only its own."""
    seen: float
    gpu: int | None = None
    """As CUDA numbers it in the process; None = it has not said so."""
    can_record: bool = False


class ProcessRegistry:
    """The processes that were heard of in the last minute."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        _, self._own_pod = self._groups("self")
        self._of_user: dict[int, dict[bytes, Process]] = {}
        self.refused: Counter[str] = Counter()

    def take(
        self, message: Registration | DaemonQuestion, peer: Peer, now: float
    ) -> Process | None:
        """The sender of a message; None where its user has too many, or the users are too many."""
        self._forget(now)
        if peer.uid not in self._of_user and len(self._of_user) >= MOST_USERS:
            self.refused["too_many"] += 1
            return None
        of_user = self._of_user.setdefault(peer.uid, {})
        process = of_user.get(peer.address)
        if process is None and len(of_user) >= MOST_OF_A_USER:
            self.refused["too_many"] += 1
            return None
        pid = message.pids[0] if isinstance(message, DaemonQuestion) else message.pid
        if process is None:
            job, pod = self._groups(peer.pid)
            stated_job = str(message.job) if message.job > 0 else ""
            process = Process(peer, pid, job or stated_job, pod, bool(job), now)
            of_user[peer.address] = process
        process.seen, process.pid = now, pid
        if isinstance(message, DaemonQuestion):
            process.can_record = bool(message.kind & ACTIVITIES)
        else:
            process.gpu = message.gpu
        return process

    def of(self, job: str, now: float, pods: Collection[str] = ()) -> list[Process]:
        """The processes of a job or of its pods that can record: those of which the kernel says so; without any,
        those that say so."""
        self._forget(now)
        pods = {*pods} - {""}
        claiming = [
            (each, each.is_proven or each.pod in pods)
            for of_user in [*self._of_user.values()]
            for each in [*of_user.values()]
            if each.can_record and (each.pod in pods or (each.job == job and self._may_be(each)))
        ]
        proven = [replace(each, is_proven=True) for each, is_proven in claiming if is_proven]
        return proven or [each for each, _ in claiming]

    def _may_be(self, each: Process) -> bool:
        """Whether a process may be of a job that is none of its pod's."""
        return each.is_proven or each.pod in ("", self._own_pod)

    def _forget(self, now: float) -> None:
        for uid, of_user in [*self._of_user.items()]:
            for address in [a for a, each in of_user.items() if now - each.seen > FORGET_SECONDS]:
                del of_user[address]
            if not of_user:
                del self._of_user[uid]

    def _groups(self, pid: int | str) -> tuple[str, str]:
        """The job of Slurm and the pod in whose control groups a process runs; "" where there is none to be seen."""
        try:
            with (self._proc / str(pid) / "cgroup").open() as file:
                groups = file.read(1 << 14)
        except (OSError, ValueError):
            return "", ""
        job, pod = _IN_JOB.search(groups), _IN_POD.search(groups)
        return job[1] if job else "", pod[1].replace("_", "-") if pod else ""
