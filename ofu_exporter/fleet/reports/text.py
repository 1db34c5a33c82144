"""Writes a report for people: as text for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.fleet.reports.tables import counted, number, sections, share
from ofu_exporter.support.tables import markdown_words
from ofu_exporter.values.text import shown

MOST_ROWS = 20


def text(report: FleetReport, most_rows: int = MOST_ROWS) -> str:
    """The report as text."""
    lines = [*map(shown, (report.headline, *facts(report)))]
    for section in sections(report, most_rows):
        remark = [shown(section.remark)] if section.remark else []
        lines += ["", f"{section.title}:", "", section.table.plain(), *remark]
    if to_know := [*remarks(report)]:
        lines += ["", "To know:", "", *(f"- {shown(remark)}" for remark in to_know)]
    return "\n".join(lines)


def markdown(report: FleetReport, most_rows: int = MOST_ROWS) -> str:
    """The report in Markdown."""
    lines = [
        "# Where the GPU-hours went",
        "",
        f"**{markdown_words(report.headline)}**",
        "",
        markdown_words(" ".join(facts(report))),
    ]
    for section in sections(report, most_rows):
        remark = ["", markdown_words(section.remark)] if section.remark else []
        lines += ["", f"## {section.title}", "", section.table.markdown(), *remark]
    if to_know := [*remarks(report)]:
        lines += ["", "## To know", "", *(f"- {markdown_words(remark)}" for remark in to_know)]
    return "\n".join(lines)


def facts(report: FleetReport) -> Iterator[str]:
    """What the numbers are of."""
    time = report.time
    covered = "none" if time.covered_ratio is None else share(time.covered_ratio)
    yield f"{time.start} to {time.end} ({counted(time.hours, 'hour')}), {covered} of it covered by data."
    first = next((at for at, row in enumerate(report.hours) if row.held_gpus is not None), 0)
    if first:
        yield f"The first data is of the hour that ends at {report.hours[first].end}."
    gpus = [row.gpus for row in report.clusters if row.gpus is not None]
    named = [row.cluster for row in report.clusters if row.cluster]
    where = f" in {', '.join(named)}" if named else ""
    count = number(sum(gpus)) if gpus else "an unknown number of"
    yield f"{counted(report.total.jobs, 'job')} on {count} GPUs{where}."
    if report.total.observed_gpu_hours:
        reporting = share(report.reporting_ratio)
        yield (
            f"OFU of jobs {share(report.total.ofu)} by GPU-hours; "
            f"an MFU is reported for {reporting} of the measured ones."
        )
    if report.no_job and report.no_job.observed_gpu_hours:
        yield f"OFU of all GPUs, with and without a job, {share(report.ofu)}."


def remarks(report: FleetReport) -> Iterator[str]:
    """What could not be read, and what else a reader should know."""
    yield from missing(report)
    yield from report.notes


def missing(report: FleetReport) -> Iterator[str]:
    """What could not be read."""
    for row in report.missing:
        yield f"Not read: {row.words}"
