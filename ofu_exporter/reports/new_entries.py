"""Begins what is known of a job's reports: of its first one, or with what an earlier agent knew."""

from __future__ import annotations

from collections import Counter

from ofu_exporter.reports.coverage import Coverage
from ofu_exporter.reports.entry import Entry
from ofu_exporter.reports.fields import framework_name
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.owner import Owner
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.progress import Progress
from ofu_exporter.values.reported import Reported


def new_entry(owner: Owner) -> Entry:
    return Entry(owner.run, began=owner.view.began if owner.view else None)


def resumed_entry(
    job_id: str, run: str, began: float | None, reported: Reported, now: Instant
) -> Entry:
    """What an earlier agent knew of a job; `run` is the job's uid."""
    until = None if reported.last is None else now.at_unix(reported.last).monotonic
    adjusted = reported.adjusted
    return Entry(
        run,
        Coverage(life=reported.total, reported_until=until),
        Counter(reported.outcomes),
        # These facts are reported once, by a profile; a training loop repeats its facts in every report.
        facts=MfuReport.model_construct(
            job_id=job_id,
            precision=reported.precision,
            tile_overhead=adjusted.tile_overhead if adjusted else None,
            tile_overhead_bound=adjusted.bound if adjusted else None,
        ),
        framework=framework_name(reported.framework),
        peak_flops=reported.peak_flops,
        at=reported.last,
        heard_at=now.monotonic,
        began=began,
        adjusted=adjusted,
        trace=reported.trace,
        progress=reported.progress or Progress(),
        finding_seconds=dict(reported.finding_seconds),
        traced_seconds=reported.traced_seconds,
    )
