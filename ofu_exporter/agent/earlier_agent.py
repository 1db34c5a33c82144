"""Takes up what an earlier agent left in the state file: jobs, their reports, and what engines served."""

from __future__ import annotations

import logging
import time

from ofu_exporter.jobs.state_writer import StateWriter
from ofu_exporter.jobs.totals import resumed_job
from ofu_exporter.ofu.ownership.held_time import credited_before
from ofu_exporter.ofu.ownership.owners import OwnerState
from ofu_exporter.ofu.tick import State
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.feeds import Feeds
from ofu_exporter.support.durations import duration
from ofu_exporter.values.instant import Instant

log = logging.getLogger(__name__)


def left_state(writer: StateWriter | None, reports: ReportBook, feeds: Feeds) -> State:
    """The state to go on from; its reports and what engines served go to those that keep them."""
    if writer is None:
        return State()
    saved, now = writer.open(feeds.kept), Instant(time.monotonic(), time.time())
    jobs = [resumed_job(job, now) for job in saved.jobs]
    for job, state in zip(saved.jobs, jobs, strict=True):
        if job.reported is not None:
            reports.resume(state.job.key, job.uid, job.reported, state.began)
            reports.lines.resume(state.job, job.reported.progress)
    feeds.resume(saved.served)
    _log_gap(saved.watched_until)
    return State(
        owners=OwnerState(
            jobs={job.job.key: job for job in jobs},
            watched_until=saved.watched_until,
            believed_since=saved.watched_until if saved.is_clock_set else None,
            credited=credited_before(jobs, now),
        ),
        counted_before=saved.counted_until,
    )


def _log_gap(watched_until: float | None) -> None:
    if watched_until is not None and (seconds := time.time() - watched_until) > 0:
        log.info(
            "no agent ran on this node for %s: the GPU time of jobs in it counts as held, but not as observed",
            duration(seconds),
        )
