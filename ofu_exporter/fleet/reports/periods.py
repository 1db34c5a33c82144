"""Reads what the periods before one amounted to, as far as the rules keep their hours, to hold a report against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ofu_exporter.errors import QueryError
from ofu_exporter.fleet.chunks import ChunkReader, MissingChunk
from ofu_exporter.fleet.history.queries import JOB, JOB_HOURS, LOOKS, MODEL_HOURS, NAMES
from ofu_exporter.fleet.hours import TimeSpan
from ofu_exporter.fleet.prometheus import MOMENT
from ofu_exporter.fleet.reports.chain_before import read_chain, with_changes
from ofu_exporter.fleet.reports.job_rows import iso
from ofu_exporter.fleet.reports.result import By, FleetReport, GroupRow, PeriodRow
from ofu_exporter.fleet.series import Series
from ofu_exporter.support.percent import ratio
from ofu_exporter.values.reasons import QueryReason

WHAT = "the periods before"
MOST = 8
"""Periods of a trend, with the one that is reported."""
LEAST_COVERED = 0.5
"""Share of a period that must be known before its ratios are held against others."""
_LABELS: Mapping[str, str] = {
    name: name for name in ("user", "account", "partition", "namespace", "cluster")
}
"""What the recorded hours of jobs can be added up by."""


def read_before(reader: ChunkReader, span: TimeSpan, by: By) -> list[PeriodRow]:
    """The periods of the same length before a time, the oldest first, back to the first without any data."""
    periods: list[PeriodRow] = []
    for number in range(1, MOST):
        length = span.end - span.start
        before = TimeSpan(span.start - number * length, span.start - (number - 1) * length)
        if before.start < 0:
            break
        try:
            row = _read(reader, before, by, is_last=number == 1)
        except QueryError as error:
            if error.reason is QueryReason.DENIED:
                raise
            reader.missing.append(MissingChunk(WHAT, before, error.detail))
            break
        partial = reader.client.take_partial_answer()
        if row is None:
            break
        if partial:
            reader.missing.append(MissingChunk(WHAT, before, partial))
            break
        periods.append(row)
    while periods and periods[-1].delivered_ratio is None:
        periods.pop()
    return periods[::-1]


def _read(reader: ChunkReader, span: TimeSpan, by: By, *, is_last: bool) -> PeriodRow | None:
    """What is on record of a period, with its chain if it is the last before; None where nothing is."""

    def ask(expression: str) -> list[Series]:
        return reader.client.instant(expression, span.end + MOMENT)

    def asked(expression: str) -> dict[str, float]:
        answer = ask(expression)
        return {one.labels.get(_LABELS.get(by, ""), ""): one.points[-1][1] for one in answer}

    minutes = 60 * span.hours - 1
    hourly, looks = f"[{minutes}m59s999ms]", f"[{minutes}m59s999ms:5m]"
    covered_hours = asked(f"count_over_time((group (model:ofu_gpu_share:sum)){looks}) / {LOOKS}")
    covered = min(1.0, sum(covered_hours.values()) / span.hours)
    if not covered:
        return None
    shares = f"max by (cluster, model) (sum_over_time(model:ofu_gpu_share:sum{looks}))"
    installed = sum(asked(f"sum({shares}) / {LOOKS}").values())
    utilized = f"max by (cluster, model) (sum_over_time({MODEL_HOURS[1].recorded}{hourly}))"
    done = sum(asked(f"sum({utilized})").values())
    of_jobs = {each.name: each.recorded for each in JOB_HOURS}
    names = f"max by ({JOB}, {', '.join(NAMES)}, framework)"
    label = _LABELS.get(by)
    added = f"sum by ({label})" if label else "sum"
    observed, used = (
        asked(f"{added} ({names} (sum_over_time({of_jobs[name]}{hourly})))")
        for name in ("observed", "utilized")
    )
    is_known = covered >= LEAST_COVERED
    return PeriodRow(
        start=iso(span.start),
        end=iso(span.end),
        covered_ratio=covered,
        delivered_ratio=ratio(done, installed) if is_known else None,
        ofu=ratio(sum(used.values()), sum(observed.values())) if is_known else None,
        groups=dict(_ratios(used, observed)) if is_known and label else {},
        chain=read_chain(ask, hourly, installed) if is_known and is_last else [],
    )


def _ratios(
    used: Mapping[str, float], observed: Mapping[str, float]
) -> Iterator[tuple[str, float]]:
    for name, hours in sorted(observed.items()):
        if name and name in used and hours > 0:
            yield name, used[name] / hours


def with_periods(report: FleetReport, before: Sequence[PeriodRow]) -> FleetReport:
    """The report with the periods before, how its own differs from the last of them, and whose the gain would be."""
    this = period_of(report)
    names = {row.name for row in report.groups if row.is_named}
    earlier = [
        each.model_copy(update={"groups": {n: v for n, v in each.groups.items() if n in names}})
        for each in before
    ]
    last = earlier[-1] if earlier else None
    whole = report.total.recoverable_gpu_hours
    groups = [_with_change(row, last, whole) for row in report.groups]
    change = _less(this.delivered_ratio, last.delivered_ratio if last else None)
    total = report.total.model_copy(
        update={"ofu_change": _less(report.total.ofu, last.ofu if last else None)}
    )
    return report.model_copy(
        update={
            "periods": [*earlier, this],
            "delivered_change": change,
            "chain": with_changes(report.chain, last.chain if last else ()),
            "groups": groups,
            "total": total,
        }
    )


def period_of(report: FleetReport) -> PeriodRow:
    """The time of a report as one of its periods."""
    steps = {step.name: step for step in report.funnel}
    is_known = (report.time.covered_ratio or 0.0) >= LEAST_COVERED
    is_counted = bool(steps["installed"].gpu_hours) and is_known
    return PeriodRow(
        start=report.time.start,
        end=report.time.end,
        covered_ratio=report.time.covered_ratio,
        delivered_ratio=steps["effective"].share if is_counted else None,
        ofu=report.total.ofu if is_known else None,
        groups={
            row.name: row.ofu
            for row in report.groups
            if row.is_named and row.ofu is not None and is_known
        },
        chain=report.chain,
    )


def _with_change(row: GroupRow, last: PeriodRow | None, whole: float | None) -> GroupRow:
    before = last.groups.get(row.name) if last and row.is_named else None
    back = row.recoverable_gpu_hours
    return row.model_copy(
        update={
            "ofu_change": _less(row.ofu, before),
            "recoverable_share": None if back is None else ratio(back, whole or 0.0),
        }
    )


def _less(now: float | None, before: float | None) -> float | None:
    return None if now is None or before is None else now - before
