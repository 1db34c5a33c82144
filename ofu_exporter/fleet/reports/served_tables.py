"""Lays out what a report says of serving, as titled tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ofu_exporter.fleet.reports.document import ReportSection
from ofu_exporter.fleet.reports.figures import NONE, hours, rounded, share
from ofu_exporter.fleet.reports.result import FleetReport, GroupRow, JobRow
from ofu_exporter.fleet.reports.served_result import ServedColumns, ServedModelRow
from ofu_exporter.support.tables import LEFT, RIGHT, Column, table

ONE_PRICE = (
    "Tokens without those from a cache. Prompts and answers of one engine share its GPUs, so they have one price; "
    "engines that the configuration gives the role prefill or decode have one each (docs/serving.md)."
)


def sections(report: FleetReport, most_rows: int) -> Iterator[ReportSection]:
    """What a token cost; nothing where no engine was read."""
    if report.total.serving_gpu_hours is None:
        return
    named = report.jobs if report.by == "job" else report.groups
    rows = [row for row in named if row.serving_gpu_hours is not None][:most_rows]
    columns: list[Column[JobRow | GroupRow]] = [
        (report.by, LEFT, lambda row: row.shown_name),
        *_columns(report),
    ]
    title = f"What tokens cost, by {report.by}"
    yield ReportSection(title, table(columns, [*rows, report.total]), ONE_PRICE)
    models: list[Column[ServedModelRow]] = [
        ("served model", LEFT, lambda row: row.served_model or NONE),
        ("jobs", RIGHT, lambda row: str(row.jobs)),
        *_columns(report),
    ]
    alone = "GPU-hours, energy and cost are of jobs that served that model alone."
    yield ReportSection(
        "What tokens cost, by served model", table(models, report.served_models[:most_rows]), alone
    )


def served_words(row: ServedColumns, currency: str) -> Iterator[str]:
    """What some jobs served and what it cost, in a sentence; nothing where they serve nothing."""
    if row.serving_gpu_hours is None:
        return
    tokens = [row.prompt_tokens, row.recomputed_tokens, row.generation_tokens]
    price = row.cost_per_million_tokens
    costs = [
        *([] if row.joules_per_token is None else [f"{few(row.joules_per_token)} J a token"]),
        *([] if price is None else [f"{few(price)} {currency} a million"]),
    ]
    at = f" at {' and '.join(costs)}" if costs else ""
    idle = row.idle_engine_kwh or 0.0
    unused = f"; {rounded(idle, 1)} kWh went to engines without a request" if idle >= 0.1 else ""
    yield f"Served {count(sum(each or 0.0 for each in tokens))} tokens{at}{unused}."


def _columns(report: FleetReport) -> Iterator[Column[ServedColumns]]:
    """Tokens and their price, with only the columns that somebody has."""
    priced = f"{report.currency} "
    for head, name, write in (
        ("prompt", "prompt_tokens", count),
        ("cached", "cached_tokens", count),
        ("recomputed", "recomputed_tokens", count),
        ("generated", "generation_tokens", count),
        ("GPU-hours", "serving_gpu_hours", hours),
        ("tokens a GPU-second", "tokens_per_gpu_second", few),
        ("J a token", "joules_per_token", few),
        ("kWh without a request", "idle_engine_kwh", partial(rounded, digits=1)),
        (priced + "a million tokens", "cost_per_million_tokens", few),
        (priced + "of prompts", "cost_per_million_prompt_tokens", few),
        (priced + "generated", "cost_per_million_generation_tokens", few),
        ("memory busy", "memory_ratio", share),
    ):
        if getattr(report.total, name) is not None:
            yield head, RIGHT, partial(_cell, name, write)


def _cell(name: str, write: Callable[[float | None], str], row: ServedColumns) -> str:
    return write(getattr(row, name))


def few(value: float | None) -> str:
    """A number with three digits that count, as prices of tokens are small."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def count(value: float | None) -> str:
    """Tokens: millions and more with three digits."""
    if value is None:
        return NONE
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:,.0f}"
