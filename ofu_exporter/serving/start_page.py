"""Makes the start page: what the agent measures now, as a table for people."""

from __future__ import annotations

import html
from urllib.parse import quote

from ofu_exporter import __version__
from ofu_exporter.serving.readiness import unready
from ofu_exporter.support.percent import percent
from ofu_exporter.values.reported import ReportsView
from ofu_exporter.values.snapshot import GpuView, JobView, Snapshot


def start_page(snapshot: Snapshot | None) -> str:
    """The start page in HTML: tables of GPUs and jobs, and links."""
    rows = "".join(_row(view) for view in snapshot.gpus) if snapshot else ""
    simulated = snapshot is not None and snapshot.source.simulated
    notice = "<p><strong>Simulated data: no GPU was measured.</strong></p>" if simulated else ""
    if problem := unready(snapshot):
        notice += f"<p><strong>Nothing is measured now:</strong> {html.escape(problem)}</p>"
    source = html.escape(_sources(snapshot)) if snapshot else "none yet"
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>ofu-exporter</title>"
        "<style>body{font:16px/1.5 system-ui,sans-serif;margin:2rem;max-width:70rem}"
        "table{border-collapse:collapse}td,th{padding:.2rem 1rem .2rem 0;text-align:right;"
        "white-space:nowrap}td:first-child,td:nth-child(2),th:first-child,th:nth-child(2),"
        ".jobs :is(td,th):nth-child(3),.jobs :is(td,th):nth-child(6){text-align:left}</style>"
        f"<h1>ofu-exporter {__version__}</h1>{notice}<p>Source: {source}. "
        "OFU is the share of a GPU's dense peak FLOP/s that its jobs use.</p>"
        "<table><tr><th>GPU<th>Model<th>OFU<th>Tensor active<th>SM clock<th>Job<th></tr>"
        f"{rows}</table>{_jobs_table(snapshot)}"
        "<p><a href=/metrics>metrics</a> · <a href=/v1/gpus>GPUs</a> · <a href=/v1/jobs>jobs</a> · "
        "<a href=/readyz>readiness</a> · "
        "<a href=/healthz>health</a> · <a href=/docs>API</a></p></html>"
    )


def _sources(snapshot: Snapshot) -> str:
    """The names of the sources that GPUs are read through."""
    return ", ".join(
        dict.fromkeys([snapshot.source.name, *(v.source for v in snapshot.gpus if v.source)])
    )


def _row(view: GpuView) -> str:
    name = view.gpu.index + (f"/{view.gpu.instance}" if view.gpu.instance else "")
    cells = [html.escape(name), html.escape(view.gpu.name or "unknown")]
    window = view.window
    cells += [
        percent(window.utilization if window else None, ""),
        percent(window.tensor_active if window else None, ""),
        f"{window.sm_clock_hz / 1e6:.0f} MHz" if window and window.sm_clock_hz else "",
        html.escape(", ".join(job.job_id for job in view.holders)),
        view.reason.value if view.reason else "",
    ]
    return "<tr>" + "".join(f"<td>{cell}" for cell in cells) + "</tr>"


def _jobs_table(snapshot: Snapshot | None) -> str:
    if snapshot is None or not snapshot.jobs:
        return ""
    rows = "".join(_job_row(view) for view in snapshot.jobs)
    head = "<tr><th>Job<th>Name<th>User<th>OFU<th>Reported MFU<th>Verdict<th>GPU-hours<th></tr>"
    return f"<h2>Jobs</h2><table class=jobs>{head}{rows}</table>"


def _job_row(view: JobView) -> str:
    job = view.job
    path = quote(job.job_id)
    observed, reports = view.observed_seconds, view.reports
    cells = [
        f"<a href=/v1/jobs/{path}>{html.escape(job.job_id)}</a>",
        html.escape(job.name),
        html.escape(job.user or job.namespace),
        percent(view.utilization_seconds / observed if observed > 0 else None, ""),
        percent(reports.mfu if reports else None, ""),
        _verdict(reports),
        f"{observed / 3600:.2f}",
        "ended" if view.ended is not None else "",
    ]
    return "<tr>" + "".join(f"<td>{cell}" for cell in cells) + "</tr>"


def _verdict(reports: ReportsView | None) -> str:
    """The verdict, with the likeliest cause where there is one."""
    if reports is None:
        return ""
    first = reports.causes.first if reports.causes else None
    return reports.verdict.value + (f" ({html.escape(first.cause)})" if first else "")
