"""Reads the job mapping that prologs write for NVIDIA's dcgm-exporter, for sites that already have one.

There is one file per GPU, named by the GPU's number, or `N.M` for GPU instance M of GPU N. Every line is
the id of a job that has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ofu_exporter.schedulers.slurm.job_files import SCHEDULER, is_job_id
from ofu_exporter.schedulers.slurm.trusted_files import Contents, Refused, read_all
from ofu_exporter.values.job import Claim, Job
from ofu_exporter.values.reasons import ClaimRejection

_DEVICE = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?")


def read(directory: Path) -> Contents[tuple[str, ...]]:
    """The job ids of every device; nothing when there is no directory. Raises SchedulerError."""
    return read_all(directory, parse, _order)


def _order(name: str) -> int | None:
    """Sort key by the GPU; None for other names, such as that of a lock, which dcgm-exporter ignores too."""
    match = _DEVICE.fullmatch(name)
    return int(match[1]) if match else None


def parse(_name: str, text: str) -> tuple[str, ...]:
    """The ids in the file of one device. Raises Refused."""
    ids = dict.fromkeys(text.split())
    for job_id in ids:
        if not is_job_id(job_id):
            raise Refused(ClaimRejection.BAD_JOB_ID, "a line is not the number of a job")
    return tuple(ids)


def claims(devices: Mapping[str, tuple[str, ...]]) -> list[Claim]:
    """The claims of the jobs in the files; only a job's id is known."""
    by_job: dict[str, list[str]] = {}
    for device, ids in sorted(devices.items()):
        for job_id in ids:
            by_job.setdefault(job_id, []).append(device)
    return [Claim(Job(SCHEDULER, job_id), tuple(names)) for job_id, names in sorted(by_job.items())]
