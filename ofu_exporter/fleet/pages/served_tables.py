"""Lays out what a report says of serving, as titled tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ofu_exporter.fleet.history.served_result import ServedColumns, ServedModelRow
from ofu_exporter.fleet.pages.document import ReportSection
from ofu_exporter.fleet.reports.figures import NONE, few, hours, rounded, share, tokens
from ofu_exporter.fleet.reports.result import FleetReport, GroupRow, JobRow
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


def _columns(report: FleetReport) -> Iterator[Column[ServedColumns]]:
    """Tokens and their price, with only the columns that somebody has."""
    priced = f"{report.currency} "
    for head, name, write in (
        ("prompt", "prompt_tokens", tokens),
        ("cached", "cached_tokens", tokens),
        ("recomputed", "recomputed_tokens", tokens),
        ("generated", "generation_tokens", tokens),
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
