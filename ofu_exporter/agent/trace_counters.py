"""Tells what the counters saw of a job while a trace of it was taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ofu_exporter.values.losses import Losses
from ofu_exporter.values.snapshot import Snapshot
from ofu_exporter.values.trace import are_of_the_peak


class PeakSums(NamedTuple):
    """GPU-seconds of a job on this node so far."""

    observed: float
    used: float
    lost: Losses


def peak_sums(snapshot: Snapshot | None, job_id: str) -> PeakSums | None:
    """Of all windows that have ended; None where the job is not known."""
    for view in snapshot.jobs if snapshot else ():
        if view.job.job_id == job_id and view.ended is None:
            return PeakSums(view.observed_seconds, view.utilization_seconds, view.sums.net)
    return None


def shares_between(before: PeakSums | None, after: PeakSums | None) -> Mapping[str, float]:
    """Shares of the peak, `used` and what was lost by part; empty where no window ended meanwhile, or a GPU went."""
    if before is None or after is None or not (seconds := after.observed - before.observed) > 0:
        return {}
    lost = {
        loss.value: (after.lost[loss] - before.lost.get(loss, 0.0)) / seconds for loss in after.lost
    }
    shares = {"used": (after.used - before.used) / seconds, **lost}
    return shares if are_of_the_peak(shares) else {}
