"""Makes the page of the node: its OFU, every GPU or MIG instance, and its jobs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from ofu_exporter import __version__
from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.history import History
from ofu_exporter.serving.node_json import node_ofu
from ofu_exporter.serving.pages import words
from ofu_exporter.serving.pages.elements import (
    Cell,
    Column,
    Html,
    bar,
    document,
    element,
    job_path,
    joined,
    key,
    link,
    spark,
    table,
    tile,
)
from ofu_exporter.support.percent import percent
from ofu_exporter.values.clock_limit import limit_words
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.reported import ReportsView
from ofu_exporter.values.snapshot import GpuView, JobView, Snapshot

LINKS = {
    "Metrics": "/metrics",
    "GPUs as JSON": "/v1/gpus",
    "Jobs as JSON": "/v1/jobs",
    "Readiness": "/readyz",
    "API": "/docs",
}
SIMULATED = element("p", "Simulated data: no GPU was measured.", _class="note", role="note")


def node_page(
    snapshot: Snapshot | None, history: History, node: str, age: float, faults: Faults
) -> str:
    """The page in HTML. `age` is how old the snapshot is, in seconds. A row that cannot be made costs itself."""
    if snapshot is None:
        waiting = element("p", words.reason(Reason.STARTING), _class="note")
        return document(f"{node}: starting", _header(node, "no sample yet"), waiting)
    ofu = node_ofu(snapshot)
    title = f"{node}: OFU {percent(ofu, 'not measured')}"
    parts = [_header(node, _about(snapshot, age)), *_notes(snapshot), _tiles(snapshot, ofu)]
    if snapshot.gpus:
        parts.append(_gpus(snapshot, history, faults))
    if snapshot.jobs:
        parts.append(_jobs(snapshot.jobs, faults))
    return document(title, *parts, _footer())


def _header(node: str, about: object) -> Html:
    links = (link(path, name) for name, path in LINKS.items())
    return element("header", element("h1", node), about, element("nav", *links, aria_label="Data"))


def _about(snapshot: Snapshot, age: float) -> Html:
    newest = max((view.sampled_at for view in snapshot.gpus if view.sampled_at), default=None)
    seen = None if newest is None else snapshot.at - newest + age
    models = Counter(view.gpu.name.removeprefix("NVIDIA ") or "unknown" for view in snapshot.gpus)
    drivers = sorted({view.gpu.driver for view in snapshot.gpus if view.gpu.driver})
    said = [
        *(f"{count} \u00d7 {name}" for name, count in models.items()),
        f"source {', '.join(_sources(snapshot))}",
        *(f"driver {driver}" for driver in drivers),
        f"ofu-exporter {__version__}",
    ]
    fresh = element("span", f"sampled {words.ago(seen)}" if newest else "no sample yet", id="seen")
    return element("span", fresh, " · ", element("small", " · ".join(said)))


def _sources(snapshot: Snapshot) -> Iterable[str]:
    """The names of the sources that GPUs are read through."""
    others = [view.source for view in snapshot.gpus if view.source]
    return dict.fromkeys([snapshot.source.name, *others])


def _notes(snapshot: Snapshot) -> Iterable[Html]:
    """What a reader must know before any number."""
    if snapshot.source.simulated:
        yield SIMULATED
    health = snapshot.source
    if health.reason is not None and not snapshot.gpus:
        said = f"Nothing is measured here. Source {health.name}: {words.reason(health.reason, health.detail)}"
        yield element("p", said, _class="note", role="note")


def _tiles(snapshot: Snapshot, ofu: float | None) -> Html:
    measured = sum(view.reason is None for view in snapshot.gpus)
    missing = measured < len(snapshot.gpus) or not snapshot.gpus
    running = [job for job in snapshot.jobs if job.ended is None]
    reporting = [job for job in running if job.reports is not None]
    apart = sum(job.reports is not None and job.reports.verdict.diverged for job in reporting)
    return element(
        "section",
        tile(percent(ofu, words.NONE), "OFU: share of the peak of the measured GPUs, now"),
        tile(f"{measured} of {len(snapshot.gpus)}", "GPUs and instances measured", "bad" * missing),
        tile(
            f"{apart} of {len(reporting)}",
            f"jobs whose MFU disagrees with OFU, of those that report one ({len(running)} run)",
            "bad" * bool(apart),
        ),
        _class="tiles",
        aria_label="At a glance",
    )


GPU_COLUMNS = (
    Column("GPU"),
    Column("OFU", "num"),
    Column("Used, and what is lost"),
    Column("Last hour", "phone"),
    Column("SM clock", "num phone"),
    Column("Job", "job"),
)


def _gpus(snapshot: Snapshot, history: History, faults: Faults) -> Html:
    rows = faults.made("/", lambda view: _gpu(view, history), snapshot.gpus)
    meaning = key(used="used", clock="lost to the clock", rest="lost to inactivity")
    body = table("gpus", GPU_COLUMNS, rows)
    return element("section", element("h2", "GPUs"), meaning, body, _class="card")


def _gpu(view: GpuView, history: History) -> tuple[str, list[Cell]]:
    name = view.gpu.index + (f"/{view.gpu.instance}" if view.gpu.instance else "")
    named = Cell(joined([element("b", name), " ", element("small", view.gpu.profile)]), name)
    jobs = joined(map(_holder, view.holders), between=", ") or element(
        "span", "none", _class="soft"
    )
    window = view.window
    ofu = window.utilization if window else None
    active = window.tensor_active if window else None
    clock = window.sm_clock_hz if window else None
    line = spark(history.gpu(view.gpu.key, 4), f"OFU of GPU {name} over the last hour")
    shown: object = bar(ofu, active)
    if view.reason is not None:
        known = "" if active is None else f"Tensor pipes active {percent(active)}. "
        shown = element("span", known + words.reason(view.reason, view.detail), _class="wrap")
    kind = "away" if view.reason else "idle" if active == 0 else ""
    cells = [named, _ofu(view), Cell(shown, ofu), Cell(line), _clock(view, clock), Cell(jobs)]
    return kind, cells


def _holder(job: Job) -> Html:
    """A job that has the GPU, and whose it is."""
    whose = job.user or job.namespace
    return joined(
        [link(job_path(job.job_id), job.job_id), element("small", f" {whose}" * bool(whose))]
    )


def _ofu(view: GpuView) -> Cell:
    window = view.window
    if window is None or window.utilization is None:
        return Cell(words.NONE)
    error = "" if window.stderr is None else f" ± {200 * window.stderr:.1f}"
    shown = joined([element("b", percent(window.utilization)), element("small", error)])
    return Cell(shown, window.utilization)


def _clock(view: GpuView, clock: float | None) -> Cell:
    """The clock, what it is of the tensor clock, and what holds it down."""
    if not clock:
        return Cell(words.NONE)
    of = max(view.rating.tensor_clock_hz.values(), default=0.0) if view.rating else 0.0
    low = view.rating.tensor_clock_hz.get("low_precision", of) if view.rating else 0.0
    part = f" {clock / low:.0%} of {low / 1e6:.0f}" if low else ""
    limits = limit_words(view.window.clock_limits if view.window else None)
    held = f" · {limits}" if limits else ""
    return Cell(joined([f"{clock / 1e6:.0f} MHz", element("small", part, held)]), clock)


JOB_COLUMNS = (
    Column("Job", "job"),
    Column("User", "phone"),
    Column("GPUs", "num phone"),
    Column("OFU", "num"),
    Column("Reported MFU", "num"),
    Column("Verdict"),
    Column("GPU-hours", "num phone"),
)


def _jobs(jobs: Iterable[JobView], faults: Faults) -> Html:
    body = table("jobs", JOB_COLUMNS, faults.made("/", _job, jobs))
    return element("section", element("h2", "Jobs"), body, _class="card")


def _job(view: JobView) -> tuple[str, list[Cell]]:
    job, reports, observed = view.job, view.reports, view.observed_seconds
    ofu = view.utilization_seconds / observed if observed > 0 else None
    state = " ended" if view.ended is not None else ""
    named = joined(
        [link(job_path(job.job_id), job.job_id), " ", element("small", job.name + state)]
    )
    gpus = math.fsum(usage.share for usage in view.usage)
    mfu = reports.mfu if reports else None
    cells = [
        Cell(named, job.job_id),
        Cell(job.user or job.namespace),
        Cell(f"{gpus:.3g}"),
        Cell(percent(ofu, words.NONE), ofu),
        Cell(percent(mfu, words.NONE), mfu),
        Cell(_verdict(reports)),
        Cell(f"{observed / 3600:.2f}"),
    ]
    return "idle" if state else "", cells


def _verdict(reports: ReportsView | None) -> Html:
    """The verdict on the last minutes, with the likeliest cause where there is one."""
    if reports is None:
        return Html("")
    found = words.verdict(reports.verdict, reports.mfu, reports.horizon.ofu)
    first = reports.causes.first if reports.causes else None
    return joined([found, " ", element("small", words.cause(first.cause))]) if first else found


def _footer() -> Html:
    said = (
        "OFU = tensor pipe activity \u00d7 SM clock ÷ tensor clock; ± is twice the standard error. "
        "A grey GPU did no tensor work in its last window. The page refreshes itself every 5 s."
    )
    return element("footer", said)
