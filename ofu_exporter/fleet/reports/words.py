"""Says in words what a job's reports were judged to be, and what jobs served."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ofu_exporter.fleet.history.served_result import ServedColumns
from ofu_exporter.fleet.reports.figures import NONE, few, rounded, tokens
from ofu_exporter.fleet.reports.result import JobRow
from ofu_exporter.flops.causes import MfuCause, causes
from ofu_exporter.serving.metrics.job import NO_CAUSE
from ofu_exporter.values.reported import UNDECIDED, Verdict
from ofu_exporter.values.text import first_names

MOST_NAMES = 20
"""Nodes or jobs that a sentence names."""
VERDICTS = {
    Verdict.MFU_ABOVE_OFU: "MFU above OFU",
    Verdict.MFU_BELOW_OFU: "MFU below OFU",
    Verdict.AGREE: "agrees",
    Verdict.INSUFFICIENT_DATA: "too little data",
}


def verdict_words(row: JobRow) -> str:
    """What the agents say of the job's reports, with the likeliest cause."""
    if row.verdict is None:
        return NONE
    words = VERDICTS.get(row.verdict, row.verdict)  # type: ignore[call-overload]
    return f"{words}: {row.cause}" if row.cause else str(words)


def away_words(rows: Iterable[JobRow]) -> Iterator[str]:
    """Which jobs may have held more than is known, the most first, in a sentence; nothing where all is known."""
    away = [(row.away_gpu_hours, row.shown_name) for row in rows if row.away_gpu_hours]
    named = [
        f"{name} (at most {hours:,.1f})"
        for hours, name in sorted(away, key=lambda each: (-each[0], each[1]))
    ]
    if named:
        jobs = first_names(named, MOST_NAMES)
        yield f"GPU-hours that nobody saw while nodes were away, by job: {jobs}."


def causes_of(row: JobRow) -> list[MfuCause]:
    """The likeliest cause, or both causes of a pair; none where a newer agent named one that is not known here."""
    slugs = (row.cause or "").split("+")
    return [cause for slug in slugs for cause in causes() if cause.slug == slug]


def cause_meanings(row: JobRow) -> str:
    """The likeliest cause in the words of `explain`; empty where none is known."""
    return "; and ".join(cause.meaning for cause in causes_of(row))


def likeliest_words(row: JobRow) -> str:
    """What its agents think of the cause, as a sentence; empty where they named none."""
    if row.cause == UNDECIDED:
        return "Several causes fit equally well."
    if row.cause == NO_CAUSE:
        return "No known cause fits."
    return f"Likeliest: {cause_meanings(row) or row.cause}." if row.cause else ""


def served_words(row: ServedColumns, currency: str) -> Iterator[str]:
    """What some jobs served and what it cost, in a sentence; nothing where they serve nothing."""
    if row.serving_gpu_hours is None:
        return
    counts = [row.prompt_tokens, row.recomputed_tokens, row.generation_tokens]
    price = row.cost_per_million_tokens
    costs = [
        *([] if row.joules_per_token is None else [f"{few(row.joules_per_token)} J a token"]),
        *([] if price is None else [f"{few(price)} {currency} a million"]),
    ]
    at = f" at {' and '.join(costs)}" if costs else ""
    idle = row.idle_engine_kwh or 0.0
    unused = f"; {rounded(idle, 1)} kWh went to engines without a request" if idle >= 0.1 else ""
    yield f"Served {tokens(sum(each or 0.0 for each in counts))} tokens{at}{unused}."
