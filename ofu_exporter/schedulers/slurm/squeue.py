"""Asks Slurm about one job, and waits only a short time for the answer."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.values.instant import UNIX_LIMIT

ASK_SECONDS = 0.4
"""Time for one question. An answer takes some milliseconds; a slower controller is overloaded."""

_USUAL_PLACES = (
    "/usr/bin",
    "/usr/local/bin",
    "/opt/slurm/bin",
    "/opt/slurm/current/bin",
    "/usr/local/slurm/bin",
    "/cm/shared/apps/slurm/current/bin",
)

_ENDED = frozenset({"BF", "CA", "CD", "DL", "F", "NF", "OOM", "PR", "TO"})
_QUEUED_AGAIN = frozenset({"PD", "RD", "RF", "RH", "RV", "SE"})
_COMPLETING = frozenset({"CG", "RQ"})
"""States in which processes are being ended, or an epilog runs, on some node of the job."""

_FIELDS = ("%A", "%t", "%F", "%K", "%S", "%e", "%a", "%b", "%i", "%j")
_SHARES = re.compile(r"\bgres[:/](?:shard|mps)\b")
_BEGIN, _NEXT = ":", ","
"""The characters after a mark, at the beginning of a job or of its next field."""


class SqueueJob(NamedTuple):
    """Slurm's answer about a job; empty where Slurm says nothing."""

    state: str = ""
    """The state in squeue's abbreviation; "" if Slurm does not know the job, or no longer knows it."""
    array_job_id: str = ""
    array_task_id: str = ""
    started: float | None = None
    ends: float | None = None
    account: str = ""
    name: str = ""
    component: str = ""
    """`8+1`: the second part of the heterogeneous job 8; "" for any other job."""
    has_shares: bool = False
    """Whether the job asked for shards or for a part of MPS, and so has no GPU to itself."""

    @property
    def is_over(self) -> bool:
        """Whether the job runs nowhere. States that newer Slurms invent do not count as over."""
        return not self.state or self.state in _ENDED or self.state in _QUEUED_AGAIN

    @property
    def is_completing(self) -> bool:
        """Whether the job is over on some of its nodes; Slurm does not tell on which."""
        return self.state in _COMPLETING


class Squeue:
    """Asks squeue until the time is over or a question gets no answer; after that it asks no more."""

    def __init__(
        self, environ: Mapping[str, str], folder: str = "", seconds: float = ASK_SECONDS
    ) -> None:
        """`folder` is where squeue is, if not in a usual place; `seconds` are for one question, 0 = ask none."""
        self._program = find_squeue(environ, folder)
        conf = environ.get("SLURM_CONF")
        self._environ = {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}  # times as Unix seconds
        if conf:
            self._environ["SLURM_CONF"] = conf
        self._seconds = seconds
        # One question may take `seconds`, and all questions together less than twice that.
        self._deadline = time.monotonic() + 1.75 * seconds
        is_lost = seconds > 0 and not self._program
        self.problem = "squeue was not found: say where with --slurm-bin" if is_lost else ""
        """Why the last question has no answer."""

    def ask(self, job_id: str) -> SqueueJob | None:
        """Slurm's answer about the job now; None when Slurm could not be asked."""
        seconds = min(self._seconds, self._deadline - time.monotonic())
        if self.problem or seconds <= 0:
            return None
        # A random mark separates fields and jobs. A job name may have any character and several lines, but without
        # the mark it cannot pass for another field or job. (`scontrol show job` can be forged that way.) The name is
        # last anyway.
        mark = os.urandom(8).hex()
        # One job id alone makes Slurm send that job only (or its array); a list of ids, all jobs.
        command = (
            *(self._program, "--noheader", "--local", "--states=all"),
            *(f"--jobs={job_id}", f"--format={mark}{_BEGIN}{(mark + _NEXT).join(_FIELDS)}"),
        )
        try:
            code, output, errors = _run(command, self._environ, seconds)
        except OSError as error:
            self.problem = f"Slurm was not asked: {error}"
            return None
        if "Invalid job id" in errors:
            return SqueueJob()
        answer = parse(output, mark, job_id) if code == 0 else None
        if answer is None:
            self.problem = f"Slurm does not answer: {' '.join((errors or output).split())}"
        return answer


def parse(text: str, mark: str, job_id: str) -> SqueueJob | None:
    """The answer about one job, among those about other tasks of its array; None for text that is no answer."""
    records = text.split(mark + _BEGIN)[1:]
    if text.strip() and not records:
        return None
    for record in records:
        fields = record.removesuffix("\n").split(mark + _NEXT)
        if len(fields) != len(_FIELDS):
            return None
        if fields[0] == job_id:
            _, state, array_job, array_task, started, ends, account, gres, shown, name = fields
            is_task = array_task.isdigit()
            return SqueueJob(
                state=state,
                array_job_id=array_job if is_task else "",
                array_task_id=array_task if is_task else "",
                started=unix_time(started),
                ends=unix_time(ends),
                account="" if account == "(null)" else account,
                name="" if name == "(null)" else name,
                component=shown if "+" in shown else "",
                has_shares=bool(_SHARES.search(gres)),
            )
    return SqueueJob()


def unix_time(text: str | None) -> float | None:
    """The Unix time that Slurm wrote; None for `NONE` and `N/A`: no time limit, or not yet started."""
    with suppress(ValueError):
        seconds = float(text or 0)
        if 0 < seconds < UNIX_LIMIT:
            return seconds
    return None


def find_squeue(environ: Mapping[str, str], folder: str = "") -> str:
    """Where squeue is; "" when it is nowhere. Slurm's hooks have no PATH."""
    for place in _places(environ, folder):
        program = os.path.join(place, "squeue")
        if os.access(program, os.X_OK):
            return program
    return ""


def _places(environ: Mapping[str, str], folder: str) -> Sequence[str]:
    if folder:
        return [folder]
    places = [*_USUAL_PLACES, *filter(None, environ.get("PATH", "").split(":"))]
    if conf := environ.get("SLURM_CONF"):
        beside = Path(conf).parent  # PREFIX/etc/slurm.conf has its commands in PREFIX/bin
        places = [str(beside.parent / "bin"), str(beside), *places]
    return places


def _run(
    command: Sequence[str], environ: Mapping[str, str], seconds: float
) -> tuple[int, str, str]:
    """Its exit status, output and errors. Raises OSError, which is a TimeoutError when the time is over.

    A command that takes longer is killed, and everything that it started.
    """
    import signal  # noqa: PLC0415 - as below
    import subprocess  # noqa: PLC0415 - a hook that does not ask Slurm need not load it

    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        # The whole group is killed: where the command is a script, its children hold the pipes.
        os.killpg(process.pid, signal.SIGKILL)
        for pipe in filter(None, (process.stdout, process.stderr)):
            pipe.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)  # only a moment
        raise TimeoutError(str(error)) from error
    return process.returncode, output.decode(errors="replace"), errors.decode(errors="replace")
