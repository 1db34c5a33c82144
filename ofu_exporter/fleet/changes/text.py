"""Writes what changed in a fleet for people: text for a terminal, or Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ofu_exporter.fleet.changes.result import (
    ChangeRow,
    ChangesReport,
    NeighbourRow,
    ShareRow,
    SlowRow,
)
from ofu_exporter.fleet.reports.tables import ReportSection, counted, hours, share
from ofu_exporter.support.tables import LEFT, RIGHT, TextTable, markdown_words
from ofu_exporter.values.text import shown

MOST_ROWS = 20
COMPARED = {"ofu": "OFU", "sm_clock": "SM clock"}


def text(report: ChangesReport, most_rows: int = MOST_ROWS) -> str:
    """The report as text."""
    lines = [*map(shown, (report.headline, *facts(report)))]
    for section in sections(report, most_rows):
        lines += ["", f"{section.title}:", "", section.table.plain()]
    notes = list(remarks(report))
    if notes:
        lines += ["", "To know:", "", *(f"- {shown(remark)}" for remark in notes)]
    return "\n".join(lines)


def markdown(report: ChangesReport, most_rows: int = MOST_ROWS) -> str:
    """The report in Markdown."""
    headline, looked_at = map(markdown_words, (report.headline, " ".join(facts(report))))
    lines = ["# What changed", "", f"**{headline}**", "", looked_at]
    for section in sections(report, most_rows):
        lines += ["", f"## {section.title}", "", section.table.markdown()]
    notes = list(remarks(report))
    if notes:
        lines += ["", "## To know", "", *(f"- {markdown_words(remark)}" for remark in notes)]
    return "\n".join(lines)


def facts(report: ChangesReport) -> Iterator[str]:
    """What was looked at, and how far to trust what was found."""
    time = report.time
    covered = "none" if time.covered_ratio is None else share(time.covered_ratio)
    yield f"{time.start} to {time.end} ({counted(time.hours, 'hour')}), {covered} of it covered by data."
    tested = ", ".join(f"{row.tested} by {row.kind}" for row in report.series)
    short = sum(row.too_short for row in report.series)
    yield f"Series tested: {tested}; {short} more have too few points."
    yield (
        f"Sure: on made noise at most {report.report_level:.0%} of whole answers had a sure change "
        f"(docs/changes.md). "
        f"Possible: {_false_alarms(report.expected_false)} expected among all series."
    )
    if report.smaller:
        yield f"{report.smaller} changes by less than a factor of {report.least_factor:g} are left out."


def _false_alarms(expected: float) -> str:
    """A bound in words that is never 0."""
    return (
        "less than one false alarm is"
        if expected < 1
        else f"up to {math.ceil(expected)} false alarms are"
    )


def sections(report: ChangesReport, most_rows: int) -> Iterator[ReportSection]:
    """Every part that has rows, the surest first."""
    sure = [row for row in report.changes if row.sure]
    possible = [row for row in report.changes if not row.sure]
    for title, rows in (("Sure changes", sure), ("Possible changes", possible)):
        if rows:
            yield ReportSection(f"{title} ({len(rows)})", _changes(rows[:most_rows]))
    if sure:
        yield ReportSection(
            "Points before and after the sure changes", _neighbours(sure[:most_rows])
        )
    moved = [row for row in report.changes if row.shares]
    if moved:
        yield ReportSection("Which jobs moved a GPU model", _shares(moved[:most_rows]))
    if report.slow:
        title = f"Slower than their peers in the same jobs ({len(report.slow)})"
        yield ReportSection(title, _slow(report.slow[:most_rows]))


def _changes(rows: Sequence[ChangeRow]) -> TextTable:
    return TextTable(
        (
            "WHAT",
            "SINCE",
            "LEVEL BEFORE",
            "AFTER",
            "FACTOR",
            "95 %",
            "CHANCE IN REPORT",
            "GPU-HOURS LOST",
        ),
        (LEFT, LEFT, RIGHT, RIGHT, RIGHT, LEFT, RIGHT, RIGHT),
        [
            (
                subject(row),
                row.at,
                share(row.ofu_before),
                share(row.ofu_after),
                f"{row.factor:.2f}",
                f"{row.factor_low:.2f}-{row.factor_high:.2f}",
                chance(row.chance_in_report),
                "-" if row.kind == "node" else hours(row.lost_gpu_hours),
            )
            for row in rows
        ],
    )


def subject(row: ChangeRow) -> str:
    """What changed, in words."""
    labels = row.labels
    where = f" in {labels['cluster']}" if labels.get("cluster") else ""
    if row.kind == "name":
        by = f" of {labels['user']}" if labels["user"] else ""
        on = f" on {labels['model']}" if labels["model"] else ""
        return f"jobs {labels['job_name']}{by}{on}{where}"
    if row.kind == "job":
        return f"job {labels['job_id']} {labels.get('job_name', '')}".rstrip() + where
    if row.kind == "model":
        return f"all {labels['model'] or 'GPUs'}{where}"
    return f"node {labels['node']} against its peers{where}"


def chance(value: float) -> str:
    """A probability; a small one as a bound."""
    return "< 0.01%" if value < 1e-4 else f"{value:.2%}"


def _neighbours(rows: Sequence[ChangeRow]) -> TextTable:
    return TextTable(
        ("WHAT", "BEFORE", "AFTER"),
        (LEFT, LEFT, LEFT),
        [(subject(row), _listed(row.before[-3:]), _listed(row.after[:3])) for row in rows],
    )


def _listed(points: Sequence[NeighbourRow]) -> str:
    return ", ".join(f"{point.job_id or point.begin} {share(point.ofu)}" for point in points)


def _shares(rows: Sequence[ChangeRow]) -> TextTable:
    return TextTable(
        (
            "WHAT",
            "SINCE",
            "JOBS",
            "POINTS OF OFU",
            "GPU-HOURS BEFORE",
            "AFTER",
            "OFU BEFORE",
            "AFTER",
        ),
        (LEFT, LEFT, LEFT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT),
        [_share_cells(row, each) for row in rows for each in row.shares],
    )


def _share_cells(row: ChangeRow, jobs: ShareRow) -> tuple[str, ...]:
    return (
        subject(row),
        row.at,
        f"{jobs.job_name or 'without a name'} of {jobs.user or 'nobody known'}",
        f"{jobs.points:+.1f}",
        share(jobs.share_before),
        share(jobs.share_after),
        share(jobs.ofu_before),
        share(jobs.ofu_after),
    )


def _slow(rows: Sequence[SlowRow]) -> TextTable:
    return TextTable(
        ("NODE", "GPU", "COMPARED", "SLOWER BY", "95 %", "CHANCE", "HOURS", "JOBS", "SURE"),
        (LEFT, LEFT, LEFT, RIGHT, LEFT, RIGHT, RIGHT, RIGHT, LEFT),
        [
            (
                row.node,
                "all" if row.gpu is None else row.gpu,
                COMPARED[row.compared],
                share(row.slower),
                f"{share(row.slower_low)}-{share(row.slower_high)}",
                chance(row.chance),
                str(row.hours),
                str(len(row.jobs)),
                "yes" if row.sure else "in one job only",
            )
            for row in rows
        ],
    )


def remarks(report: ChangesReport) -> Iterator[str]:
    """How much could be compared, what could not be read, and what else a reader should know."""
    for row in report.peers:
        few = f", {row.too_few_hours} more too briefly" if row.too_few_hours else ""
        if row.count:
            yield (
                f"{row.count} {'GPUs' if row.of == 'gpu' else 'nodes'} were compared with peers by "
                f"{COMPARED[row.compared]}{few}; healthy ones differ by {share(row.spread)}."
            )
    for part in report.missing:
        yield f"Not read: {part.what}, {part.start} to {part.end}: {part.why}"
    yield from report.notes
