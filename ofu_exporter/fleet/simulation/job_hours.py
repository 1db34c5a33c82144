"""Sums what a simulated job truly does by hours, and compares its reports as its agents would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ofu_exporter.fleet.simulation.agent import SCHEDULER
from ofu_exporter.fleet.simulation.fleet import JobTruth, SimulatedFleet
from ofu_exporter.fleet.simulation.runs import STARTS
from ofu_exporter.fleet.simulation.spec import MINUTE
from ofu_exporter.ofu.divergence import Divergence, compare_sums
from ofu_exporter.reports.cause_question import CauseQuestion
from ofu_exporter.reports.cause_search import causes_or_none
from ofu_exporter.reports.hardware import Hardware
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.serving.metrics.job import NO_CAUSE
from ofu_exporter.values.reported import Compared, Verdict

_HOUR_MINUTES = 60
_HOUR_SECONDS = 3600.0


@dataclass(slots=True)
class HourOfJob:
    """GPU-hours of a job in one hour."""

    held: float
    observed: float
    utilized: float
    idle: float
    lost: dict[str, float]
    """By the part of the peak."""
    compared: float | None = None
    compared_mfu: float | None = None
    compared_utilized: float | None = None
    verdict: str = ""
    cause: str = ""
    """The likeliest, while the verdict is a divergence."""


@dataclass(slots=True)
class _Reports:
    """The reports of a job, and what its agents last held of them."""

    minutes: dict[int, float]
    """MFU by the minute of the fleet at which it is reported."""
    verdict: Verdict | None = None
    causes: dict[Verdict, str] = field(default_factory=dict)


def agent_labels(truth: JobTruth) -> dict[str, str]:
    """The labels by which its agents name a job."""
    group = truth.job.draft.group
    return {
        "job_name": group.name,
        "user": truth.job.draft.user,
        "account": group.account,
        "partition": group.partition,
        "namespace": group.namespace,
        "scheduler": SCHEDULER,
        "framework": group.report.framework if group.report else "",
    }


def hours_of_job(truth: JobTruth, fleet: SimulatedFleet) -> dict[int, HourOfJob]:
    """By the number of the hour, those in which it held a GPU."""
    reports = _Reports(dict(_mfus(truth, fleet.spec.seed)))
    hours = {}
    for hour in range(truth.job.start // _HOUR_MINUTES, -(-truth.job.end // _HOUR_MINUTES)):
        begin, end = _HOUR_MINUTES * hour, _HOUR_MINUTES * (hour + 1)
        job_hour = _hour(truth, fleet, begin, end)
        if job_hour is not None:
            _compare(job_hour, truth, fleet, (reports, range(begin + 1, end + 1)))
            hours[hour] = job_hour
    return hours


def _mfus(truth: JobTruth, seed: int) -> Iterator[tuple[int, float]]:
    report = truth.job.draft.group.report
    for begin, end in truth.job.runs if report else ():
        for minute in truth.report_minutes(begin, end):
            mfu = truth.reported_mfu(minute, seed)
            if mfu is not None:
                yield minute, mfu


def _hour(truth: JobTruth, fleet: SimulatedFleet, begin: int, end: int) -> HourOfJob | None:
    start = truth.job.start
    minutes = sum(truth.is_running[max(0, begin - start) : end - start])
    if not minutes:
        return None
    held_hours = truth.gpu_shares * minutes / _HOUR_MINUTES
    ofu = truth.mean_share * truth.mean(MINUTE * begin, MINUTE * end) * _HOUR_MINUTES / minutes
    tensor_hz = fleet.nodes[next(iter(truth.job.devices))].tensor_clock_hz
    active = ofu * tensor_hz / truth.job.draft.clock_hz
    starts = truth.minutes.share(STARTS, begin - start, end - start) * truth.gpu_shares
    works = 1.0 - starts / held_hours
    engine, sm = (works * each for each in truth.busy(active / works if works else 0.0))
    lost = {
        "clock": active - ofu,
        "no_tensor": sm - active,
        "empty_sms": engine - sm,
        "idle": 1.0 - engine,
    }
    return HourOfJob(
        held=held_hours,
        observed=held_hours,
        utilized=held_hours * ofu,
        idle=starts if ofu else held_hours,
        lost={part: held_hours * share for part, share in lost.items()},
    )


def _compare(
    job_hour: HourOfJob, truth: JobTruth, fleet: SimulatedFleet, of_hour: tuple[_Reports, range]
) -> None:
    """Hold the reports of an hour against the OFU of the same seconds."""
    reports, minutes = of_hour
    report = truth.job.draft.group.report
    times = [minute for minute in minutes if minute in reports.minutes]
    if report is None or not times:
        return
    gpu_seconds = truth.gpu_shares * MINUTE * report.every
    utilized = truth.gpu_shares * truth.mean_share
    sums = Compared(
        mfu_seconds=sum(reports.minutes[minute] for minute in times) * gpu_seconds,
        utilization_seconds=utilized
        * sum(
            truth.integral(MINUTE * minute) - truth.integral(MINUTE * (minute - report.every))
            for minute in times
        ),
        gpu_seconds=gpu_seconds * len(times),
    )
    job_hour.compared = sums.gpu_seconds / _HOUR_SECONDS
    job_hour.compared_mfu = sums.mfu_seconds / _HOUR_SECONDS
    job_hour.compared_utilized = sums.utilization_seconds / _HOUR_SECONDS
    divergence = compare_sums(sums, truth.gpu_shares, previous=reports.verdict)
    reports.verdict = divergence.verdict if divergence else None
    job_hour.verdict = (reports.verdict or Verdict.INSUFFICIENT_DATA).value
    if divergence is not None and divergence.verdict.diverged:
        if divergence.verdict not in reports.causes:
            reports.causes[divergence.verdict] = _cause(truth, fleet, times[-1], sums, divergence)
        job_hour.cause = reports.causes[divergence.verdict]


def _cause(
    truth: JobTruth, fleet: SimulatedFleet, minute: int, sums: Compared, divergence: Divergence
) -> str:
    """The cause that the agents' own search names first."""
    node = fleet.nodes[next(iter(truth.job.devices))]
    name, peaks = node.model.names[0], node.rating.peak_flops
    report = MfuReport.model_validate(truth.report_body(minute, fleet.spec, 0.0))
    peak = peaks.get(next(iter(report.shares() or {"bf16": 1.0})))
    hardware = Hardware(1, name, frozenset({name}), peaks)
    question = CauseQuestion(sums, divergence, report, hardware, peak)
    first = causes_or_none(truth.job.draft.job_id, question).first
    return first.cause if first else NO_CAUSE
