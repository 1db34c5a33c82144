"""Makes one row of every job: its names, sums, errors, verdict and cost; and a row of all that is missing."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from ofu_exporter.fleet.answer import MissingRow
from ofu_exporter.fleet.chunks import MissingChunk
from ofu_exporter.fleet.history.fleet_history import JobHistory, JobSums
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.history.queries import NAMES
from ofu_exporter.fleet.history.served_sums import PricedServed, served_columns
from ofu_exporter.fleet.hours import ServerClock
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.values.losses import JOULES_PER_KWH
from ofu_exporter.values.reported import Verdict


def job_row(job: JobHistory, clock: ServerClock, target: float | None, prices: Prices) -> JobRow:
    total, price = job.total, prices.of_mix(job.models)
    names = names_of(job)
    mfu, ofu = total.mfu, total.ofu_compared
    error = None if mfu is None or ofu is None else mfu - ofu
    no_data = Verdict.INSUFFICIENT_DATA  # counts only where nothing else was said
    decided = {name: hours for name, hours in job.verdicts.items() if name != no_data}
    row = JobRow.model_validate(
        {
            "cluster": job.key.cluster,
            "job_id": job.key.job_id,
            **{name: names[name] for name in NAMES[:5]},
            "gpus": _nearly_whole(job.size),
            "model": longest(job.models),
            "framework": longest(job.frameworks),
            "begin": iso(clock.end_of((job.first_hour or 0) - 1)),
            "end": iso(clock.end_of(job.last_hour or 0)),
            "away_gpu_hours": job.away or None,
            "error": error,
            "relative_error": None if error is None or not ofu else abs(error) / ofu,
            "verdict": longest(decided or job.verdicts),
            "cause": longest(job.causes),
            "finding": longest(job.findings),
            "finding_ratio": max(job.findings.values(), default=None),
            **sums_of(total, target, price),
            **served_columns([PricedServed(job.served, price)] if job.served else ()),
        }
    )
    row.model_fields_set.clear()  # nobody asks for it, and it takes more memory than the row
    return row


def sums_of(sums: JobSums, target: float | None, price: float | None) -> dict[str, float | None]:
    wasted = wasted_of(sums, target)
    return {
        "held_gpu_hours": sums.held,
        "observed_gpu_hours": sums.observed,
        "idle_gpu_hours": sums.idle,
        "effective_gpu_hours": sums.utilized,
        "compared_gpu_hours": sums.compared,
        "wasted_gpu_hours": wasted,
        **{f"lost_{loss}_gpu_hours": hours for loss, hours in sums.net_losses.items()},
        "energy_kwh": sums.joules / JOULES_PER_KWH if sums.joules else None,
        "idle_energy_kwh": sums.idle_joules / JOULES_PER_KWH if sums.idle_joules else None,
        "ofu": sums.ofu,
        "mfu": sums.mfu,
        "ofu_compared": sums.ofu_compared,
        "cost": times(sums.held, price),
        "wasted_cost": times(wasted, price),
        "idle_cost": times(sums.idle, price),
    }


def wasted_of(sums: JobSums, target: float | None) -> float | None:
    return None if target is None else sums.observed * target - sums.utilized


def times(hours: float | None, price: float | None) -> float | None:
    return None if hours is None or price is None else hours * price


def longest(weights: Mapping[str, float]) -> str | None:
    """The name with the largest weight, the first of equals; None where there is none."""
    return min(weights, key=lambda name: (-weights[name], name), default=None)


def is_flagged(row: JobRow) -> bool:
    """Whether the job reports more than its GPUs did."""
    return row.verdict == Verdict.MFU_ABOVE_OFU


def iso(unix: float) -> str:
    at = datetime.datetime.fromtimestamp(unix, datetime.timezone.utc)
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def unix(text: str) -> float:
    """The Unix seconds of what `iso` wrote."""
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z").timestamp()


def missing_rows(parts: Sequence[MissingChunk]) -> list[MissingRow]:
    return [
        MissingRow(what=part.what, start=iso(part.span.start), end=iso(part.span.end), why=part.why)
        for part in parts
    ]


def names_of(job: JobHistory) -> dict[str, str]:
    """The names that the job had longest; empty where none are known."""
    best = min(job.names, key=lambda names: (-job.names[names], names), default=("",) * len(NAMES))
    return dict(zip(NAMES, best, strict=True))


def _nearly_whole(gpus: float | None) -> float | None:
    """A number of GPUs, whole where it nearly is."""
    if gpus is None or abs(gpus - round(gpus)) >= 0.02 * gpus:
        return gpus
    return float(round(gpus))
