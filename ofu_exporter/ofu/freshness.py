"""Drops from a snapshot what has become too old to be shown."""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import Snapshot


def fresh(snapshot: Snapshot, now: float) -> Snapshot:
    """The snapshot without the windows that have become too old.

    Where all of them are too old the sampler hangs; then no report is compared any more either.
    """
    old = {view.gpu.key for view in snapshot.gpus if view.window and now > view.fresh_until}
    if not old:
        return snapshot
    if all(view.window is None or view.gpu.key in old for view in snapshot.gpus):
        snapshot = _without_comparisons(snapshot)
    views = tuple(
        view._replace(window=None, reason=Reason.STALE) if view.gpu.key in old else view
        for view in snapshot.gpus
    )
    return replace(snapshot, gpus=views)


def _without_comparisons(snapshot: Snapshot) -> Snapshot:
    jobs = tuple(
        replace(view, reports=view.reports.of_the_past()) if view.reports else view
        for view in snapshot.jobs
    )
    unowned = tuple((job_id, reports.of_the_past()) for job_id, reports in snapshot.unowned_reports)
    return replace(snapshot, jobs=jobs, unowned_reports=unowned)
