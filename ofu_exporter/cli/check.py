"""`check`: takes one window per GPU and shows every input of its OFU, or why there is none."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from ofu_exporter.agent.build import build_attribution, build_sampler
from ofu_exporter.cli.answers import format_option, print_answer, say
from ofu_exporter.cli.bundle import Bundle
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.cli.option_types import DURATION, FILE, option
from ofu_exporter.cli.settings import MEASURE, QUIET, configure, setting_flags, start_quiet_logging
from ofu_exporter.ofu.formula import FP64_PIPES
from ofu_exporter.settings import Configured
from ofu_exporter.support import tables
from ofu_exporter.support.percent import percent
from ofu_exporter.support.tables import LEFT, TextBlock, TextTable
from ofu_exporter.values.gpu import LOW_PRECISION
from ofu_exporter.values.snapshot import GpuView, SchedulerHealth, Snapshot, SourceHealth

EXIT_SOURCE = 3
EXIT_GPU = 4


@click.command(
    cls=SubjectCommand,
    short_help="Measure once; show every input of OFU, or why there is none.",
    common="bundle config format_ source interval scheduler url path simulated_gpus log_level",
)
@option(
    "--bundle",
    "Write an archive to send with a bug report: this check, a recording, settings, versions, log.",
    FILE,
)
@option("--duration", "How long the bundle's recording is. Default: 1m.", DURATION, default="1m")
@option(
    "--log",
    "The agent's log for the bundle; default: what systemd's journal has.",
    FILE,
    parameter="log_file",
)
@partial(setting_flags, preset=QUIET, names=(*MEASURE, "scheduler", "owner_max_age"))
@format_option
def check(
    format_: str, bundle: Path | None, duration: float, log_file: Path | None, **flags: Any
) -> None:
    """Take one window per GPU and show every input of its OFU, or why there is none and what to do."""
    configured = configure(flags, QUIET)
    archive = None if bundle is None else Bundle(bundle, log_file, duration)
    start_quiet_logging(configured)
    snapshot = measured(configured)
    if snapshot is not None:
        print_answer(
            format_,
            lambda: table(snapshot),
            lambda: as_data(snapshot),
            lambda: as_data(snapshot)["gpus"],
        )
    if archive is not None:
        archive.write(configured, None if snapshot is None else as_data(snapshot))
    if snapshot is None:
        say("ofu-exporter: the source did not answer in time", err=True)
        sys.exit(EXIT_SOURCE)
    if not snapshot.gpus:
        sys.exit(EXIT_SOURCE)
    if any(view.reason is not None for view in snapshot.gpus):
        sys.exit(EXIT_GPU)


def measured(configured: Configured) -> Snapshot | None:
    """The first snapshot in which every GPU had its window; None if the source did not answer at all."""
    latest: list[Snapshot] = []
    done = threading.Event()

    def publish(snapshot: Snapshot) -> None:
        latest[:] = [snapshot]
        if snapshot.is_complete and not sampler.choosing:
            done.set()

    attribution = build_attribution(configured)
    sampler = build_sampler(configured, publish, attribution)
    attribution.start()
    sampler.start()
    done.wait(3 * configured.settings.interval + 10)
    sampler.stop()
    attribution.stop()
    return latest[0] if latest else None


def as_data(snapshot: Snapshot) -> dict[str, Any]:
    """The check as plain data; None for what was not measured."""
    source = snapshot.source
    return {
        "source": source.name,
        "other_sources": [
            {"source": health.name, **_why(health)} for health in snapshot.other_sources
        ],
        "simulated": source.simulated,
        **_why(source),
        "gpus": [_gpu_data(view) for view in snapshot.gpus],
        "schedulers": [
            {"scheduler": health.name, **_why(health), "rejected": dict(health.rejected)}
            for health in snapshot.schedulers
        ],
    }


def _why(faulty: SourceHealth | SchedulerHealth | GpuView) -> dict[str, str | None]:
    """The reason for which something is not read, and its detail; None where it is read."""
    reason = faulty.reason.value if faulty.reason else None
    return {"reason": reason, "detail": faulty.detail or None}


def _reason_words(faulty: SourceHealth | SchedulerHealth | GpuView) -> str:
    detail = f" ({faulty.detail})" if faulty.detail else ""
    return f"{faulty.reason.value}{detail}" if faulty.reason else ""


def _sentence(faulty: SourceHealth | SchedulerHealth | GpuView) -> str:
    """The reason, and what to do about it."""
    return f"{_reason_words(faulty)}. {faulty.reason.advice}" if faulty.reason else ""


def _gpu_data(view: GpuView) -> dict[str, Any]:
    gpu, window, rating = view.gpu, view.window, view.rating
    return {
        "gpu": gpu.index,
        "uuid": gpu.uuid,
        "gpu_instance": gpu.instance or None,
        "source": view.source or None,
        "model": gpu.name or None,
        "tensor_active_ratio": window.tensor_active if window else None,
        "pipes": dict(window.pipes) if window else None,
        "sm_clock_hz": window.sm_clock_hz if window else None,
        "tensor_clock_hz": rating.tensor_clock_hz[LOW_PRECISION] if rating else None,
        "tensor_clock_hz_by_domain": dict(rating.tensor_clock_hz) if rating else None,
        "rating": rating.origin if rating else None,
        "utilization_ratio": window.utilization if window else None,
        "utilization_stderr_ratio": window.stderr if window else None,
        "window_seconds": window.seconds if window else None,
        "clock_method": (window.clock_method or None) if window else None,
        "error_budget": error_budget(view),
        "job_ids": [job.job_id for job in view.holders],
        "available": view.reason is None,
        **_why(view),
        "advice": view.reason.advice if view.reason else None,
    }


def error_budget(view: GpuView) -> dict[str, Any] | None:
    """The parts of the error of one window's OFU, in points where they are known; None without an OFU."""
    window, rating = view.window, view.rating
    if window is None or window.utilization is None or rating is None:
        return None
    return {
        "read_clock_points": 100 * window.overstated,  # by which OFU may be lower besides
        "clock_interval_95_points": None if window.stderr is None else 196 * window.stderr,
        "covariance": "not known" if window.clock_method == "point" else "none",
        "fp64_pipe": next((pipe for pipe in FP64_PIPES if pipe in window.pipes), None),
        "window_seconds": window.seconds,
        "observed_seconds": view.observed_seconds / view.share.ratio,
        "tensor_clock": rating.origin,
        "tiles": "counted",  # by OFU, not by MFU; how much they add depends on the job: see `profile`
    }


COLUMNS = (
    *("GPU", "MODEL", "TENSOR", "PIPES", "SM CLOCK"),
    *("TENSOR CLOCK", "OFU", "CLOCK READ", "JOB"),
)


def table(snapshot: Snapshot) -> str:
    source = snapshot.source
    lines: list[TextBlock] = [
        f"Source: {source.name}" + (" (SIMULATED, no GPU was measured)" * source.simulated)
    ]
    if source.reason is not None:
        lines.append(f"Not readable: {_sentence(source)}")
    lines += [_other(health, snapshot) for health in snapshot.other_sources]
    if snapshot.gpus:
        rows = [_cells(view) for view in snapshot.gpus]
        lines.append(TextTable(COLUMNS, [LEFT] * len(COLUMNS), rows))
    return tables.text([*lines, *_notes(snapshot)])


def _other(health: SourceHealth, snapshot: Snapshot) -> str:
    """The GPUs that another source reads, or why it reads none."""
    read = [view.gpu.place for view in snapshot.gpus if view.source == health.name]
    if read:
        return f"Source of GPU {', '.join(read)}: {health.name}"
    why = _reason_words(health)
    return f"Also tried: {health.name}{f': {why}' if why else ''}"


def _cells(view: GpuView) -> tuple[str, ...]:
    window, rating = view.window, view.rating
    clocks = sorted(set(rating.tensor_clock_hz.values())) if rating else []
    rated = "/".join(f"{hz / 1e6:.0f}" for hz in clocks)
    rated += " MHz" if rating else "-"
    if window is None:
        return (view.gpu.place, view.gpu.name or "-", "-", "-", "-", rated, "-", "-", _jobs(view))
    stderr = "" if window.stderr is None else f" ±{window.stderr:.2%}"
    return (
        view.gpu.place,
        view.gpu.name or "-",
        percent(window.tensor_active, "-"),
        " ".join(f"{pipe} {ratio:.1%}" for pipe, ratio in window.pipes.items() if ratio) or "-",
        "-" if window.sm_clock_hz is None else f"{window.sm_clock_hz / 1e6:.0f} MHz",
        rated,
        percent(window.utilization, "-") + stderr,
        window.clock_method or "-",
        _jobs(view),
    )


def _jobs(view: GpuView) -> str:
    return ", ".join(job.job_id for job in view.holders) or "-"


def _scheduler_notes(health: SchedulerHealth) -> Iterator[str]:
    if health.reason is not None:
        yield f"Scheduler {health.name}: {_sentence(health)}"
    if health.rejected:
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(health.rejected.items()))
        yield f"Scheduler {health.name}: not believed: {counts}"


def _error_notes(snapshot: Snapshot) -> Iterator[str]:
    """One line on each part of the error of the OFUs in the table."""
    budgets = [budget for view in snapshot.gpus if (budget := error_budget(view))]
    if not budgets:
        return
    clock = [each["clock_interval_95_points"] for each in budgets]
    measured = [points for points in clock if points is not None]
    clock_error = "one a window, so their error is not known"
    if measured:
        seconds = max(each["window_seconds"] for each in budgets)
        clock_error = (
            f"±{max(measured):.2g} points a window of {seconds:.3g} s (95 %), "
            "shrinking as 1/sqrt(n) over n windows"
        )
    yield f"Clock reads: {clock_error}."
    if any(each["read_clock_points"] for each in budgets):
        yield "NVML's clock can be 13 % too high, and OFU then 11.5 % of itself: `ofu-exporter validate` measures it."
    yield "Tiles: OFU counts padding to whole tiles, MFU does not; `ofu-exporter profile` says how much it is."


def _notes(snapshot: Snapshot) -> Iterator[str]:
    yield from _error_notes(snapshot)
    for view in snapshot.gpus:
        if view.reason is not None:
            yield f"GPU {view.gpu.place}: {_sentence(view)}"
        if view.rejected:
            counts = ", ".join(f"{count} {reason}" for reason, count in view.rejected.items())
            yield f"GPU {view.gpu.place}: samples not believed: {counts}"
        if len(view.holders) > 1:
            yield f"GPU {view.gpu.place}: several jobs have it; its OFU is credited to none"
    for health in snapshot.schedulers:
        yield from _scheduler_notes(health)
