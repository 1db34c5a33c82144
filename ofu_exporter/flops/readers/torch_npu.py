"""Reads torch_npu's kernel_details.csv: the sum of the column `aic_cube_fops`, FLOPs that the cube unit ran.

torch_npu.profiler writes it with aic_metrics=ArithmeticUtilization, one row per kernel of one card. The sum is what
the hardware executed, recomputation and padding included. So it makes HFU, and MFU only where neither occurs. A peak
of 354 TFLOP/s is 354e12, not 354 * 10e12 as one published example prints.
"""

from __future__ import annotations

import csv
import io
from dataclasses import replace

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.statements import JobFacts, Statement, mfu_of, number, some

COLUMN = "aic_cube_fops"
STEP = "Step Id"
_BLANK = frozenset({"", "N/A", "NA", "-"})
_NOTE = "executed FLOPs, recomputation and padding included: compare with HFU"


def read(text: str, job: JobFacts) -> list[Statement]:
    """One statement per step, or one for a file without step ids. HFU needs the job's peak and step time."""
    if "\0" in text:  # Python's csv refuses it before 3.11 and reads it since
        raise ConfigError("kernel_details.csv: not text, it has a NUL")
    rows = csv.DictReader(io.StringIO(text))
    header = [name.strip() for name in rows.fieldnames or []]
    rows.fieldnames = header
    if COLUMN not in header:
        raise ConfigError(
            f"kernel_details.csv: no column {COLUMN}; profile with aic_metrics=ArithmeticUtilization. "
            f"Columns: {', '.join(header)}"
        )
    sums: dict[int | None, float] = {}
    for line, row in enumerate(rows, start=2):
        value = (row[COLUMN] or "").strip()
        if value not in _BLANK:
            text = (row.get(STEP) or "").strip()
            step = None if text in _BLANK else int(number(text, f"line {line}: {STEP}"))
            sums[step] = sums.get(step, 0.0) + number(value, f"line {line}: {COLUMN}")
    return some([_statement(*each, job) for each in sums.items()], f"value of {COLUMN}")


def _statement(step: int | None, flops: float, job: JobFacts) -> Statement:
    seconds = job.step_seconds
    one = Statement(step, flops=flops, seconds=seconds, notes=(_NOTE,))
    rate = None if seconds is None else flops / seconds
    return replace(one, flops_per_second=rate, hfu=mfu_of(rate, job))
