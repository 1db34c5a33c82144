"""Writes the hours of a simulated fleet into a Prometheus, and compares a report over it with the fleet's truth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ofu_exporter.fleet.reports.result import Agreement, FleetReport
from ofu_exporter.fleet.simulation.fleet import JobTruth, SimulatedFleet
from ofu_exporter.fleet.simulation.spec import MINUTE
from tests.helpers.simulated_pages import kept
from tests.helpers.stored_fleet import read_in

FLAGGED = "mfu_above_ofu"


def write(fleet: SimulatedFleet, begin: float, folder: Path) -> dict[str, dict[str, Any]]:
    """Make blocks of what is kept of the fleet in `folder`/data. Gives the truth of every job, by its id."""
    read_in(folder, kept(fleet, begin))
    return {job["job_id"]: job for job in facts(fleet)}


def facts(fleet: SimulatedFleet) -> list[dict[str, Any]]:
    """What every job truly is: its means are over the minutes in which it holds its GPUs."""
    return [_facts(truth, fleet) for truth in fleet.jobs]


def _facts(truth: JobTruth, fleet: SimulatedFleet) -> dict[str, Any]:
    draft, report = truth.job.draft, truth.job.draft.group.report
    minutes = sum(truth.is_running)
    ofu = truth.done[-1] / MINUTE / minutes * truth.mean_share
    return {
        "job_id": draft.job_id,
        "name": draft.group.name,
        "gpus": truth.gpu_shares,
        "held_gpu_seconds": MINUTE * minutes * truth.gpu_shares,
        "ofu": ofu,
        "mfu": ofu * truth.mfu_over_ofu,
        "reported_mfu": ofu * truth.reported_over_ofu if report else None,
        "mistake": (report.mistake or report.convention) if report else None,
        "lost": _lost(truth, fleet),
    }


def _lost(truth: JobTruth, fleet: SimulatedFleet) -> dict[str, float]:
    """Where the rest of the peak goes, by part, if no GPU has another clock: with the OFU the means add up to 1."""
    tensor_clock_hz = fleet.nodes[next(iter(truth.job.devices))].tensor_clock_hz
    minutes = []
    for each, is_running in zip(truth.ofu, truth.is_running, strict=True):
        ofu = each * truth.mean_share
        active = ofu * tensor_clock_hz / truth.job.draft.clock_hz
        engine, sm = truth.busy(active)
        if is_running:
            minutes.append((active - ofu, sm - active, engine - sm, 1.0 - engine))
    means = map(statistics.fmean, zip(*minutes, strict=True))
    return dict(zip(("clock", "no_tensor", "empty_sms", "idle"), means, strict=True))


class Misses(NamedTuple):
    """How far a report is from the truth, at worst. Ratios are 0..1."""

    jobs: int
    """Jobs that are in one of both alone."""
    held: float
    """Relative, of a job."""
    ofu: float
    mfu: float
    total_ofu: float
    correlation: float
    mean_absolute_error: float
    correlation_without_flagged: float
    not_flagged: int
    """Jobs with a mistake that are not flagged."""
    flagged_wrongly: int


def misses(report: FleetReport, truth: Mapping[str, dict[str, Any]]) -> Misses:
    """Compare all that a report says of jobs with what was simulated."""
    rows = {row.job_id: row for row in report.jobs}
    both = sorted(rows.keys() & truth.keys())
    wrong = {job for job in truth if truth[job]["mistake"]}
    flagged = {job for job in rows if rows[job].verdict == FLAGGED}
    reporting = [job for job in truth if truth[job]["reported_mfu"] is not None]
    honest = [job for job in reporting if job not in wrong]
    held = sum(job["held_gpu_seconds"] for job in truth.values())
    used = sum(job["held_gpu_seconds"] * job["ofu"] for job in truth.values())
    errors = [abs(truth[job]["reported_mfu"] - truth[job]["ofu"]) for job in reporting]
    return Misses(
        jobs=len(rows.keys() ^ truth.keys()),
        held=max(
            abs(3600 * rows[job].held_gpu_hours / truth[job]["held_gpu_seconds"] - 1)
            for job in both
        ),
        ofu=max(abs((rows[job].ofu or 0.0) - truth[job]["ofu"]) for job in both),
        mfu=max(
            abs((rows[job].mfu or 0.0) - truth[job]["reported_mfu"])
            for job in both
            if truth[job]["reported_mfu"] is not None
        ),
        total_ofu=abs((report.total.ofu or 0.0) - used / held),
        correlation=_correlation_miss(report.agreement, truth, reporting),
        mean_absolute_error=abs(
            (report.agreement.mean_absolute_error or math.inf) - statistics.fmean(errors)
        ),
        correlation_without_flagged=_correlation_miss(
            report.agreement_without_flagged, truth, honest
        ),
        not_flagged=len(wrong - flagged),
        flagged_wrongly=len(flagged - wrong),
    )


def _correlation_miss(
    agreement: Agreement, truth: Mapping[str, dict[str, Any]], jobs: Iterable[str]
) -> float:
    pairs = [(truth[job]["reported_mfu"], truth[job]["ofu"]) for job in jobs]
    wanted = statistics.correlation(*zip(*pairs, strict=True))
    return abs((agreement.pearson if agreement.pearson is not None else math.inf) - wanted)
