"""Lays out the chain, and what of the held GPU-hours was no progress, as tables of text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ofu_exporter.fleet.history.progress_sums import MEANINGS, NoProgress
from ofu_exporter.fleet.pages.document import ReportSection
from ofu_exporter.fleet.reports.chain_rows import ChainStep, Factor, ProgressRow, RestartRow
from ofu_exporter.fleet.reports.figures import hours, money
from ofu_exporter.support.percent import percent
from ofu_exporter.support.tables import LEFT, RIGHT, Column, TextTable, table

MOST_CHAIN_ROWS = 10
"""Of users, accounts, jobs or restarts, those that lost most; JSON has all."""
WORDS: Mapping[Factor, str] = {
    "capacity": "GPUs that agents knew of",
    "allocated": "held by jobs",
    "together": "started, and every GPU of the job was busy in the same minute",
    "progress": "steps that were new, without stated evaluations and checkpoints",
    "ofu": "the same work, in hours at the full peak",
}
_MEANINGS = "; ".join(f"{reason.words}: {meaning}" for reason, meaning in MEANINGS.items()) + "."


def chain_words(steps: Sequence[ChainStep]) -> str:
    """The chain in a sentence; empty where nobody held a GPU, or the capacity is not known."""
    by_factor = {step.factor: step for step in steps}
    last = by_factor.get("ofu")
    if last is None or last.share is None:
        return ""
    words: dict[Factor, str] = {
        "allocated": "was held by jobs",
        "together": "had every GPU of the job at work",
        "progress": "made progress",
    }
    parts = [
        f"{percent(step.share)} {words[step.factor]}" for step in steps if step.factor in words
    ]
    became = "became progress" if "progress" in by_factor else "was used"
    return (
        f"Of the capacity, {', '.join(parts)}. The OFU of that time was {percent(last.ratio)}, so "
        f"{percent(last.share)} of the peak {became}."
    )


def before(step: ChainStep) -> str:
    """The share of the step before; the capacity has none before it."""
    return "-" if step.factor == "capacity" else percent(step.ratio, "-")


def beside(step: ChainStep) -> str:
    """A factor's ratio and what it was in the last period, in words; empty of the capacity."""
    if step.factor == "capacity":
        return ""
    then = "" if step.ratio_before is None else f", in the last period {percent(step.ratio_before)}"
    return f"{before(step)} of the step before{then}"


def chain_table(steps: Sequence[ChainStep], currency: str) -> TextTable:
    is_compared = any(step.share_before is not None for step in steps)
    ratio: Column[ChainStep] = ("last period", RIGHT, lambda step: percent(step.ratio_before, "-"))
    share: Column[ChainStep] = ("last period", RIGHT, lambda step: percent(step.share_before, "-"))
    columns: list[Column[ChainStep]] = [
        ("", LEFT, lambda step: "OFU" if step.factor == "ofu" else step.factor),
        ("of the step before", RIGHT, before),
        *([ratio] if is_compared else []),
        ("of the capacity", RIGHT, lambda step: percent(step.share, "-")),
        *([share] if is_compared else []),
        ("GPU-hours", RIGHT, lambda step: hours(step.gpu_hours)),
        ("cost", RIGHT, lambda step: money(step.cost, currency)),
        ("", LEFT, lambda step: WORDS[step.factor]),
    ]
    return table(columns, steps)


def progress_section(
    rows: Sequence[ProgressRow], by: str, currency: str
) -> tuple[str, TextTable, str]:
    """The reasons by user or account, where the report is by these, else by job; all jobs are the last row.

    Gives the title, the table and what the reasons mean.
    """
    by = by if by in ("user", "account") else "job"
    named = [row for row in rows if row.by == by][:MOST_CHAIN_ROWS]
    user: Column[ProgressRow] = ("user", LEFT, lambda row: row.user)
    columns: list[Column[ProgressRow]] = [
        (by, LEFT, lambda row: "all jobs" if row.by == "all" else _name(row)),
        *([user] if by == "job" else []),
        ("GPU-hours", RIGHT, lambda row: hours(row.held_gpu_hours)),
        *((reason.words, RIGHT, _share_of(reason)) for reason in NoProgress),
        ("cost of these", RIGHT, lambda row: money(row.lost_cost, currency)),
        ("restarts", RIGHT, lambda row: "-" if row.restarts is None else f"{row.restarts:.0f}"),
    ]
    return f"Held without progress, by {by}", table(columns, [*named, rows[0]]), _MEANINGS


def _name(row: ProgressRow) -> str:
    name = row.name or "(not known)"
    return f"{row.cluster}/{name}" if row.cluster else name


def _share_of(reason: NoProgress) -> Callable[[ProgressRow], str]:
    def write(row: ProgressRow) -> str:
        lost: float | None = getattr(row, f"{reason.value}_gpu_hours")
        return "-" if lost is None or not row.held_gpu_hours else percent(lost / row.held_gpu_hours)

    return write


def restart_section(rows: Sequence[RestartRow], currency: str) -> ReportSection:
    """The most expensive ones."""
    columns: list[Column[RestartRow]] = [
        ("job", LEFT, lambda row: f"{row.cluster}/{row.job_id}" if row.cluster else row.job_id),
        ("name", LEFT, lambda row: row.job_name),
        ("user", LEFT, lambda row: row.user),
        ("in the hour until", LEFT, lambda row: row.end),
        ("restarts", RIGHT, lambda row: f"{row.restarts:.0f}"),
        ("GPU-hours", RIGHT, lambda row: hours(row.gpu_hours)),
        ("cost", RIGHT, lambda row: money(row.cost, currency)),
        ("held hours to recover", RIGHT, lambda row: hours(row.recovery_hours)),
    ]
    note = "To recover: until it computed again, and for steps that it had reached before; waiting is not in it."
    return ReportSection(
        f"Most expensive restarts (of {len(rows):,})", table(columns, rows[:MOST_CHAIN_ROWS]), note
    )
