"""Writes the rows of a report for other programs: as CSV, or as Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.reports.result import FleetReport, GroupRow, JobRow

_DANGEROUS = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for a formula at the begin of a text."""


def rows(report: FleetReport) -> tuple[type[BaseModel], Sequence[BaseModel]]:
    """The rows that the report is by, and their kind: jobs, or groups of jobs."""
    return (JobRow, report.jobs) if report.by == "job" else (GroupRow, report.groups)


def as_csv(kind: type[BaseModel], members: Sequence[BaseModel]) -> str:
    """One line for each row; what is not known is an empty cell."""
    out = io.StringIO()
    names = list(kind.model_fields)
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for row in members:
        writer.writerow({name: cell(value) for name, value in row.model_dump().items()})
    return out.getvalue()


def as_parquet(kind: type[BaseModel], members: Sequence[BaseModel]) -> bytes:
    """The same as Parquet. Raises ConfigError without pyarrow."""
    try:
        import pyarrow  # noqa: PLC0415 - an extra: it is larger than all the rest
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            "Parquet needs the extra parquet: pip install 'ofu-exporter[parquet]'"
        ) from None
    data = [row.model_dump() for row in members]
    columns = {name: [row[name] for row in data] for name in kind.model_fields}
    out = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), out)
    return bytes(out.getvalue().to_pybytes())


def cell(value: Any) -> Any:
    """A value that no spreadsheet computes."""
    if isinstance(value, str) and value.startswith(_DANGEROUS):
        return f"'{value}"
    return "" if value is None else value
