"""Writes the rows of a report for other programs: as CSV, as Parquet, and per day with the columns of FOCUS.

Tools for cloud costs read FOCUS 1.0 (https://focus.finops.org/focus-specification/v1-0/); its columns are those that a
fleet of one's own can fill. As it asks, columns of our own begin with `x_`. A cost that nobody told is empty, and no 0.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.reports.result import DayRow, FleetReport, GroupRow, JobRow
from ofu_exporter.support.csv_text import csv_text
from ofu_exporter.support.extras import install_command


def rows(report: FleetReport) -> tuple[type[BaseModel], Sequence[BaseModel]]:
    """The rows that the report is by, and their kind: jobs, or groups of jobs with what belongs to no job."""
    if report.by == "job":
        return JobRow, report.jobs
    return GroupRow, [*report.groups, *([report.no_job] if report.no_job else [])]


FIRST = ("name", "job_id", "job_name")
"""What a row is of."""


def as_csv(report: FleetReport) -> str:
    """One line for each row, its name first, then the time and the currency; what is not known is an empty cell."""
    kind, members = rows(report)
    time = {"period_start": report.time.start, "period_end": report.time.end}
    about = {**time, "currency": report.currency}
    first = [name for name in FIRST if name in kind.model_fields]
    names = [*first, *about, *(name for name in kind.model_fields if name not in first)]
    return csv_text(({**about, **row.model_dump()} for row in members), names)


def as_parquet(report: FleetReport) -> bytes:
    """The rows as Parquet. Columns have their types and descriptions also where no value is known.

    Raises ConfigError without pyarrow.
    """
    try:
        import pyarrow  # noqa: PLC0415 - an extra: it is larger than all the rest
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            f"Parquet needs the library pyarrow: {install_command('parquet')}"
        ) from None
    kind, members = rows(report)
    types = {
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        bool: pyarrow.bool_(),
        str: pyarrow.string(),
    }
    fields = [
        pyarrow.field(
            name,
            types[_type(each)],
            metadata=each.description and {"description": each.description},
        )
        for name, each in kind.model_fields.items()
    ]
    about = {"currency": report.currency, "start": report.time.start, "end": report.time.end}
    schema = pyarrow.schema(fields, metadata=about)
    table = pyarrow.Table.from_pylist([row.model_dump() for row in members], schema=schema)
    out = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, out)
    return bytes(out.getvalue().to_pybytes())


def _type(field: FieldInfo) -> type:
    """The type of a column, whether its values may be missing or not."""
    kinds = [each for each in get_args(field.annotation) if each is not type(None)]
    (kind,) = kinds or [field.annotation]
    assert isinstance(kind, type)
    return kind


def as_focus(report: FleetReport) -> str:
    """CSV, a line for each day, cluster, account and model, and for each model's GPUs that no job held."""
    empty: dict[str, Any] = {**dict.fromkeys(DayRow.model_fields), "day": "2000-01-01"}
    names = list(_line(DayRow.model_construct(**empty), ""))
    return csv_text((_line(row, report.currency) for row in report.days), names)


def _line(row: DayRow, currency: str) -> dict[str, Any]:
    day = datetime.date.fromisoformat(row.day)
    month = day.replace(day=1)
    next_month = (month + datetime.timedelta(days=32)).replace(day=1)
    is_held = row.kind == "held"
    return {
        "BillingPeriodStart": f"{month}T00:00:00Z",
        "BillingPeriodEnd": f"{next_month}T00:00:00Z",
        "ChargePeriodStart": f"{day}T00:00:00Z",
        "ChargePeriodEnd": f"{day + datetime.timedelta(days=1)}T00:00:00Z",
        "ChargeCategory": "Usage",
        "ChargeDescription": "GPUs held by jobs" if is_held else "GPUs that no job held",
        "BillingCurrency": currency,
        "BilledCost": row.cost,
        "EffectiveCost": row.cost,
        "ListCost": row.cost,
        "ConsumedQuantity": row.gpu_hours,
        "ConsumedUnit": "GPU-Hours",
        "ServiceCategory": "Compute",
        "ServiceName": "GPU fleet",
        "SubAccountId": row.account or None,
        "SubAccountName": row.account or None,
        "ResourceType": row.model,
        "x_Cluster": row.cluster or None,
        "x_MeasuredGpuHours": row.observed_gpu_hours,
        "x_IdleGpuHours": row.idle_gpu_hours,
        "x_EffectiveGpuHours": row.effective_gpu_hours,
        "x_WastedGpuHours": row.wasted_gpu_hours,
        "x_WastedCost": row.wasted_cost,
    }
