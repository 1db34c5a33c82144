"""Takes a request for a job's trace, has its processes record, and gives what their files say to the report book.

One request at a time. Files have names that the agent makes, one for each process, and are deleted when they are read.
What could not be read stays for a day, for the command.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ofu_exporter.agent import trace_files
from ofu_exporter.agent.trace_counters import PeakSums, peak_sums, shares_between
from ofu_exporter.errors import OfuError
from ofu_exporter.serving.trace_routes import TraceAnswer, TraceAsker, TraceOrder, TraceRefused
from ofu_exporter.support.users import uid_of
from ofu_exporter.traces import daemon_messages
from ofu_exporter.traces.registry import Process, ProcessRegistry
from ofu_exporter.values.job import Job
from ofu_exporter.values.snapshot import Snapshot

log = logging.getLogger(__name__)

ASK_SECONDS = 30.0
"""In which every process has asked at least twice."""
WRITE_SECONDS = 45.0
"""For the warm-up of a profiler, 5 s, and for writing the file."""
LOOK_SECONDS = 0.25
MOST_FILES = 64
EMPTY = "empty"
"""The outcome of traces without any event."""
NO_GPU_WORK = "there is no GPU work in the trace: no kernel ran in it, or this PyTorch has no CUDA"


@dataclass(slots=True)
class _Request:
    id: str
    job_id: str
    uid: int
    order: TraceOrder
    untold: dict[bytes, Path]
    """The files of processes that have not asked yet, by address."""
    told: dict[bytes, Path] = field(default_factory=dict)
    told_at: float = 0.0
    arrived: list[Path] = field(default_factory=list)
    state: str = "waiting"
    detail: str = ""
    trace: dict[str, Any] | None = None
    unread: dict[str, str] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    kept: list[Path] = field(default_factory=list)
    counted: PeakSums | None = None
    """What the counters had seen of the job before."""


class TraceDesk:
    """The agent's part of traces on demand. Any thread may call it."""

    def __init__(
        self,
        folder: Path,
        snapshot: Callable[[], Snapshot | None],
        submit: Callable[[str, dict[str, Any], Mapping[str, float]], object],
    ) -> None:
        """`submit` takes a job's id, its trace, and what the counters saw of it meanwhile."""
        self.folder = folder
        self.registry = ProcessRegistry()
        self.outcomes: Counter[str] = Counter()
        self.problem = ""
        """Why no trace can be taken; "" where one can."""
        self._snapshot, self._submit = snapshot, submit
        self._lock = threading.Lock()
        self._request: _Request | None = None
        self._last: _Request | None = None

    def counts(self) -> dict[str, int]:
        """What has happened, by name."""
        with self._lock:
            return {**self.outcomes, **self.registry.refused}

    def ask(self, job_id: str, order: TraceOrder, asker: TraceAsker) -> TraceAnswer:
        """Begin a trace, or say how one stands. Raises TraceRefused where the asker may not, or it cannot be."""
        if self.problem:
            raise TraceRefused(503, self.problem)
        job = self._job(job_id)
        owner = uid_of(job.user) if job.user else None
        with self._lock:
            if order.request:
                return self._standing(job, order.request, asker)
            processes, uid = self._of_owner(job, owner, asker)
            if self._request is not None:
                detail = f"a trace of job {self._request.job_id} is being taken"
                raise TraceRefused(429, detail)
            request = self._request = self._last = _request(
                job_id, uid, order, processes, self.folder
            )
            request.counted = peak_sums(self._snapshot(), job_id)
        log.info(
            "trace: %d processes of job %s are asked for %g s, by %s",
            *(len(processes), job_id, order.seconds, asker.who),
        )
        threading.Thread(target=self._work, args=(request,), name="ofu-trace", daemon=True).start()
        return _answer(request)

    def configuration(self, process: Process) -> str:
        """What a process that asks is to record; "" = nothing."""
        with self._lock:
            request = self._request
            if request is None or process.peer.uid != request.uid or not process.can_record:
                return ""
            path = request.untold.pop(process.peer.address, None)
            if path is None or process.pid < 1:
                return ""
            request.told[process.peer.address] = path.with_name(f"{path.stem}_{process.pid}.json")
            request.told_at, request.state = time.monotonic(), "recording"
        return daemon_messages.configuration(str(path), round(request.order.seconds * 1000))

    def take_back(self, process: Process) -> None:
        """A configuration did not reach its process, which is to have it when it asks again."""
        with self._lock:
            if self._request and self._request.told.pop(process.peer.address, None):
                self._request.untold[process.peer.address] = _new_file(self.folder)

    def _job(self, job_id: str) -> Job:
        snapshot = self._snapshot()
        for view in snapshot.jobs if snapshot else ():
            if view.job.job_id == job_id and view.ended is None:
                return view.job
        detail = f"{job_id!r} holds no GPU that this agent measures"
        raise TraceRefused(404, detail)

    def _standing(self, job: Job, request_id: str, asker: TraceAsker) -> TraceAnswer:
        last = self._last
        if last is None or last.id != request_id or last.job_id != job.job_id:
            raise TraceRefused(404, "no such trace was asked for, or another one since")
        _check(last.uid, asker, job)
        return _answer(last)

    def _of_owner(
        self, job: Job, owner: int | None, asker: TraceAsker
    ) -> tuple[list[Process], int]:
        """The processes of a job's user, and that user. Raises TraceRefused."""
        job_id = job.job_id
        claiming = self.registry.of(job_id, time.monotonic(), job.pod_uids)
        may_ask = owner
        if owner is None and claiming:
            owner = self._owner_of(claiming, job_id)
            may_ask = owner if claiming[0].is_proven or not job.user else None
        _check(-1 if may_ask is None else may_ask, asker, job)
        processes = [each for each in claiming if each.peer.uid == owner]
        self.outcomes["foreign"] += len(claiming) - len(processes)
        wanted = set(asker.gpus or ())
        processes = [
            each
            for each in processes
            if (not wanted or each.gpu in wanted) and trace_files.is_held(each.peer.address)
        ][: asker.most or MOST_FILES]
        if not processes or owner is None:
            which = f" on GPU {', '.join(map(str, sorted(wanted)))}" if wanted else ""
            detail = (
                f"no process of job {job_id}{which} has asked for work in the last minute: it needs PyTorch 1.13 or "
                "newer, and KINETO_USE_DAEMON=1 and KINETO_IPC_SOCKET_DIR in its environment from its start on"
            )
            raise TraceRefused(409, detail)
        return processes, owner

    def _owner_of(self, claiming: list[Process], job_id: str) -> int:
        """The user of processes that the kernel says are of a job, or of root or this agent. Raises TraceRefused."""
        trusted = {0, os.geteuid()}
        users = Counter(
            each.peer.uid
            for each in claiming
            if each.is_proven or (each.peer.pid > 0 and each.peer.uid in trusted)
        )
        if users:
            return users.most_common(1)[0][0]
        self.outcomes["unproven"] += 1
        detail = (
            f"the user of job {job_id} is not known here, and processes only say that they are of it: no control group "
            "of Slurm or of a pod shows it (to see them, an agent in a container needs hostPID, and Slurm since 26.05 "
            "CgroupJobIdPaths=yes in cgroup.conf)"
        )
        raise TraceRefused(403, detail)

    def _work(self, request: _Request) -> None:
        """Wait for the files, read them, and tell the book."""
        outcome = "failed"
        try:
            outcome = self._taken(request)
            if outcome == EMPTY:
                self._ask_again(request)
                outcome = self._taken(request)
        except (OSError, ValueError, OfuError) as error:
            request.detail = str(error)
        except Exception as error:
            log.exception("trace of job %s", request.job_id)
            request.detail = f"{type(error).__name__}: see the agent's log"
        finally:
            self._close(request, outcome)

    def _taken(self, request: _Request) -> str:
        """What became of it."""
        self._wait(request)
        if not request.told:
            request.detail = f"no process has asked again within {ASK_SECONDS:g} s"
        elif not request.arrived:
            request.detail = (
                "no file came: the processes have ended, or cannot write to the agent's folder"
            )
        else:
            request.state = "reading"
            return self._read(request)
        return "failed"

    def _ask_again(self, request: _Request) -> None:
        """Have the same processes write other files: a profiler's first one has no events at times."""
        log.info("trace of job %s: it has no events, and is asked for once more", request.job_id)
        with self._lock:
            old, request.told = request.told, {}
            request.untold = {each: _new_file(self.folder) for each in old}
            request.began, request.state, request.arrived = time.monotonic(), "waiting", []
            request.detail = ""
        for path in old.values():
            trace_files.delete(path)

    def _wait(self, request: _Request) -> None:
        """Until every file is there that will come. A file takes its name when it is whole."""
        while True:
            time.sleep(LOOK_SECONDS)
            now = time.monotonic()
            with self._lock:
                told, waits = [*request.told.values()], bool(request.untold)
            request.arrived = [path for path in told if _is_there(path)]
            may_ask = waits and now - request.began < ASK_SECONDS
            comes = len(request.arrived) < len(told)
            in_time = now - request.told_at < request.order.seconds + WRITE_SECONDS
            if not may_ask and not (comes and in_time):
                return

    def _read(self, request: _Request) -> str:
        answer = trace_files.read(request.uid, request.arrived)
        request.unread = {
            str(name): str(why)[:300] for name, why in answer.get("unread", {}).items()
        }
        request.trace = answer.get("trace")
        if request.trace is not None:
            counted = peak_sums(self._snapshot(), request.job_id)
            counters = shares_between(request.counted, counted)
            self._submit(request.job_id, request.trace, counters)
            return "done"
        if len(request.unread) < len(request.arrived):
            request.detail = NO_GPU_WORK
            return EMPTY if answer.get("is_empty") else "no_gpu_work"
        request.detail = next(iter(request.unread.values()), "the files cannot be read")
        return "failed"

    def _close(self, request: _Request, outcome: str) -> None:
        with self._lock:
            paths = [*request.told.values()]
            request.kept = _kept(request, outcome)
            if self._request is request:
                self._request = None
            self.outcomes[outcome] += 1
        for path in paths:
            trace_files.delete(f"{path}.tmp")
            if path not in request.kept:
                trace_files.delete(path)
        request.state = "failed" if outcome == "failed" else "done"
        log.info("trace of job %s: %s", request.job_id, request.detail or request.state)
        for path in request.kept:
            log.info("trace of job %s: %s is kept for a day", request.job_id, path)


def _request(
    job_id: str, uid: int, order: TraceOrder, processes: list[Process], folder: Path
) -> _Request:
    files = {each.peer.address: _new_file(folder) for each in processes}
    return _Request(secrets.token_hex(8), job_id, uid, order, files)


def _new_file(folder: Path) -> Path:
    return folder / f"{secrets.token_hex(16)}.json"


def _answer(request: _Request) -> TraceAnswer:
    return TraceAnswer(
        request=request.id,
        job_id=request.job_id,
        state=request.state,
        detail=request.detail,
        processes=len(request.untold) + len(request.told),
        told=len(request.told),
        arrived=len(request.arrived),
        unread=request.unread,
        files=[str(each) for each in request.kept],
        trace=request.trace,
    )


def _check(owner: int, asker: TraceAsker, job: Job) -> None:
    """Whether somebody may ask; `owner` -1: it is not known whose the job is."""
    if not asker.is_site and asker.uid not in (0, owner):
        unknown = (
            f" (no user of this node is called {job.user!r})" if job.user and owner < 0 else ""
        )
        detail = (
            f"a trace of job {job.job_id} is for its own user{unknown}, root and the site, "
            "by the agent's Unix socket"
        )
        raise TraceRefused(403, detail)


def _kept(request: _Request, outcome: str) -> list[Path]:
    """The files that are left for the command: those that somebody wants, and those that were too large to be read."""
    is_wanted = request.order.keep or outcome == "failed"
    return [
        path
        for path in request.arrived
        if path.is_file() and not path.is_symlink() and (is_wanted or path.name in request.unread)
    ]


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True
