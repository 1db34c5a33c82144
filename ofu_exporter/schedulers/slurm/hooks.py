"""What Slurm's Prolog and Epilog do on a node: note which GPUs a job got, and clear away what is over.

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
from ofu_exporter.schedulers.slurm import job_files, job_tokens
from ofu_exporter.schedulers.slurm.job_files import MAX_GPUS, SCHEDULER, JobFile
from ofu_exporter.schedulers.slurm.squeue import SqueueJob
from ofu_exporter.support.boot import boot_id
from ofu_exporter.values.job import Claim, Job

DRIVER = Path("/proc/driver/nvidia/gpus")

Ask = Callable[[str], SqueueJob | None]
"""Says what Slurm knows of a job; None when it cannot be asked."""

_UUID = re.compile(r"(?:GPU|MIG)-\S+")
_NUMBERS = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
_INFORMATION = re.compile(r"^(GPU UUID|Device Minor):\s*(\S+)\s*$", re.MULTILINE)


class Node(NamedTuple):
    """Where things are on this node."""

    directory: Path
    """Of the job files."""
    driver: Path = DRIVER
    tokens: Path | None = None
    """Directory of the jobs' tokens; none are made without."""


def start(
    node: Node, job_id: str, environ: Mapping[str, str], ask: Ask, now: float
) -> JobFile | None:
    """Write the file of a job that begins, if it has a GPU. Raises OSError and SchedulerError."""
    gpus = devices(environ, node.driver)
    file, problem = None, None
    if gpus:
        file = describe(job_id, gpus, environ, ask, now)
        others = sweep(node, ask, now, job_id, gpus)
        file, problem = _with_token(node, file, environ.get("SLURM_JOB_UID"))
        job_files.write(node.directory, file)
    else:
        others = sweep(node, ask, now, job_id)
    job_files.remove_temporaries(node.directory, now)
    if problem is not None:
        raise problem  # only now: the job has its file all the same
    _sweep_tokens(node, {*others, job_id}, now)
    return file


def _with_token(
    node: Node, file: JobFile, user_id: str | None
) -> tuple[JobFile, OSError | SchedulerError | None]:
    """The file of a job that was given a token, or why it was not."""
    if node.tokens is None:
        return file, None
    job = file.claim.job
    try:
        digest = job_tokens.issue(node.tokens, job.job_id, user_id)
    except (OSError, SchedulerError) as error:
        return file, error
    claim = replace(file.claim, job=replace(job, token_sha256=digest))
    return file._replace(claim=claim), None


def stop(node: Node, job_id: str, ask: Ask, now: float) -> bool:
    """Remove the file of a job that ended; whether it had one. Raises OSError and SchedulerError."""
    removed = job_files.remove(node.directory, job_id)
    others = sweep(node, ask, now, job_id)
    job_files.remove_temporaries(node.directory, now)
    if node.tokens is not None:
        job_tokens.remove(node.tokens, job_id)
    _sweep_tokens(node, others, now)
    return removed


def _sweep_tokens(node: Node, jobs: set[str], now: float) -> None:
    if node.tokens is not None:
        job_files.remove_temporaries(node.tokens, now)
        job_tokens.remove_orphans(node.tokens, jobs, now)


def sweep(node: Node, ask: Ask, now: float, job_id: str, gpus: tuple[str, ...] = ()) -> set[str]:
    """Remove the files of jobs that are over though no epilog said so; the other jobs that still have one.

    In question are jobs of an earlier boot, those past their time limit, and, at the start of
    another, those that have one of its GPUs. What Slurm cannot be asked about stays.
    """
    boot = boot_id()
    left = set()
    for file in job_files.read(node.directory).values.values():
        other = file.claim.job.job_id
        if other == job_id:
            continue
        left.add(other)
        contested = not set(gpus).isdisjoint(file.claim.devices)
        overdue = file.ends is not None and file.ends < now
        if (boot and file.boot_id not in ("", boot)) or (
            (contested or overdue) and _is_over(ask(other), contested)
        ):
            with suppress(OSError):
                job_files.remove(node.directory, other)
                left.remove(other)
    return left


def _is_over(answer: SqueueJob | None, contested: bool) -> bool:
    """A completing job may still end here, by its own epilog.

    Not so when its GPU has been given to another: Slurm does that after the job's epilog on this
    node, so it completes on other nodes only, and its file was left behind.
    """
    if answer is None:
        return False
    return answer.is_over or (contested and answer.is_completing)


def describe(
    job_id: str, gpus: tuple[str, ...], environ: Mapping[str, str], ask: Ask, now: float
) -> JobFile:
    """The job as its environment tells of it; what is not there, Slurm is asked for."""
    get = environ.get
    known = get("SLURM_JOB_NAME") and get("SLURM_JOB_START_TIME")
    told = (None if known else ask(job_id)) or SqueueJob()
    started = _seconds(get("SLURM_JOB_START_TIME")) or told.started or float(int(now))
    job = Job(
        scheduler=SCHEDULER,
        job_id=job_id,
        name=get("SLURM_JOB_NAME") or told.name,
        user=get("SLURM_JOB_USER", ""),
        account=get("SLURM_JOB_ACCOUNT") or told.account,
        partition=get("SLURM_JOB_PARTITION", ""),
        array_job_id=get("SLURM_ARRAY_JOB_ID") or told.array_job_id,
        array_task_id=get("SLURM_ARRAY_TASK_ID") or told.array_task_id,
        nodes=get("SLURM_JOB_NODELIST") or get("SLURM_NODELIST", ""),
        started=started,
    )
    ends = _seconds(get("SLURM_JOB_END_TIME")) or told.ends
    return JobFile(Claim(job, gpus), ends, boot_id())


def _seconds(text: str | None) -> float | None:
    with suppress(ValueError):
        seconds = float(text or 0)
        return seconds if 0 < seconds < 1e11 else None
    return None


def devices(environ: Mapping[str, str], driver: Path = DRIVER) -> tuple[str, ...]:
    """The job's GPUs, by uuid where it can be told; empty when it has none.

    CUDA_VISIBLE_DEVICES counts where it holds uuids: newer Slurms put them there, and only it names
    a MIG instance. Its numbers do not count as long as there is SLURM_JOB_GPUS: they begin anew
    from 0 in every job where Slurm constrains devices by cgroup.
    """
    visible = _words(environ.get("CUDA_VISIBLE_DEVICES", ""))
    if visible and all(_UUID.fullmatch(word) for word in visible):
        return tuple(dict.fromkeys(visible))
    given = environ.get("SLURM_JOB_GPUS")
    words = visible if given is None else _words(given)
    numbers = dict.fromkeys(chain.from_iterable(_numbers(word) for word in words))
    if not numbers:
        return ()
    uuids = uuids_by_minor(driver)
    return tuple(uuids.get(number, str(number)) for number in numbers)[:MAX_GPUS]


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s,]+", text) if word]


def _numbers(word: str) -> Iterator[int]:
    """`3`, `0-3`, `gpu:0`, `gpu:h100:0-3`; nothing for `NoDevFiles` and the like."""
    if match := _NUMBERS.fullmatch(word.rpartition(":")[2]):
        first, last = int(match[1]), int(match[2] or match[1])
        yield from range(first, min(last, first + MAX_GPUS) + 1)


def uuids_by_minor(driver: Path = DRIVER) -> dict[int, str]:
    """The uuid of every /dev/nvidiaN, as the driver shows it in /proc: no call of the driver is made."""
    found = {}
    with suppress(OSError):
        for folder in driver.iterdir():
            with suppress(OSError, UnicodeDecodeError):
                lines = (folder / "information").read_text(encoding="utf-8")
                told = dict(_INFORMATION.findall(lines))
                uuid, minor = told.get("GPU UUID", ""), told.get("Device Minor", "")
                if minor.isdecimal() and _UUID.fullmatch(uuid) and "?" not in uuid:
                    found[int(minor)] = uuid
    return found
