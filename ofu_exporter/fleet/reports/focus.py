"""Writes cost and waste per day, account and GPU model with the columns of FOCUS, which tools for cloud costs read.

The columns are those of FOCUS 1.0 (https://focus.finops.org/focus-specification/v1-0/) that a fleet of one's own can
fill. As that asks, columns of our own begin with `x_`. A cost that nobody told is empty, and no 0.
"""

from __future__ import annotations

import datetime
from typing import Any

from ofu_exporter.fleet.reports.result import DayRow, FleetReport
from ofu_exporter.fleet.reports.rows import csv_text

_SERVICE = "GPU fleet"


def as_focus(report: FleetReport) -> str:
    """CSV, a line for each day, cluster, account and model, and for each model's GPUs that no job held."""
    empty = DayRow.model_validate({**dict.fromkeys(DayRow.model_fields), **_EMPTY})
    return csv_text(list(_line(empty, "")), (_line(row, report.currency) for row in report.days))


_EMPTY = {"day": "2000-01-01", "kind": "free", "cluster": "", "account": "", "gpu_hours": 0.0}


def _line(row: DayRow, currency: str) -> dict[str, Any]:
    day = datetime.date.fromisoformat(row.day)
    month = day.replace(day=1)
    held = row.kind == "held"
    return {
        "BillingPeriodStart": _midnight(month),
        "BillingPeriodEnd": _midnight((month + datetime.timedelta(days=32)).replace(day=1)),
        "ChargePeriodStart": _midnight(day),
        "ChargePeriodEnd": _midnight(day + datetime.timedelta(days=1)),
        "ChargeCategory": "Usage",
        "ChargeDescription": "GPUs held by jobs" if held else "GPUs not held by exactly one job",
        "BillingCurrency": currency,
        "BilledCost": row.cost,
        "EffectiveCost": row.cost,
        "ListCost": row.cost,
        "ConsumedQuantity": row.gpu_hours,
        "ConsumedUnit": "GPU-Hours",
        "ServiceCategory": "Compute",
        "ServiceName": _SERVICE,
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


def _midnight(day: datetime.date) -> str:
    return f"{day.isoformat()}T00:00:00Z"
