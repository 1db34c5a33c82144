"""Decides which jobs are exempt: jobs in interactive partitions, short jobs, and memory-bound jobs."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from ofu_exporter.fleet.digest.config_file import Exemptions
from ofu_exporter.fleet.digest.signs import JobSigns
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.support.durations import lasting
from ofu_exporter.support.percent import percent


def exemption(row: JobRow, signs: JobSigns, wanted: Exemptions) -> str | None:
    """Why a job is exempt; None if it is not. An unknown value exempts no job."""
    for what, name, patterns in (
        ("partition", row.partition, wanted.partitions),
        ("name", row.job_name, wanted.job_names),
        ("user", row.user, wanted.users),
    ):
        if name and _fits(name, patterns):
            return f"its {what} is exempt"
    lasted = _seconds(row)
    if lasted is not None and lasted < wanted.shorter_than:
        return f"shorter than {lasting(wanted.shorter_than)}"
    busy = signs.dram_busy
    is_known = lasted is not None and 3600 * signs.dram_hours >= lasted / 2
    if wanted.dram_busy is not None and is_known and busy is not None and busy >= wanted.dram_busy:
        return f"memory-bound: memory was busy {percent(busy)} of the time"
    return None


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _seconds(row: JobRow) -> float | None:
    """How long the job held its GPUs; None if their number is not known."""
    return 3600 * row.held_gpu_hours / row.gpus if row.gpus else None
