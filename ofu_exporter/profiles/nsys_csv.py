"""A table of Nsight Systems, by kernel (`cuda_gpu_kern_sum`) or by launch (`cuda_gpu_trace`); it has no shapes."""

from __future__ import annotations

import csv
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.profiles import NO_SHAPE, Profile, Tally, naming, rows_of

MADE_BY = "nsys stats --report cuda_gpu_kern_sum --format csv report.nsys-rep"

TIMES = ("Total Time (ns)", "Duration (ns)")
"""Of all launches of a kernel, or of one."""
NAME = "Name"


def recognises(head: bytes) -> bool:
    """Whether a line of it names the columns that are read."""
    return any(map(_is_heading, rows_of(head)))


def read(path: Path) -> Profile:
    """The profile in a table. Raises ConfigError that names the file."""
    tally = Tally()
    with naming(path, csv.Error), path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = csv.reader(file)
        heading = next(filter(_is_heading, rows))  # notices of nsys may stand before it
        name, time = heading.index(NAME), heading.index(next(t for t in TIMES if t in heading))
        number = heading.index("Instances") if "Instances" in heading else None
        for row in rows:
            if len(row) == len(heading):
                launches = 1 if number is None else _whole(path, row[number])
                tally.add(row[name], _whole(path, row[time]) / 1e9, launches, why=NO_SHAPE)
    return tally.profile("nsys_csv")


def _is_heading(row: list[str]) -> bool:
    return NAME in row and any(time in row for time in TIMES)


def _whole(path: Path, text: str) -> int:
    try:
        return int(text.replace(",", ""))
    except ValueError as error:
        raise ConfigError(f"{path}: {text!r} is not a number of launches or nanoseconds") from error
