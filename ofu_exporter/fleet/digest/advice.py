"""Says what a user can do about a job, in the words of `explain` and the alerts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ofu_exporter.fleet.actions.commands import command
from ofu_exporter.fleet.digest.result import AdviceRow, DigestJob
from ofu_exporter.fleet.digest.signs import JobSigns
from ofu_exporter.fleet.reports.figures import counted, hours, points
from ofu_exporter.fleet.reports.funnel import ADVICE, lost_hours
from ofu_exporter.fleet.reports.job_result import SLOW
from ofu_exporter.fleet.reports.result import FleetReport, GroupRow, JobRow
from ofu_exporter.fleet.reports.words import away_words, cause_meanings, causes_of
from ofu_exporter.flops.causes import Side
from ofu_exporter.support.percent import percent
from ofu_exporter.values.losses import Loss
from ofu_exporter.values.reported import Verdict
from ofu_exporter.values.text import first_names
from ofu_exporter.values.trace import are_seconds

IDLE_SHARE = 0.1
"""Idle GPU-hours are mentioned from this share of a job's measured ones on."""
IDLE_HOURS = 1.0
ALL_IDLE = 0.9
"""Share of the measured GPU-hours from which on the whole job is called idle."""
TRACED_SHARE = 0.05
"""What cost less of the time of a job's traces is not worth a line."""
MOST_NAMED = 3
"""Idle GPUs that are named."""
FEWEST_COMPARED = 3
"""Least number of GPUs of a job of which one can be called slow."""
_CAUSE_PAGE, _TRACE_PAGE = "docs/explain.md", "docs/where.md"


def of_job(
    row: JobRow,
    signs: JobSigns,
    target: float | None,
    low_clock: float,
    report: FleetReport,
    slower: str,
) -> Iterator[AdviceRow]:
    """What can be done about one job, in order of cost, highest first. The report is that of the fleet, `slower` what
    its changes say of the job."""
    if slower:
        what = "Compare what changed that day (code, data, image, nodes):"
        yield AdviceRow(kind="regression", text=f"{slower} {what} {command(report, row)}.")
    if idle := _of_idle(row, signs):
        yield AdviceRow(kind="idle", text=idle)
    if stated := _of_report(row):
        yield AdviceRow(kind="report", text=stated)
    if signs.has_slow_gpus:
        yield AdviceRow(kind="slow_gpu", text=_of_slow(signs))
    if signs.clock is not None and signs.clock < low_clock:
        yield AdviceRow(kind="low_clock", text=_LOW_CLOCK.format(percent(signs.clock)))
    if traced := _of_trace(row):
        yield AdviceRow(kind="trace", text=traced)
    if slower:
        return  # that is why it is low
    is_busy = row.idle_gpu_hours < row.observed_gpu_hours / 2  # else the idle time is reported
    if row.ofu is not None and target is not None and row.ofu < target and is_busy:
        aim = f"OFU {percent(row.ofu)}; the target is {percent(target)}."
        drawn = f"{command(report, row)} draws it over time."
        yield AdviceRow(kind="low_ofu", text=f"{aim} {_reason(row)} {drawn}")


_LOW_CLOCK = (
    "While busy, its GPUs ran at {} of their tensor clock: power or heat slowed them down. Nothing in the job is "
    "wrong: tell the operators."
)


def _reason(row: JobRow) -> str:
    """What the job lost most to, as the report says it; the usual reasons where no counter tells."""
    loss, lost = next(iter(lost_hours(row).items()), (Loss.UNSPLIT, 0.0))
    if loss is Loss.UNSPLIT or lost <= 0 or not row.observed_gpu_hours:
        return "Usual reasons are data loading, communication, small batches, and work outside the tensor pipes."
    share = percent(lost / row.observed_gpu_hours)
    return f"Its largest loss is {loss.words} ({share}). {ADVICE[loss]}"


def _of_trace(row: JobRow) -> str:
    """What cost most in the job's traces."""
    ratio = row.finding_ratio or 0.0
    if row.finding is None or ratio < TRACED_SHARE or not are_seconds({row.finding: ratio}):
        return ""
    return (
        f"Traces of it show what cost up to {percent(ratio)} of their time: {row.finding}. {_TRACE_PAGE} says what "
        "helps, and the job's page what proves it."
    )


def _of_slow(signs: JobSigns) -> str:
    return (
        f"In {len(signs.slow)} of {len(signs.compared)} hours one or more of its GPUs were below {percent(SLOW)} "
        "of the median of the job's GPUs. In a job whose ranks wait for each other, one slow GPU holds up all: "
        "tell the operators. Pipeline stages and expert ranks may differ by design."
    )


def _of_idle(row: JobRow, signs: JobSigns) -> str:
    idle, observed = row.idle_gpu_hours, row.observed_gpu_hours
    if idle < IDLE_HOURS or idle < IDLE_SHARE * observed:
        return ""
    if idle >= ALL_IDLE * observed:
        return (
            f"It held {hours(idle)} GPU-hours and computed nothing in them. It may hang, may have asked for more "
            "GPUs than it uses, or be an idle interactive session: end it, or ask for fewer GPUs."
        )
    part = f"In {hours(idle)} of its {hours(observed)} GPU-hours a GPU computed nothing"
    if not signs.idle_gpus:
        return (
            f"{part}, for five minutes or longer each time. Find out what it waits for: "
            "data, checkpoints, other ranks, or somebody at a notebook; or ask for fewer GPUs."
        )
    longest = sorted(signs.idle_gpus, key=lambda gpu: (-len(signs.idle_gpus[gpu]), gpu))
    named = [
        f"GPU {gpu} of {node} ({counted(len(signs.idle_gpus[node, gpu]), 'hour')})"
        for node, gpu in longest
    ]
    return (
        f"{part} while others may have: {first_names(named, MOST_NAMED)}. Ask for fewer GPUs, or find out why they "
        "have no work."
    )


def _of_report(row: JobRow) -> str:
    """What a verdict means for the job's owner."""
    if row.mfu is None or row.error is None or row.ofu_compared is None:
        return ""
    compared = f"It reports an MFU of {percent(row.mfu)}, {points(abs(row.error))} points"
    if row.verdict == Verdict.MFU_ABOVE_OFU and row.error > 0:
        return f"{compared} above its OFU, which is impossible: the report counts too much. {_cause(row)}"
    if row.verdict == Verdict.MFU_BELOW_OFU and row.error < 0:
        return (
            f"{compared} below its OFU: the report leaves out work that the GPUs did. {_cause(row)}"
        )
    return ""


def _cause(row: JobRow) -> str:
    """The likeliest cause in the words of `explain`, and how to find the others."""
    named_causes = causes_of(row)
    numbers = f"--mfu {percent(row.mfu)} --ofu {percent(row.ofu_compared)}"
    ask = f"`ofu-exporter explain {numbers}` with the model's configuration says what fits ({_CAUSE_PAGE})."
    if not named_causes:
        return f"No likeliest cause is known. {ask}"
    meanings = cause_meanings(row)
    if all(cause.side is Side.HARDWARE for cause in named_causes):
        return f"Likeliest: {meanings}. Then nothing has to be corrected. {ask}"
    return f"Likeliest: {meanings}. {ask}"


def of_all(jobs: Sequence[DigestJob]) -> Iterator[str]:
    """Advice about all jobs of a reader that are not exempt."""
    measured = [job.row for job in jobs if not job.exempt and job.row.observed_gpu_hours > 0]
    if measured and not any(row.compared_gpu_hours for row in measured):
        yield (
            "None of these jobs reports its MFU. A job that does is told when its own number and the hardware "
            "disagree, and why (docs/reporting.md)."
        )


def remarks(total: GroupRow, jobs: Sequence[DigestJob]) -> Iterator[str]:
    if any(job.slow_gpus is None and (job.row.gpus or 0) >= FEWEST_COMPARED for job in jobs):
        yield "For some of these jobs it is not known whether one GPU was slower than the others."
    unmeasured = total.held_gpu_hours - total.observed_gpu_hours
    if unmeasured > 0.01 * total.held_gpu_hours:
        share = percent(unmeasured / total.held_gpu_hours)
        yield f"OFU was not measured in {share} of these GPU-hours; it is not counted as 0."
    yield from away_words(job.row for job in jobs)
    if total.cost is not None and total.priced_ratio is not None and total.priced_ratio < 0.999:
        yield f"The price of {percent(1 - total.priced_ratio)} of these GPU-hours is not known."


def limits(low_clock: float) -> list[str]:
    return [
        "OFU is the share of the GPUs' peak that their tensor pipes ran, by GPU-hours. MFU is what jobs report.",
        "Waste is measured GPU-hours x (target - OFU): how far jobs fell short of the target, in GPU-hours at "
        "the full peak. Below 0 is better than the target.",
        "A job is idle while its OFU over five minutes is below 0.1%.",
        "Agents say whether a reported MFU is too high or too low: by default more than 2 points above OFU, or more "
        "than 5 below, beyond the error.",
        f"A GPU is slow below {percent(SLOW)} of the median of its job; a clock is low below {percent(low_clock)} of "
        "the tensor clock.",
    ]
