"""Makes the page of the node: its OFU, every GPU or MIG instance, and its jobs."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ofu_exporter import __version__
from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.history import History
from ofu_exporter.serving.node_json import node_ofu
from ofu_exporter.serving.pages import words
from ofu_exporter.serving.pages.links import job_path
from ofu_exporter.serving.pages.pictures import bar, spark
from ofu_exporter.support.drawing import Drawing
from ofu_exporter.support.logs import LastLine
from ofu_exporter.support.percent import percent
from ofu_exporter.support.templates import render
from ofu_exporter.values.clock_limit import limit_words
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import GpuView, JobView, Snapshot


class Glance(NamedTuple):
    """What matters first."""

    ofu: str
    measured: str
    is_missing: bool
    apart: str
    disagrees: bool
    running: int


class HolderLine(NamedTuple):
    """A job that has a GPU, and whose it is."""

    job_id: str
    path: str
    whose: str


class GpuLine(NamedTuple):
    """A GPU or instance in the table. Ratios are from 0 to 1, the clock is in Hz; None is not known."""

    name: str
    profile: str
    kind: str
    """away, idle, or empty for one that works."""
    ofu: float | None
    ofu_words: str
    error: str
    why: str
    """Why it is not measured; empty where it is."""
    bar: Drawing | None
    hour: Drawing | None
    clock: float | None
    clock_words: str
    clock_about: str
    holders: Sequence[HolderLine]


class JobLine(NamedTuple):
    """A job in the table."""

    job_id: str
    path: str
    name: str
    has_ended: bool
    whose: str
    gpus: str
    ofu: str
    mfu: str
    verdict: words.Chip | None
    cause: str
    gpu_hours: str


class LogLine(NamedTuple):
    """A line of the log in the table."""

    time: str
    is_bad: bool
    message: str


class NodeAbout(NamedTuple):
    """What the page says beside the snapshot."""

    node: str
    age: float
    """How old the snapshot is, in seconds."""
    history: History
    lines: Sequence[LastLine] = ()
    """The last lines of the log of changes, newest first."""


def node_page(snapshot: Snapshot | None, about: NodeAbout, faults: Faults) -> str:
    """The page in HTML. A row that cannot be made costs itself."""
    node, lines = about.node, faults.made("/", _line, about.lines)
    if snapshot is None:
        return render(
            "node.html",
            node=node,
            title="starting",
            note=words.reason(Reason.STARTING),
            seen="",
            is_simulated=False,
            recorded="",
            glance=None,
            gpus=[],
            jobs=[],
            lines=lines,
        )
    ofu = node_ofu(snapshot)
    return render(
        "node.html",
        node=node,
        title=f"OFU {percent(ofu, 'not measured')}",
        seen=_seen(snapshot, about.age),
        about=" · ".join(_about(snapshot)),
        is_simulated=snapshot.source.simulated,
        recorded=snapshot.source.recorded,
        note=_note(snapshot),
        glance=_glance(snapshot, ofu),
        gpus=faults.made("/", lambda view: _gpu(view, about.history), snapshot.gpus),
        jobs=faults.made("/", _job, snapshot.jobs),
        lines=lines,
    )


def _seen(snapshot: Snapshot, age: float) -> str:
    newest = max((view.sampled_at for view in snapshot.gpus if view.sampled_at), default=None)
    return f"sampled {words.ago(snapshot.at - newest + age)}" if newest else "no sample yet"


def _about(snapshot: Snapshot) -> Iterator[str]:
    models = Counter(view.gpu.name.removeprefix("NVIDIA ") or "unknown" for view in snapshot.gpus)
    yield from (f"{count} \u00d7 {name}" for name, count in models.items())
    yield f"source {', '.join(_sources(snapshot))}"
    yield from (
        f"driver {each}" for each in sorted({view.gpu.driver for view in snapshot.gpus} - {""})
    )
    yield f"ofu-exporter {__version__}"


def _sources(snapshot: Snapshot) -> Iterable[str]:
    """The names of the sources that GPUs are read through."""
    others = [view.source for view in snapshot.gpus if view.source]
    return dict.fromkeys([snapshot.source.name, *others])


def _note(snapshot: Snapshot) -> str:
    """What a reader must know before any number."""
    health = snapshot.source
    if health.reason is None or snapshot.gpus:
        return ""
    why = words.reason(health.reason, health.detail)
    return f"Nothing is measured here. Source {health.name}: {why}"


def _glance(snapshot: Snapshot, ofu: float | None) -> Glance:
    measured = sum(view.reason is None for view in snapshot.gpus)
    running = [job for job in snapshot.jobs if job.ended is None]
    reporting = [job for job in running if job.reports is not None]
    apart = sum(job.reports is not None and job.reports.verdict.diverged for job in reporting)
    return Glance(
        ofu=percent(ofu, words.NONE),
        measured=f"{measured} of {len(snapshot.gpus)}",
        is_missing=measured < len(snapshot.gpus) or not snapshot.gpus,
        apart=f"{apart} of {len(reporting)}",
        disagrees=bool(apart),
        running=len(running),
    )


def _gpu(view: GpuView, history: History) -> GpuLine:
    name = view.gpu.index + (f"/{view.gpu.instance}" if view.gpu.instance else "")
    window = view.window
    ofu = window.utilization if window else None
    error = window.stderr if window else None
    active = window.tensor_active if window else None
    clock = window.sm_clock_hz if window else None
    return GpuLine(
        name=name,
        profile=view.gpu.profile,
        kind="away" if view.reason else "idle" if active == 0 else "",
        ofu=ofu,
        ofu_words=percent(ofu, ""),
        error="" if error is None else f" ± {200 * error:.1f}",
        why=_why(view, active),
        bar=bar(ofu, window.losses if window else {}),
        hour=spark(history.gpu(view.gpu.key, 4), f"OFU of GPU {name} over the last hour"),
        clock=clock,
        clock_words=f"{clock / 1e6:.0f} MHz" if clock else "",
        clock_about=_clock_about(view, clock) if clock else "",
        holders=[
            HolderLine(job.job_id, job_path(job.job_id), f" {whose}" if whose else "")
            for job in view.holders
            for whose in [job.user or job.namespace]
        ],
    )


def _why(view: GpuView, active: float | None) -> str:
    if view.reason is None:
        return ""
    known = "" if active is None else f"Tensor pipes active {percent(active)}. "
    return known + words.reason(view.reason, view.detail)


def _clock_about(view: GpuView, clock: float) -> str:
    """What the clock is of the tensor clock, and what holds it down."""
    of = max(view.rating.tensor_clock_hz.values(), default=0.0) if view.rating else 0.0
    low = view.rating.tensor_clock_hz.get("low_precision", of) if view.rating else 0.0
    part = f" {clock / low:.0%} of {low / 1e6:.0f}" if low else ""
    limits = limit_words(view.window.clock_limits if view.window else None)
    return part + (f" · {limits}" if limits else "")


def _line(line: LastLine) -> LogLine:
    at = datetime.datetime.fromtimestamp(line.unix).astimezone()
    return LogLine(at.isoformat(" ", "seconds"), line.level != "info", line.message)


def _job(view: JobView) -> JobLine:
    job, reports, observed = view.job, view.reports, view.observed_seconds
    ofu = view.utilization_seconds / observed if observed > 0 else None
    first = reports.causes.first if reports and reports.causes else None
    return JobLine(
        job_id=job.job_id,
        path=job_path(job.job_id),
        name=job.name,
        has_ended=view.ended is not None,
        whose=job.user or job.namespace,
        gpus=f"{math.fsum(usage.share for usage in view.usage):.3g}",
        ofu=percent(ofu, words.NONE),
        mfu=percent(reports.mfu if reports else None, words.NONE),
        verdict=words.verdict(reports.verdict, reports.mfu, reports.horizon.ofu)
        if reports
        else None,
        cause=words.cause(first.cause) if first else "",
        gpu_hours=f"{observed / 3600:.2f}",
    )
