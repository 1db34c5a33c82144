"""Reads a table of Nsight Compute, which has the hardware's counts for each launch and no shapes.

Metrics such as `sm__ops_path_tensor_src_bf16_dst_fp32.sum` count the FLOPs of the tensor pipes, by the types of
operands and sum. Counts of instructions (`sm__inst_executed_pipe_tensor...`) aren't used, because instructions differ
in their FLOPs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.traces.formats import NO_SHAPE, KernelTally, Profile, amount, csv_rows, has_row
from ofu_exporter.values.trace import UNLIMITED, TraceLimits

MADE_BY = (
    "ncu --csv --page raw --print-units base "
    "--metrics gpu__time_duration.sum,regex:sm__ops_path_tensor_src_.* ..."
)

KERNEL, METRIC, VALUE, UNIT = "Kernel Name", "Metric Name", "Metric Value", "Metric Unit"
TIME = "gpu__time_duration.sum"
SECONDS = {"second": 1.0, "msecond": 1e-3, "usecond": 1e-6, "nsecond": 1e-9}
SCALED = ("K", "M", "G", "T", "P")
"""First letters of units with a decimal prefix, such as thousands or millions."""
SECONDS |= {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

_FLOPS = re.compile(
    r"sm__ops_path_tensor_src_(?P<source>fp64|tf32|bf16|fp16|fp8|fp6|fp4|int8|int4)"
    r"(?:_dst_(?P<sum>fp\d+|bf16|int32))?(?:_sparsity_(?P<sparsity>on|off))?\.sum$"
)

Metrics = Mapping[str, tuple[str, str]]
"""Value and unit by metric."""


def recognises(head: bytes) -> bool:
    """Whether a line of the file names the columns that are read."""
    return has_row(head, _is_heading)


def read(path: Path, limits: TraceLimits = UNLIMITED) -> Profile:
    """The profile in a table. Raises ConfigError, which names the file, also where it has no counter of FLOPs."""
    tally = KernelTally()
    counters = False
    with csv_rows(path) as lines:
        for kernel, metrics in _launches(lines):
            counters = counters or any(map(_FLOPS.match, metrics))
            seconds, flops = _seconds(path, metrics), _flops(path, metrics)
            tally.add(kernel, seconds, why=NO_SHAPE, flops=flops)
    if not counters:
        raise ConfigError(f"{path} has no counter of tensor FLOPs: record with {MADE_BY}")
    return tally.profile("ncu")


def _is_heading(row: list[str]) -> bool:
    return KERNEL in row and "ID" in row


def _launches(rows: Iterator[list[str]]) -> Iterator[tuple[str, Metrics]]:
    """Kernel and metrics of each launch. A launch is one row or, in the longer form, a row for each metric."""
    heading = next(filter(_is_heading, rows))  # the program's own output may come before it
    named = (dict(zip(heading, row, strict=False)) for row in rows if len(row) == len(heading))
    if METRIC in heading:
        for _, group in groupby(named, lambda row: (row["ID"], row[KERNEL])):
            metrics = list(group)
            of_each = {row[METRIC]: (row[VALUE], row.get(UNIT, "")) for row in metrics}
            yield metrics[0][KERNEL], of_each
        return
    units: Mapping[str, str] = next(named, {})  # the row below the names has the units
    for row in named:
        yield row[KERNEL], {name: (value, units.get(name, "")) for name, value in row.items()}


def _seconds(path: Path, metrics: Metrics) -> float:
    value, unit = metrics.get(TIME, ("0", "ns"))
    if unit not in SECONDS:
        raise ConfigError(
            f"{path}: {TIME}: {unit!r} is no unit of time; known: {', '.join(SECONDS)}"
        )
    return amount(path, value) * SECONDS[unit]


def _flops(path: Path, metrics: Metrics) -> dict[str, int]:
    """FLOPs by precision. If the file has both a sum and its parts, the sum is used."""
    by_kernel: dict[str, dict[tuple[str, str], int]] = {}
    for name, (value, unit) in metrics.items():
        match = _FLOPS.match(name)
        if match and value.strip():
            key = (match["sum"] or "", match["sparsity"] or "")
            by_kernel.setdefault(match["source"], {})[key] = _whole(path, name, value, unit)
    totals = {source: _total(parts) for source, parts in by_kernel.items()}
    return {source: total for source, total in totals.items() if total}


def _total(parts: Mapping[tuple[str, str], int]) -> int:
    """FLOPs with one kind of operands, from one counter of all or from counters by the type of the sum."""
    sums = {key[0] for key in parts}
    chosen: Iterable[str] = [""] if "" in sums else sums
    return sum(
        parts[each, ""]
        if (each, "") in parts
        else parts.get((each, "on"), 0) + parts.get((each, "off"), 0)
        for each in chosen
    )


def _whole(path: Path, name: str, text: str, unit: str) -> int:
    """A whole count. A count in thousands or millions has lost digits, and a point may be another language's comma."""
    value = amount(path, text)
    if unit[:1] in SCALED or not value.is_integer():
        raise ConfigError(
            f"{path}: {name}: {text!r} {unit} is no whole count: record with LC_ALL=C and {MADE_BY}"
        )
    return int(value)
