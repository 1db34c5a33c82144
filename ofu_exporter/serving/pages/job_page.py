"""Makes the page of one job: its OFU beside the MFU that it reports, why they may differ, and each of its GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ofu_exporter.jobs.reported_mfu import ReportedMfu
from ofu_exporter.jobs.totals import GpuTotals, JobTotals
from ofu_exporter.ofu.job_state import STEP
from ofu_exporter.serving.history import JOB_STEP_SECONDS, History
from ofu_exporter.serving.pages import words
from ofu_exporter.serving.pages.elements import (
    Cell,
    Column,
    Html,
    bar,
    chart,
    document,
    element,
    histogram,
    joined,
    key,
    link,
    table,
    tile,
)
from ofu_exporter.serving.pages.node_page import SIMULATED
from ofu_exporter.support.percent import percent

COLUMNS_OF_DISTRIBUTION = 20


def job_page(job: JobTotals, history: History, path: str) -> str:
    """The page in HTML. `path` is where the same is as JSON."""
    state = "ended" if job.ended is not None else "running"
    title = f"Job {job.job_id}: OFU {percent(job.utilization_ratio, 'not measured')}"
    parts: list[object] = [_header(job, state, path)]
    if job.simulated:
        parts.append(SIMULATED)
    parts += [_tiles(job), *_verdict(job.reported), *_hour(job, history), _gpus(job.gpus)]
    parts += [*_distribution(job), *_runs(job)]
    return document(title, *parts)


def _header(job: JobTotals, state: str, path: str) -> Html:
    names = {
        "name": job.job_name,
        "user": job.user,
        "account": job.account,
        "partition": job.partition,
        "namespace": job.namespace,
    }
    said = [state, *(f"{what} {name}" for what, name in names.items() if name)]
    said.append(f"on {', '.join(job.nodes)}")
    links = joined([link("/", "Node"), link(path, "JSON")])
    nav = element("nav", links, aria_label="Data")
    about = element("small", " · ".join(said), id="seen")
    return element("header", element("h1", f"Job {job.job_id}"), about, nav)


def _tiles(job: JobTotals) -> Html:
    reported = job.reported
    tiles = [
        tile(percent(job.utilization_ratio, words.NONE), "OFU over all that was observed"),
        tile(
            percent(reported.mfu_ratio if reported else None, words.NONE),
            f"reported MFU; OFU of the same seconds {percent(reported.utilization_ratio, 'unknown')}"
            if reported
            else "the job reports no MFU",
            "bad" * bool(reported and reported.verdict.diverged),
        ),
        tile(f"{job.gpu_seconds / 3600:.2f}", f"GPU-hours observed, on {job.gpu_count:.3g} GPUs"),
        tile(percent(job.observed_ratio, words.NONE), "of the time that it had them was observed"),
    ]
    return element("section", *tiles, _class="tiles", aria_label="At a glance")


def _verdict(reported: ReportedMfu | None) -> Iterable[Html]:
    """What the comparison says, and what makes the difference likeliest."""
    if reported is None:
        return
    found = words.verdict(reported.verdict, reported.mfu_ratio, reported.utilization_ratio)
    parts = [element("h2", "MFU against OFU"), element("p", found)]
    causes = reported.causes
    if causes is not None and causes.fitting:
        parts.append(element("p", "What makes such a difference, likeliest first:"))
        parts.append(
            element(
                "ol",
                *(
                    element("li", element("b", each.cause), ": ", each.evidence)
                    for each in causes.fitting
                ),
            )
        )
        if causes.tied > 1:
            tied = f"The numbers cannot tell the first {causes.tied} apart."
            parts.append(element("p", tied, _class="soft"))
    elif causes is not None:
        parts.append(element("p", causes.advice or "No known cause fits."))
    yield element("section", *parts, _class="card")


def _hour(job: JobTotals, history: History) -> Iterable[Html]:
    ofu, mfu = history.job((job.scheduler, job.job_id))
    drawn = chart(ofu, mfu, "OFU and reported MFU of the job over the last hour")
    if not drawn:
        return
    step = f"means of {JOB_STEP_SECONDS:.0f} s; a gap was not measured; the lines are 25 % apart"
    meaning = key(used="OFU") + element("small", "dashed: the MFU that the job reports. ", step)
    yield element("section", element("h2", "The last hour"), Html(meaning), drawn, _class="card")


GPU_COLUMNS = (
    Column("GPU"),
    Column("Node", "phone"),
    Column("OFU", "num"),
    Column("Used"),
    Column("Observed", "num phone"),
    Column("Held, s", "num phone"),
)


def _gpus(gpus: Iterable[GpuTotals]) -> Html:
    body = table("job-gpus", GPU_COLUMNS, [_gpu(each) for each in gpus])
    return element("section", element("h2", "GPUs"), body, _class="card")


def _gpu(gpu: GpuTotals) -> tuple[str, list[Cell]]:
    name = gpu.gpu + (f"/{gpu.gpu_instance}" if gpu.gpu_instance else "")
    ofu = gpu.utilization_ratio
    share = gpu.observed_seconds / gpu.held_seconds if gpu.held_seconds > 0 else None
    cells = [
        Cell(element("b", name), name),
        Cell(gpu.node),
        Cell(percent(ofu, words.NONE), ofu),
        Cell(bar(ofu), ofu),
        Cell(percent(share, words.NONE), share),
        Cell(f"{gpu.held_seconds:.0f}"),
    ]
    return "", cells


def _distribution(job: JobTotals) -> Iterable[Html]:
    """Observed time by the OFU of its windows."""
    total = math.fsum(job.distribution.values())
    if total <= 0:
        return
    shares = [0.0] * COLUMNS_OF_DISTRIBUTION
    for step, seconds in job.distribution.items():
        place = min(int(step * STEP * COLUMNS_OF_DISTRIBUTION), COLUMNS_OF_DISTRIBUTION - 1)
        shares[place] += seconds / total
    said = ", ".join(f"{name} {percent(value)}" for name, value in job.window_percentiles.items())
    label = f"Share of the observed time by the OFU of its windows, from 0 to 100 %: {said}"
    scale = element("p", f"OFU from 0 % on the left to 100 % on the right. {said}.", _class="soft")
    drawn = histogram(shares, label)
    yield element("section", element("h2", "OFU of its windows"), drawn, scale, _class="card")


RUN_COLUMNS = (
    Column("Run"),
    Column("Node", "phone"),
    Column("OFU", "num"),
    Column("GPU-hours", "num"),
    Column("Lasted, s", "num"),
)


def _runs(job: JobTotals) -> Iterable[Html]:
    if len(job.runs) < 2:
        return
    rows = []
    for number, run in enumerate(job.runs, 1):
        ended = job.updated if run.ended is None else run.ended
        cells = [
            Cell(f"{number} {run.uid}", number),
            Cell(run.node),
            Cell(percent(run.utilization_ratio, words.NONE), run.utilization_ratio),
            Cell(f"{run.observed_seconds / 3600:.2f}"),
            Cell(f"{max(0.0, ended - run.began):.0f}"),
        ]
        rows.append(("", cells))
    body = table("runs", RUN_COLUMNS, rows)
    yield element("section", element("h2", "Runs"), body, _class="card")
