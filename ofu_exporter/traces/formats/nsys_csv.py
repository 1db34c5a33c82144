"""Reads a table of Nsight Systems, by kernel (`cuda_gpu_kern_sum`) or launch (`cuda_gpu_trace`); it has no shapes."""

from __future__ import annotations

from pathlib import Path

from ofu_exporter.traces.formats import NO_SHAPE, KernelTally, Profile, amount, csv_rows, has_row
from ofu_exporter.values.trace import UNLIMITED, TraceLimits

MADE_BY = "nsys stats --report cuda_gpu_kern_sum --format csv report.nsys-rep"

TIMES = ("Total Time (ns)", "Duration (ns)")
"""Columns of the time of all launches of a kernel, or of one launch."""
NAME = "Name"


def recognises(head: bytes) -> bool:
    """Whether a line of the file names the columns that are read."""
    return has_row(head, _is_heading)


def read(path: Path, limits: TraceLimits = UNLIMITED) -> Profile:
    """The profile in a table. Raises ConfigError, which names the file."""
    tally = KernelTally()
    with csv_rows(path) as lines:
        heading = next(filter(_is_heading, lines))  # notices of nsys may come before it
        name, time = heading.index(NAME), heading.index(next(t for t in TIMES if t in heading))
        number = heading.index("Instances") if "Instances" in heading else None
        for row in lines:
            if len(row) == len(heading):
                launches = 1 if number is None else round(amount(path, row[number]))
                tally.add(row[name], amount(path, row[time]) / 1e9, launches, why=NO_SHAPE)
    return tally.profile("nsys_csv")


def _is_heading(row: list[str]) -> bool:
    return NAME in row and any(time in row for time in TIMES)
