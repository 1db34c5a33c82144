"""Writes and reads the job files, which say which job has which GPUs of this node.

Slurm's hooks write them and the agent reads them. There is one file per job, `JOBID.json`: one JSON
object with `version` 1, `job_id`, `gpus` (device names that `device_names.parse` understands; a shard ends in `::0`),
and, where they are known, `name`, `user`, `account`, `partition`, `array_job_id`, `array_task_id`, `component` (`8+1`:
of a heterogeneous job), `nodes`, `started`, `ends` (Unix seconds; `ends` by the time limit), `restarts` (how often the
job was requeued), `noted` (when the file was first written: it is written again when more is known of the job),
`first` (true until then), `boot_id` and `token_sha256` (of the token with which the job may report). A file is written
under a temporary name and renamed, so it is there as a whole or not at all.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ofu_exporter.schedulers.slurm.trusted_files import (
    Contents,
    UntrustedFileError,
    opened_folder,
    read_all,
)
from ofu_exporter.schedulers.slurm.trusted_files import read_trusted as read_text
from ofu_exporter.values.instant import UNIX_LIMIT
from ofu_exporter.values.job import Claim, Job
from ofu_exporter.values.reasons import ClaimRejection

DIRECTORY = Path("/run/ofu-exporter/jobs")
"""The default directory of the files. It is in memory, so it is empty after a reboot."""
SCHEDULER = "slurm"
VERSION = 1
MAX_CHARS = 256
MAX_GPUS = 1024
PROMPT_SECONDS = 2.0
"""A prolog that ran this soon after the start, which Slurm gives in whole seconds, tells when that was."""
_SHARE = "::0"
STALE_SECONDS = 60.0
"""A temporary file older than this was left by a writer that was killed."""

_JOB_ID = r"0|[1-9][0-9]{0,18}"
_TEMPORARY = r"\.[0-9]+\.[0-9a-f]+\.tmp"
_SHA256 = r"(?:[0-9a-f]{64})?"
"""Patterns that `re` compiles when they are used: a hook uses few of them."""
_TEXTS = ("name", "user", "account", "partition", "array_job_id", "array_task_id", "nodes")


class JobFile(NamedTuple):
    claim: Claim
    ends: float | None = None
    """Unix time at which the job's time limit ends, as it was at the job's start."""
    boot_id: str = ""
    noted: float | None = None
    """Unix time at which the prolog first wrote the file."""
    is_first: bool = False
    """Whether Slurm has not been asked about the job yet."""


def milliseconds(seconds: float) -> str:
    """A time as text, to the millisecond."""
    return f"{seconds:.3f}".removesuffix(".000")


def share(device: str) -> str:
    """The name of a share of a device, which other jobs may use as well."""
    return device if device.endswith(_SHARE) else device + _SHARE


def whole(device: str) -> str:
    """The name of the device, whether the job has all of it or a share."""
    return device.partition("::")[0]


def is_job_id(text: str) -> bool:
    return re.fullmatch(_JOB_ID, text) is not None


def clean(text: str) -> str:
    """The text in a form that a file may hold: a user's job name must not make the file unreadable."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return shown if len(shown) <= MAX_CHARS else shown[: MAX_CHARS - 3] + "..."


def write(directory: Path, file: JobFile) -> None:
    """Write a job's file in one step. Raises OSError and SchedulerError."""
    job = file.claim.job
    content = {
        "version": VERSION,
        "job_id": job.job_id,
        "gpus": list(file.claim.devices),
        **{name: clean(getattr(job, name)) for name in _TEXTS},
        "component": next((alias for alias in job.aliases if "+" in alias), ""),
        "started": job.started,
        "ends": file.ends,
        "restarts": job.restarts,
        "noted": file.noted,
        "boot_id": file.boot_id,
        "token_sha256": job.token_sha256,
    }
    make(directory)
    with opened_folder(directory) as folder:
        put(folder, f"{job.job_id}.json", json.dumps(content).encode())


def make(directory: Path, mode: int = 0o755) -> None:
    """Make the directory and its parents. The umask is ignored, because other users must be able to read them."""
    if directory.exists():
        return
    for folder in (*reversed(directory.parents), directory):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            folder.chmod(mode if folder == directory else 0o755)


def put(
    folder: int, name: str, content: bytes, mode: int = 0o644, owner: int | None = None
) -> None:
    """Write a file in one step, with its mode and owner. Raises OSError."""
    temporary = f".{name.partition('.')[0]}.{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            os.fchmod(handle, mode)
            if owner is not None:
                os.fchown(handle, owner, -1)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def remove(directory: Path, job_id: str) -> bool:
    """Remove a job's file; returns whether there was one. Raises OSError and SchedulerError."""
    try:
        with opened_folder(directory) as folder:
            os.unlink(f"{job_id}.json", dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def remove_temporaries(directory: Path, now: float) -> None:
    """Remove temporary files of writers that were killed. Raises OSError and SchedulerError."""
    with suppress(FileNotFoundError), opened_folder(directory) as folder:
        for name in os.listdir(folder):
            if re.fullmatch(_TEMPORARY, name):
                remove_stale(folder, name, now)


def remove_stale(folder: int, name: str, now: float) -> None:
    """Remove a file, unless it was written just now. Raises OSError."""
    with suppress(FileNotFoundError):
        if now - os.lstat(name, dir_fd=folder).st_mtime > STALE_SECONDS:
            os.unlink(name, dir_fd=folder)


def noted(directory: Path, job_id: str) -> float | None:
    """When the file of a job was first written; None if no file says so. Raises SchedulerError."""
    name = f"{job_id}.json"
    try:
        with opened_folder(directory) as folder:
            return parse(name, read_text(folder, name)).noted
    except (FileNotFoundError, UntrustedFileError):
        return None


def read(directory: Path) -> Contents[JobFile]:
    """Every file of the directory; nothing when there is none. Raises SchedulerError."""
    return read_all(directory, parse, _age_order)


def _age_order(name: str) -> int:
    """Sort key by the job's age: if there are too many files, those of the newest jobs are read."""
    stem = name.removesuffix(".json")
    return int(stem) if is_job_id(stem) else -1


def parse(name: str, text: str) -> JobFile:
    """The content of the file of this name. Raises UntrustedFileError."""
    stem = name.removesuffix(".json")
    if stem == name or not is_job_id(stem):
        raise UntrustedFileError(ClaimRejection.BAD_JOB_ID, "its name is not JOBID.json")
    content = _object(text)
    if content.get("version") != VERSION:
        raise UntrustedFileError(ClaimRejection.MALFORMED, f"version is not {VERSION}")
    if content.get("job_id") != stem:
        raise UntrustedFileError(ClaimRejection.BAD_JOB_ID, "job_id is not that of its name")
    started, noted = _time(content, "started"), _time(content, "noted")
    texts: dict[str, Any] = {key: _string(content, key) for key in _TEXTS}
    aliases = _aliases(texts, _string(content, "component"))
    job = Job(
        SCHEDULER,
        stem,
        started=_began(noted, started),
        uid=_run(noted, started),
        token_sha256=_sha256(content),
        aliases=aliases,
        restarts=_count(content, "restarts"),
        **texts,
    )
    ends, boot_id = _time(content, "ends"), _string(content, "boot_id")
    return JobFile(Claim(job, _gpus(content)), ends, boot_id, noted, content.get("first") is True)


def _aliases(texts: dict[str, Any], component: str) -> tuple[str, ...]:
    """The other names by which Slurm's commands know the job: `81_4`, `8+1`."""
    task = f"{texts['array_job_id']}_{texts['array_task_id']}"
    return tuple(filter(None, (task if len(task) > 1 else "", component)))


def _began(noted: float | None, started: float | None) -> float | None:
    """When the job began: to the second by Slurm, and closer where the prolog ran at once."""
    if started is None or noted is None:
        return noted if started is None else started
    return noted if 0.0 <= noted - started < PROMPT_SECONDS else started


def _run(noted: float | None, started: float | None) -> str:
    """Tells runs of one job id apart: a requeued job keeps its id, and old ids are used again.

    The shell's first file says when it was noted, and not yet when the job started: a run must be told from the one
    before by it.
    """
    first = started if noted is None else noted
    return "" if first is None else milliseconds(first)


def _object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UntrustedFileError(ClaimRejection.MALFORMED, f"not JSON: {error}") from error
    if not isinstance(content, dict):
        raise UntrustedFileError(ClaimRejection.MALFORMED, "not a JSON object")
    return content


def _string(content: dict[str, Any], key: str) -> str:
    value = content.get(key, "")
    _check(value, key)
    return str(value)


def _check(value: object, key: str) -> None:
    """Refuse a text that cannot become a label: one that is not printable, such as half a surrogate pair."""
    if not isinstance(value, str):
        raise UntrustedFileError(ClaimRejection.MALFORMED, f"{key} is not a string")
    if len(value) > MAX_CHARS or not value.isprintable():
        raise UntrustedFileError(ClaimRejection.MALFORMED, f"{key} is too long or not printable")


def _sha256(content: dict[str, Any]) -> str:
    value = content.get("token_sha256", "")
    if not isinstance(value, str) or not re.fullmatch(_SHA256, value):
        raise UntrustedFileError(ClaimRejection.MALFORMED, "token_sha256 is no SHA-256")
    return value


def _gpus(content: dict[str, Any]) -> tuple[str, ...]:
    gpus = content.get("gpus")
    if not isinstance(gpus, list) or not 0 < len(gpus) <= MAX_GPUS:
        raise UntrustedFileError(ClaimRejection.MALFORMED, "gpus is not a list of devices")
    for name in gpus:
        _check(name, "gpus")
    return tuple(dict.fromkeys(gpus))


def _count(content: dict[str, Any], key: str) -> int | None:
    value = content.get(key)
    if value is not None and (type(value) is not int or not 0 <= value < 1 << 32):
        raise UntrustedFileError(ClaimRejection.MALFORMED, f"{key} is not a count")
    return value


def _time(content: dict[str, Any], key: str) -> float | None:
    value = content.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UntrustedFileError(ClaimRejection.MALFORMED, f"{key} is not a number")
    if not (0 <= value < UNIX_LIMIT):  # no NaN either
        raise UntrustedFileError(ClaimRejection.MALFORMED, f"{key} is not a time")
    return float(value)
