"""Puts a report over a fleet together: the numbers, what changed, and what to do first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, get_args

from ofu_exporter.fleet.actions import first_actions
from ofu_exporter.fleet.changes.report import changes_report, collect
from ofu_exporter.fleet.changes_result import ChangesReport, SeriesKind
from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.from_dcgm import read_dcgm_history
from ofu_exporter.fleet.history.history import read_history
from ofu_exporter.fleet.prometheus import collector_paused
from ofu_exporter.fleet.reports.elsewhere import Exporter, gpus_elsewhere
from ofu_exporter.fleet.reports.fleet_report import ReportOptions, fleet_report, rated_jobs
from ofu_exporter.fleet.reports.periods import read_before, with_periods
from ofu_exporter.fleet.reports.result import FleetReport, PeriodRow

KINDS: tuple[SeriesKind, ...] = get_args(SeriesKind)
LEAST_FACTOR = 1.1
"""Smallest change that is told."""
MOST_PEER_GPU_HOURS = 500_000.0
"""GPU-hours of single GPUs that are compared with their peers: every value of every GPU is read for it."""


class WholeReport(NamedTuple):
    """What is asked for beside the time."""

    options: ReportOptions
    source: Exporter = "agents"
    changes: ChangesReport | None = None
    """Found before; else they are looked for, if that is wanted."""
    finds_changes: bool = True
    before: Sequence[PeriodRow] | None = None
    """The periods before, where somebody has read them."""


@collector_paused()
def whole_report(
    reader: ChunkReader, times: tuple[float, float], wanted: WholeReport
) -> FleetReport:
    read = read_dcgm_history if wanted.source == "dcgm-exporter" else read_history
    history = read(reader, *times)
    history.elsewhere = gpus_elsewhere(reader, history.span, wanted.source)
    jobs = rated_jobs(history, wanted.options)
    changes, collected = wanted.changes, None
    looks = wanted.finds_changes and wanted.source == "agents" and bool(history.jobs)
    if changes is None and looks:
        collected = collect(reader, history, [job.row for job in jobs], KINDS, MOST_PEER_GPU_HOURS)
    before = wanted.before
    if before is None:
        is_whole = wanted.source == "agents" and not reader.missing and bool(history.recorded)
        before = read_before(reader, history.span, wanted.options.by) if is_whole else ()
    report = with_periods(fleet_report(history, wanted.options, reader, jobs), before)
    if collected is not None:
        changes = changes_report(collected, report, LEAST_FACTOR, KINDS)
    changes = changes and _without_twice(changes, report)
    report = report.model_copy(update={"changes": changes, "source": wanted.source})
    return report.model_copy(update={"actions": first_actions(report)})


def _without_twice(changes: ChangesReport, report: FleetReport) -> ChangesReport:
    """What changed, without what the report says itself."""
    notes = [each for each in changes.notes if each not in report.notes]
    missing = [each for each in changes.missing if each not in report.missing]
    return changes.model_copy(update={"notes": notes, "missing": missing})
