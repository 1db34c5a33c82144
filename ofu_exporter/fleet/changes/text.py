"""Writes what changed in a fleet for people: one sentence, and tables for a terminal, Markdown or a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ofu_exporter.fleet.changes.alarms import ALIKE
from ofu_exporter.fleet.changes_result import (
    ChangeRow,
    ChangesReport,
    NeighbourRow,
    ShareRow,
    SlowRow,
)
from ofu_exporter.fleet.pages import tables
from ofu_exporter.fleet.pages.document import Document, ReportSection
from ofu_exporter.fleet.pages.tables import MOST_ROWS
from ofu_exporter.fleet.reports.figures import NONE, counted, hours, share
from ofu_exporter.support.tables import LEFT, RIGHT, Column, table

COMPARED = {"ofu": "OFU", "sm_clock": "SM clock"}


def changes_headline(changes: Sequence[ChangeRow], slow: Sequence[SlowRow], tested: int) -> str:
    """What a reader should know who reads nothing else."""
    if not tested and not slow:
        return "There is too little data to say whether anything changed."
    worse = sum(row.sure and row.direction == "regression" for row in changes)
    better = sum(row.sure and row.direction == "improvement" for row in changes)
    unsure = sum(not row.sure for row in changes)
    nodes = {(row.cluster, row.node) for row in slow if row.sure}
    parts = [
        f"{counted(worse, 'sure regression')} and {counted(better, 'sure improvement')}"
        if worse or better
        else "No change is sure",
        f"{unsure} possible" if unsure else "none more is possible",
        f"{counted(len(nodes), 'node')} {'is' if len(nodes) == 1 else 'are'} slower than peers",
    ]
    return f"{'; '.join(parts)} ({tested} series)."


def document(report: ChangesReport, most_rows: int = MOST_ROWS) -> Document:
    """What a terminal, Markdown and a page show of it: what matters first, and every table that has rows."""
    sections = [*_sections(report, most_rows)]
    return Document("What changed", report.headline, [*facts(report)], sections, [*remarks(report)])


def facts(report: ChangesReport) -> Iterator[str]:
    """What was looked at, and how far to trust what was found."""
    yield f"{tables.covered(report.time)}."
    tested = ", ".join(f"{row.tested} by {row.kind}" for row in report.series)
    short = sum(row.too_short for row in report.series)
    yield f"Series tested: {tested}; {short} more have too few points."
    most = math.ceil(10 * report.expected_false) / 10
    yield (
        f"Sure: on simulated noise at most {report.report_level:.0%} of whole answers had a sure change "
        f"(docs/changes.md). "
        f"Possible: up to {most if most < 10 else math.ceil(most):g} false alarms are expected among all series, "
        f"if neighbours' autocorrelation is at most {ALIKE}."
    )
    if report.smaller:
        changes, are = counted(report.smaller, "change"), "is" if report.smaller == 1 else "are"
        yield f"{changes} by less than a factor of {report.least_factor:g} {are} left out."


def _sections(report: ChangesReport, most_rows: int) -> Iterator[ReportSection]:
    """Every part that has rows, the surest first."""
    sure = [row for row in report.changes if row.sure]
    possible = [row for row in report.changes if not row.sure]
    for title, rows in (("Sure changes", sure), ("Possible changes", possible)):
        if rows:
            yield ReportSection(f"{title} ({len(rows)})", table(_CHANGES, rows[:most_rows]))
    if sure:
        title = "Points before and after the sure changes"
        yield ReportSection(title, table(_NEIGHBOURS, sure[:most_rows]))
    if moved := [row for row in report.changes if row.shares][:most_rows]:
        jobs = [(row, each) for row in moved for each in row.shares]
        yield ReportSection("Which jobs moved a GPU model", table(_SHARES, jobs))
    if report.slow:
        title = f"Slower than their peers in the same jobs ({len(report.slow)})"
        yield ReportSection(title, table(_SLOW, report.slow[:most_rows]))


def subject(row: ChangeRow) -> str:
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


def _listed(points: Sequence[NeighbourRow]) -> str:
    return ", ".join(f"{point.job_id or point.begin} {share(point.ofu)}" for point in points)


_CHANGES: Sequence[Column[ChangeRow]] = (
    ("what", LEFT, subject),
    ("since", LEFT, lambda row: row.at),
    ("level before", RIGHT, lambda row: share(row.ofu_before)),
    ("after", RIGHT, lambda row: share(row.ofu_after)),
    ("factor", RIGHT, lambda row: f"{row.factor:.2f}"),
    ("95 %", LEFT, lambda row: f"{row.factor_low:.2f}-{row.factor_high:.2f}"),
    ("chance in report", RIGHT, lambda row: chance(row.chance_in_report)),
    (
        "GPU-hours lost",
        RIGHT,
        lambda row: NONE if row.kind == "node" else hours(row.lost_gpu_hours),
    ),
)
_NEIGHBOURS: Sequence[Column[ChangeRow]] = (
    ("what", LEFT, subject),
    ("before", LEFT, lambda row: _listed(row.before[-3:])),
    ("after", LEFT, lambda row: _listed(row.after[:3])),
)
_SHARES: Sequence[Column[tuple[ChangeRow, ShareRow]]] = (
    ("what", LEFT, lambda row: subject(row[0])),
    ("since", LEFT, lambda row: row[0].at),
    (
        "jobs",
        LEFT,
        lambda row: f"{row[1].job_name or 'without a name'} of {row[1].user or 'nobody known'}",
    ),
    ("points of OFU", RIGHT, lambda row: f"{row[1].points:+.1f}"),
    ("GPU-hours before", RIGHT, lambda row: share(row[1].share_before)),
    ("after", RIGHT, lambda row: share(row[1].share_after)),
    ("OFU before", RIGHT, lambda row: share(row[1].ofu_before)),
    ("after", RIGHT, lambda row: share(row[1].ofu_after)),
)
_SLOW: Sequence[Column[SlowRow]] = (
    ("node", LEFT, lambda row: row.shown_node),
    ("GPU", LEFT, lambda row: "all" if row.gpu is None else row.gpu),
    ("compared", LEFT, lambda row: COMPARED[row.compared]),
    ("slower by", RIGHT, lambda row: share(row.slower)),
    ("95 %", LEFT, lambda row: f"{share(row.slower_low)}-{share(row.slower_high)}"),
    ("chance", RIGHT, lambda row: chance(row.chance)),
    ("hours", RIGHT, lambda row: str(row.hours)),
    ("jobs", RIGHT, lambda row: str(len(row.jobs))),
    ("sure", LEFT, lambda row: "yes" if row.sure else "in one job only"),
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
    yield from tables.remarks(report.missing, report.notes)
