"""Does the work of Slurm's Prolog and Epilog on a node: notes which GPUs a job got, and removes what is over.

A job with GPUs also gets a token, with which it may report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.slurm import ended_files, job_files, job_tokens
from ofu_exporter.schedulers.slurm.job_files import MAX_GPUS, SCHEDULER, JobFile
from ofu_exporter.schedulers.slurm.squeue import SqueueJob, unix_time
from ofu_exporter.support.boot import boot_id
from ofu_exporter.values.job import Claim, Job

DRIVER = Path("/proc/driver/nvidia/gpus")

JUST_NOW_SECONDS = 60.0
"""A job that ended less than this before its epilog asks ended by that epilog."""

Ask = Callable[[str], SqueueJob | None]
"""Asks Slurm about a job; returns None when Slurm cannot be asked."""

_UUID = r"(?:GPU|MIG)-\S+"
_NUMBERS = r"(\d{1,4})(?:-(\d{1,4}))?"
_INFORMATION = r"(?m)^(GPU UUID|Device Minor):\s*(\S+)\s*$"
"""Patterns that `re` compiles when they are used."""


class Node(NamedTuple):
    """The places of this node that the hooks read and write."""

    directory: Path
    """Directory of the job files."""
    tokens: Path
    """Directory of the jobs' tokens."""
    driver: Path = DRIVER


def start(
    node: Node,
    job_id: str,
    environ: Mapping[str, str],
    ask: Ask,
    now: float,
    noted: float | None = None,
) -> JobFile | None:
    """Write the file of a job that begins, if it has a GPU; returns what is known of the job.

    The file is written at once, and again with the token and Slurm's answer. `noted` is when hook.sh has
    written it before. A file that is gone by then belonged to a job that has ended, and stays away. Raises
    OSError and SchedulerError.
    """
    gpus = devices(environ, node.driver)
    if noted is None:
        noted = round(now, 3)
        if gpus:
            first = _described(job_id, gpus, environ, SqueueJob(), noted)
            job_files.write(node.directory, first)
    file = describe(job_id, gpus, environ, ask, noted) if gpus else None
    others = sweep(node, ask, now, job_id, gpus)
    problem = None
    if file is not None:
        file, problem = _with_token(node, file, environ.get("SLURM_JOB_UID"))
        if not _rewrite(node, file):
            job_tokens.remove(node.tokens, job_id)
    job_files.remove_temporaries(node.directory, now)
    if problem is not None:
        raise problem  # raised only now, so that the job has its file all the same
    job_tokens.remove_orphans(node.tokens, {*others, job_id}, now)
    return file


def _rewrite(node: Node, file: JobFile) -> bool:
    """Write a job's file again if it is still there; whether the job has it now.

    An epilog may move it away at any moment: whoever writes after that sees what the epilog has left.
    """
    job_id = file.claim.job.job_id
    # While the file is there, these are of earlier runs: a requeued job may begin in the second in which it ended.
    earlier = ended_files.runs(node.directory, job_id)
    if file.noted is None or job_files.noted(node.directory, job_id) != file.noted:
        return False
    job_files.write(node.directory, file)
    if ended_files.runs(node.directory, job_id) - earlier:
        job_files.remove(node.directory, job_id)
        return False
    return True


def _with_token(
    node: Node, file: JobFile, user_id: str | None
) -> tuple[JobFile, OSError | SchedulerError | None]:
    """The file of a job with a token, or the unchanged file and why there is no token."""
    job = file.claim.job
    try:
        digest = job_tokens.issue(node.tokens, job.job_id, user_id)
    except (OSError, SchedulerError) as error:
        return file, error
    claim = replace(file.claim, job=replace(job, token_sha256=digest))
    return file._replace(claim=claim), None


def stop(node: Node, job_id: str, ask: Ask, now: float, is_aside: bool = False) -> bool:
    """Put the file of a job that ended aside; whether it has or had one. Raises OSError and SchedulerError.

    `is_aside` is whether hook.sh has done so. The job's next run may have begun since: its file and token stay.
    """
    had_file = not is_aside and ended_files.put_aside(node.directory, job_id, now)
    had_file |= ended_files.has_ended_since(node.directory, job_id, now - JUST_NOW_SECONDS)
    others = sweep(node, ask, now, job_id)
    job_files.remove_temporaries(node.directory, now)
    ended_files.remove_oldest(node.directory)
    if not (node.directory / f"{job_id}.json").exists():
        job_tokens.remove(node.tokens, job_id)
    job_tokens.remove_orphans(node.tokens, others, now)
    return had_file


def sweep(node: Node, ask: Ask, now: float, job_id: str, gpus: tuple[str, ...] = ()) -> set[str]:
    """Remove the files of jobs that ended without their epilog; returns the other jobs that still have a file.

    Jobs may have ended that are of an earlier boot, past their time limit, or, at the start of another job,
    have one of its GPUs. A file stays when Slurm cannot be asked about its job.
    """
    boot = boot_id()
    left = set()
    for file in job_files.read(node.directory).values.values():
        other = file.claim.job.job_id
        if other == job_id:
            continue
        left.add(other)
        contested = not set(gpus).isdisjoint(map(job_files.whole, file.claim.devices))
        overdue = file.ends is not None and file.ends < now
        if (boot and file.boot_id not in ("", boot)) or (
            (contested or overdue) and _is_over(ask(other), contested)
        ):
            with suppress(OSError):
                job_files.remove(node.directory, other)
                left.remove(other)
    return left


def _is_over(answer: SqueueJob | None, contested: bool) -> bool:
    """Whether a job is over here. A completing job may still end here, by its own epilog.

    That is not so when its GPU has been given to another job: Slurm does this after the first job's epilog
    on this node. Then that job completes on other nodes only, and its file was left behind.
    """
    if answer is None:
        return False
    return answer.is_over or (contested and answer.is_completing)


def describe(
    job_id: str, gpus: tuple[str, ...], environ: Mapping[str, str], ask: Ask, noted: float
) -> JobFile:
    """The job as its environment describes it; Slurm is asked for what is missing there."""
    is_known = environ.get("SLURM_JOB_NAME") and environ.get("SLURM_JOB_START_TIME")
    answer = (None if is_known else ask(job_id)) or SqueueJob()
    return _described(
        job_id, gpus, environ, answer._replace(started=answer.started or noted), noted
    )


def _described(
    job_id: str, gpus: tuple[str, ...], environ: Mapping[str, str], answer: SqueueJob, noted: float
) -> JobFile:
    """What the environment says comes first, then Slurm's answer."""
    get = environ.get
    job = Job(
        scheduler=SCHEDULER,
        job_id=job_id,
        name=get("SLURM_JOB_NAME") or answer.name,
        user=get("SLURM_JOB_USER", ""),
        account=get("SLURM_JOB_ACCOUNT") or answer.account,
        partition=get("SLURM_JOB_PARTITION", ""),
        array_job_id=get("SLURM_ARRAY_JOB_ID") or answer.array_job_id,
        array_task_id=get("SLURM_ARRAY_TASK_ID") or answer.array_task_id,
        nodes=get("SLURM_JOB_NODELIST") or get("SLURM_NODELIST", ""),
        started=unix_time(get("SLURM_JOB_START_TIME")) or answer.started,
        aliases=(answer.component,) if answer.component else (),
        restarts=_restarts(get("SLURM_JOB_RESTART_COUNT", "")),
    )
    if answer.has_shares or "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" in environ:
        gpus = tuple(map(job_files.share, gpus))
    ends = unix_time(get("SLURM_JOB_END_TIME")) or answer.ends
    return JobFile(Claim(job, gpus), ends, boot_id(), noted)


def _restarts(text: str) -> int | None:
    """The count that Slurm 22.05 and newer give a prolog; None where there is none."""
    return int(text) if re.fullmatch(r"[0-9]{1,5}", text) else None


def devices(environ: Mapping[str, str], driver: Path) -> tuple[str, ...]:
    """The job's GPUs, by uuid where it is known; empty when the job has none.

    CUDA_VISIBLE_DEVICES counts where it holds uuids: newer Slurms write them, and no other variable names a
    MIG instance. Numbers in it do not count where there is SLURM_JOB_GPUS: they begin at 0 in every job
    where Slurm constrains devices by cgroup.
    """
    visible = _words(environ.get("CUDA_VISIBLE_DEVICES", ""))
    if visible and all(re.fullmatch(_UUID, word) for word in visible):
        return tuple(dict.fromkeys(visible))
    of_job = environ.get("SLURM_JOB_GPUS")
    words = visible if of_job is None else _words(of_job)
    numbers = dict.fromkeys(chain.from_iterable(_numbers(word) for word in words))
    if not numbers:
        return ()
    uuids = uuids_by_minor(driver)
    return tuple(uuids.get(number, str(number)) for number in numbers)[:MAX_GPUS]


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _numbers(word: str) -> Iterator[int]:
    """The numbers in `3`, `0-3`, `gpu:0` or `gpu:h100:0-3`; none in `NoDevFiles` and the like."""
    if match := re.fullmatch(_NUMBERS, word.rpartition(":")[2]):
        first, last = int(match[1]), int(match[2] or match[1])
        yield from range(first, min(last, first + MAX_GPUS) + 1)


def uuids_by_minor(driver: Path) -> dict[int, str]:
    """The uuid of every /dev/nvidiaN, read in /proc: the driver itself is not called."""
    by_minor = {}
    with suppress(OSError):
        for folder in driver.iterdir():
            with suppress(OSError, UnicodeDecodeError):
                lines = (folder / "information").read_text(encoding="utf-8")
                facts = dict(re.findall(_INFORMATION, lines))
                uuid, minor = facts.get("GPU UUID", ""), facts.get("Device Minor", "")
                if minor.isdecimal() and re.fullmatch(_UUID, uuid) and "?" not in uuid:
                    by_minor[int(minor)] = uuid
    return by_minor
