"""Names the metrics of jobs' reports, and of how these compare with OFU."""

from __future__ import annotations

from collections.abc import Callable

from ofu_exporter.serving.metrics.spec import Metric, Rows, counter, gauge
from ofu_exporter.values.reported import ReportsView, Verdict

ReportMetric = Metric[[str, ReportsView]]
"""Its rows are made from the id of a job and its reports."""
NO_CAUSE = "no_known_cause"
"""Stands in the place of a cause where none fits."""


def _gauge(name: str, help_: str, read: Callable[[ReportsView], float | None]) -> ReportMetric:
    return gauge(name, help_, _value(read), "job_id")


def _sum(name: str, help_: str, read: Callable[[ReportsView], float | None]) -> ReportMetric:
    return counter(name, help_, _value(read), "job_id")


def _value(read: Callable[[ReportsView], float | None]) -> Callable[[str, ReportsView], Rows]:
    """One row, which is absent where there is no value."""

    def rows(job_id: str, reports: ReportsView) -> Rows:
        value = read(reports)
        return () if value is None else [((job_id,), value)]

    return rows


def _difference(reports: ReportsView) -> float | None:
    mfu, ofu = reports.horizon.mfu, reports.horizon.ofu
    return None if mfu is None or ofu is None else mfu - ofu


def _cause(job_id: str, reports: ReportsView) -> Rows:
    if not reports.verdict.diverged or reports.causes is None:
        return ()
    first = reports.causes.first
    return [((job_id, first.cause if first else NO_CAUSE), 1.0)]


REPORT_METRICS: tuple[ReportMetric, ...] = (
    _gauge(
        "ofu_job_reported_mfu_ratio",
        "MFU that the job reported over the last minutes, against the dense peak of its precision.",
        lambda reports: reports.mfu,
    ),
    _sum(
        "ofu_job_compared_mfu_seconds",
        "Integral of the reported MFU over the GPU-seconds that a report and OFU both cover.",
        lambda reports: reports.settled.mfu_seconds,
    ),
    _sum(
        "ofu_job_compared_utilization_seconds",
        "Integral of OFU over the same GPU-seconds.",
        lambda reports: reports.settled.utilization_seconds,
    ),
    _sum(
        "ofu_job_compared_gpu_seconds",
        "GPU-seconds that a report and OFU both cover, a minute late; the sum of the rates of the two "
        "above over the nodes, divided by that of this one, is the job's MFU and OFU over the same seconds.",
        lambda reports: reports.settled.gpu_seconds,
    ),
    counter(
        "ofu_job_reports",
        "Reports of the job: accepted, or why not.",
        lambda job_id, reports: [
            ((job_id, outcome), count) for outcome, count in reports.outcomes.items()
        ],
        "job_id",
        "outcome",
    ),
    _gauge(
        "ofu_job_report_timestamp_seconds",
        "Unix time up to which the job has reported.",
        lambda reports: reports.at,
    ),
    _gauge(
        "ofu_job_report_peak_flops",
        "Dense peak of one GPU that the reported MFU is against, effective over the precisions in use.",
        lambda reports: reports.peak_flops,
    ),
    _gauge(
        "ofu_job_divergence_ratio",
        "Reported MFU minus OFU over the same seconds of the last minutes; above 0 the report over-counts.",
        _difference,
    ),
    _gauge(
        "ofu_job_tile_overhead_ratio",
        "What tiles add to the job's FLOPs, as it was told; executed over theoretical, minus 1.",
        lambda reports: reports.adjusted.tile_overhead if reports.adjusted else None,
    ),
    gauge(
        "ofu_job_tile_overhead_bound",
        "1 for what that overhead is: exact, or lower, and then the adjusted OFU is an upper bound; "
        "absent where the job does not say.",
        lambda job_id, reports: (
            [((job_id, reports.adjusted.bound), 1.0)]
            if reports.adjusted and reports.adjusted.bound
            else ()
        ),
        "job_id",
        "bound",
    ),
    _sum(
        "ofu_job_adjusted_utilization_seconds",
        "Integral of OFU / (1 + tile overhead) since the overhead is known.",
        lambda reports: reports.adjusted.utilization_seconds if reports.adjusted else None,
    ),
    _sum(
        "ofu_job_adjusted_gpu_seconds",
        "GPU-seconds observed since then; the quotient of the two sums of rates is OFU without tiles.",
        lambda reports: reports.adjusted.gpu_seconds if reports.adjusted else None,
    ),
    gauge(
        "ofu_job_divergence_verdict",
        f"1 for what the comparison says: {', '.join(verdict.value for verdict in Verdict)}.",
        lambda job_id, reports: [((job_id, reports.verdict.value), 1.0)],
        "job_id",
        "verdict",
    ),
    gauge(
        "ofu_job_divergence_cause",
        f"1 for the likeliest cause of a divergence; {NO_CAUSE} where none that is known fits.",
        _cause,
        "job_id",
        "cause",
    ),
)
