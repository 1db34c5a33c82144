"""Writes a job's totals as one line for a comment field, and as a text for people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from ofu_exporter.jobs.gpu_totals import GpuTotals, RunTotals
from ofu_exporter.jobs.reported_mfu import ReportedMfu
from ofu_exporter.jobs.served_text import served_lines
from ofu_exporter.jobs.strip import strip_lines
from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.ofu.bottlenecks import certain_bottleneck
from ofu_exporter.support.percent import percent
from ofu_exporter.values.job import RECORDED
from ofu_exporter.values.losses import JOULES_PER_KWH, BottleneckBounds, Loss
from ofu_exporter.values.reported import ErrorMethod, Verdict, too_little
from ofu_exporter.values.text import shown
from ofu_exporter.values.trace import TraceSummary


def one_line(job: JobTotals, of_nodes: int | None = None) -> str:
    """The summary as `key=value` words, for a field such as Slurm's AdminComment.

    `of_nodes` is how many nodes were asked, some of which may not have answered.
    """
    words = {
        "ofu": percent(job.utilization_ratio),
        **{name: percent(value) for name, value in job.window_percentiles.items()},
        **_reported_words(job.reported),
        "gpus": _count(job.gpu_count),
        "gpu_hours": f"{job.gpu_seconds / 3600:.2f}",
        "observed": percent(job.observed_ratio),
        "nodes": f"{len(job.nodes)}/{of_nodes}" if of_nodes else str(len(job.nodes)),
        **({"simulated": "yes"} if job.simulated else {}),
    }
    return shown(" ".join(f"{name}={value}" for name, value in words.items()))


def _reported_words(reported: ReportedMfu | None) -> dict[str, str]:
    if reported is None or reported.mfu_ratio is None:
        return {}
    causes = reported.causes if reported.verdict is reported.recent_verdict else None
    first = causes.first if causes else None
    cause = {"cause": first.cause} if first else {}
    return {"mfu": percent(reported.mfu_ratio), "verdict": reported.verdict.value, **cause}


def _mark(job: JobTotals) -> str:
    """What a reader must know before any number."""
    if job.simulated:
        return " SIMULATED, no GPU was measured"
    return " RECORDED, not on this machine" if job.scheduler == RECORDED else ""


def summary_text(job: JobTotals) -> str:
    about = [
        f"{label} {value}"
        for label, value in (
            ("name", job.job_name),
            ("user", job.user),
            ("account", job.account),
            ("partition", job.partition),
            ("array", f"{job.array_job_id}_{job.array_task_id}" if job.array_job_id else ""),
        )
        if value
    ]
    state = "ended" if job.ended is not None else "running"
    lines = [
        f"Job {job.job_id}{''.join(', ' + word for word in about)} ({state})" + _mark(job),
        f"OFU {percent(job.utilization_ratio)} over {job.gpu_seconds / 3600:.2f} GPU-hours, "
        f"{_devices(job)} on {', '.join(job.nodes)}, measured {percent(job.observed_ratio)} of the time",
    ]
    if seconds := job.waiting_gpu_seconds:
        hours = f"{seconds / 3600:.2f} GPU-hours"
        lines.append(f"Before its first run it held GPUs for {hours}, which are not counted")
    if seconds := job.shared_gpu_seconds:
        hours = f"{seconds / 3600:.2f} of its GPU-hours"
        lines.append(f"It shared GPUs for {hours}, whose OFU is credited to no job")
    lines += [*strip_lines(job), *part_lines(job), *served_lines(job)]
    if job.window_percentiles:
        lines.append(f"OFU of its windows: {percentiles(job)}")
    if job.reported is not None:
        lines += _reported_lines(job, job.reported)
        lines += trace_lines(job.reported.trace)
    lines += [_gpu_line(gpu) for gpu in job.gpus]
    if len(job.runs) > len(job.nodes):
        lines += [_run_line(run) for run in job.runs]
    return "\n".join(map(shown, lines))


def percentiles(job: JobTotals) -> str:
    return ", ".join(f"{name} {percent(value)}" for name, value in job.window_percentiles.items())


def part_lines(job: JobTotals) -> Iterator[str]:
    """Where the peak went, the largest loss first."""
    sums, seconds = job.sums, job.gpu_seconds
    if not seconds or not sums.lost:
        return
    parts = sorted(sums.net.items(), key=lambda part: -part[1])
    shares = ", ".join(f"{loss.words} {percent(lost / seconds)}" for loss, lost in parts)
    yield f"Of the peak: used {percent(job.utilization_ratio)}; {shares}"
    if sums.lost.get(Loss.NO_TENSOR) and sums.bottlenecks:
        yield _bottleneck_line(sums.bottlenecks, seconds)
    if sums.energy_joules is not None:
        idle = sums.idle_energy_joules
        in_idle = f", {_energy(idle)} of it in windows without a kernel" if idle else ""
        yield f"Energy {_energy(sums.energy_joules)}{in_idle}"


def _bottleneck_line(bounds: BottleneckBounds, seconds: float) -> str:
    """What the time without tensor work was about, as far as the counters tell."""
    shares = ", ".join(
        f"{bottleneck.words} {lowest / seconds:.0%} to {highest / seconds:.0%}"
        for bottleneck, (lowest, highest) in bounds.items()
    )
    bottleneck = certain_bottleneck(bounds)
    largest = (
        f"most of it {bottleneck.words}"
        if bottleneck
        else "these counters cannot tell which is largest"
    )
    return f"While no tensor work ran: {shares}; {largest}"


def trace_lines(trace: TraceSummary | None) -> list[str]:
    """Where the time of the last trace went, and what its findings say to do."""
    if trace is None:
        return []
    shares = ", ".join(f"{name} {share:.1%}" for name, share in trace.parts.items())
    ranks = f"{trace.ranks} rank{'s' * (trace.ranks != 1)}"
    lines = [f"A trace of {ranks}, {trace.seconds / trace.ranks:.3g} s each: {shares}"]
    if trace.counters:
        seen = ", ".join(
            f"{name if name == 'used' else Loss(name).words} {share:.1%}"
            for name, share in trace.counters.items()
        )
        lines.append(f"  the counters meanwhile, of the peak: {seen}")
    if trace.slowest_rank is not None:
        lines.append(f"  the others waited most for rank {trace.slowest_rank}")
    for each in trace.findings:
        lines.append(f"  {each.finding}, at most {each.share:.1%}: {each.evidence}. {each.remedy}")
    return lines


def _energy(joules: float) -> str:
    """In kWh, and less than a tenth of one in Wh."""
    kwh = joules / JOULES_PER_KWH
    return f"{kwh:.3g} kWh" if kwh >= 0.1 else f"{1000 * kwh:.3g} Wh"


def _count(gpus: float) -> str:
    """How many GPUs, to a hundredth where MIG instances are among them."""
    return f"{round(gpus, 2):g}"


def _devices(job: JobTotals) -> str:
    instances = sum(1 for gpu in job.gpus if gpu.gpu_instance)
    parts = f" ({instances} MIG instance{'s' * (instances != 1)})" if instances else ""
    return f"{_count(job.gpu_count)} GPU{'s' * (job.gpu_count != 1)}{parts}"


def _reported_lines(job: JobTotals, reported: ReportedMfu) -> list[str]:
    accepted = reported.outcomes.get("accepted", 0)
    refused = sum(reported.outcomes.values()) - accepted
    counts = f"{accepted} report{'s' if accepted != 1 else ''}"
    counts += f", {refused} refused" if refused else ""
    adjusted = _adjusted_lines(reported)
    if reported.mfu_ratio is None:
        mfu = percent(reported.recent_mfu_ratio)
        return [f"Reported MFU {mfu}, {too_little(0.0)} ({counts})", *adjusted]
    verdict = reported.verdict.value
    if reported.verdict is Verdict.INSUFFICIENT_DATA:
        verdict = too_little(reported.total.gpu_seconds / (job.gpu_count or 1.0))
    lines = [
        f"Reported MFU {percent(reported.mfu_ratio)}, OFU of the same seconds "
        f"{percent(reported.utilization_ratio)}: {verdict} ({counts})",
        *_error_lines(reported),
        *adjusted,
    ]
    if reported.causes is None:
        return lines
    first, tied, recent = reported.causes.first, reported.causes.tied, reported.recent_verdict
    of = "" if recent is reported.verdict else f" of {recent.value} in the last minutes"
    if first is None:
        return [*lines, f"No known cause{of} fits"]
    like = f" ({tied} fit equally well)" * (tied > 1)
    lines.append(f"Likeliest cause{of}{like}: {first.cause}: {first.evidence}")
    return lines if of else [*lines, f"With more facts: {_command(reported)}"]


def _command(reported: ReportedMfu) -> str:
    """The command that explains the same numbers; what only the job's user knows stands in capitals."""
    words = [f"--mfu {reported.mfu_ratio:.2%}", f"--ofu {reported.utilization_ratio:.2%}"]
    if reported.stderr_ratio is not None:
        words.append(f"--ofu-stderr {reported.stderr_ratio:.2%}")
    if not reported.overstated_seconds:
        words.append("--clock cycles")
    if reported.precision:
        mix = (f"{name}={share:g}" for name, share in reported.precision.items())
        words.append(f"--precision {','.join(mix)}")
    facts = (
        f"--gpu {reported.card or 'NAME'} --gpus N --config FILE --seq-len N --tokens-per-second N"
    )
    return f"ofu-exporter explain {' '.join(words)} {facts}"


def _error_lines(reported: ReportedMfu) -> list[str]:
    """The lines about a standard error that was not measured."""
    wider = "so the limits of the verdict are wider"
    if reported.stderr_method is ErrorMethod.ESTIMATED:
        error = percent(reported.stderr_ratio)
        return [f"This OFU may be {error} off, by the spread of its clock reads, {wider}"]
    if reported.stderr_method is ErrorMethod.UNKNOWN:
        return [f"How far this OFU may be off is not known yet, {wider}"]
    return []


def _adjusted_lines(reported: ReportedMfu) -> list[str]:
    adjusted = reported.adjusted
    if adjusted is None:
        return []
    is_lower = adjusted.bound == "lower"
    return [
        f"OFU without what tiles add{', at most' * is_lower} {percent(reported.adjusted_utilization_ratio)}, over "
        f"{adjusted.gpu_seconds / 3600:.2f} GPU-hours: they add{' at least' * is_lower} "
        f"{percent(adjusted.tile_overhead)}"
    ]


def _run_line(run: RunTotals) -> str:
    began = datetime.fromtimestamp(run.began, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    length = "still running" if run.ended is None else f"{run.ended - run.began:.0f} s long"
    return (
        f"  {run.node} run since {began} UTC, {length}: OFU {percent(run.utilization_ratio)}, "
        f"observed {run.observed_seconds:.0f} of {run.held_seconds:.0f} GPU-seconds"
    )


def _gpu_line(gpu: GpuTotals) -> str:
    name, unit = f"GPU {gpu.gpu} ({gpu.uuid})", "s"
    if gpu.gpu_instance:
        name = f"GPU {gpu.gpu}/{gpu.gpu_instance} ({gpu.uuid}, {_count(gpu.share_ratio)} GPUs)"
        unit = "GPU-seconds"
    return (
        f"  {gpu.node} {name}: OFU {percent(gpu.utilization_ratio)}, "
        f"observed {gpu.observed_seconds:.0f} of {gpu.held_seconds:.0f} {unit}"
    )
