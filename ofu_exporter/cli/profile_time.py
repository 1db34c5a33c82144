"""Writes where the time of traced GPUs went as text: a row for each rank, then what it was about and what it cost."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from ofu_exporter.support import tables
from ofu_exporter.support.tables import LEFT, RIGHT, Column
from ofu_exporter.values.text import shown
from ofu_exporter.values.trace import Finding, RankTime, TraceResult

MOST_ROWS, MOST_NAMED, WIDTH = 32, 6, 118


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


COLUMNS: tuple[Column[RankTime], ...] = (
    ("RANK", RIGHT, lambda time: _number(time.rank)),
    ("GPU", RIGHT, lambda time: _number(time.gpu)),
    ("MODEL", LEFT, lambda time: time.model or "-"),
    ("SECONDS", RIGHT, lambda time: f"{time.seconds:.4g}"),
    ("TENSOR", RIGHT, lambda time: f"{time.parts.tensor:.1%}"),
    ("OTHER", RIGHT, lambda time: f"{time.parts.other:.1%}"),
    ("COMMUNICATION", RIGHT, lambda time: f"{time.parts.communication:.1%}"),
    ("COPIES", RIGHT, lambda time: f"{time.parts.copies:.1%}"),
    ("IDLE", RIGHT, lambda time: f"{time.parts.idle:.1%}"),
    (
        "HIDDEN",
        RIGHT,
        lambda time: (
            "-" if time.hidden_communication is None else f"{time.hidden_communication:.1%}"
        ),
    ),
)


def text(result: TraceResult) -> str:
    """The time and the findings; "" where the files say nothing of time."""
    if not result.ranks and not result.unread:
        return ""
    rows = tables.table(COLUMNS, result.ranks[:MOST_ROWS]).plain().splitlines()
    lines = rows if result.ranks else []
    if (left := len(result.ranks) - MOST_ROWS) > 0:
        lines.append(f"and {left} more")
    if result.slowest_rank is not None:
        lines.append(f"The others waited most for rank {result.slowest_rank}")
    for title, shares in (
        ("Idle", _mean(result.ranks, [each.idle for each in result.ranks])),
        ("Work", _mean(result.ranks, [each.families for each in result.ranks])),
    ):
        if shares:
            lines.append(f"{title}: {', '.join(f'{name} {share:.1%}' for name, share in shares)}")
    lines += [line for finding in result.findings for line in _finding(finding)]
    lines += [f"Not read: {why}" for why in result.unread.values()]
    return "\n".join(map(shown, lines))  # names of kernels and calls are the trace's


def _mean(
    ranks: Sequence[RankTime], shares: Sequence[Mapping[str, float]]
) -> list[tuple[str, float]]:
    """Shares of the time of all ranks, largest first: sums of seconds over sums of seconds."""
    total = sum(rank.seconds for rank in ranks) or 1.0
    sums: dict[str, float] = {}
    for rank, some in zip(ranks, shares, strict=True):
        for name, share in some.items():
            sums[name] = sums.get(name, 0.0) + share * rank.seconds / total
    largest = sorted(sums.items(), key=lambda each: -each[1])[:MOST_NAMED]
    return [(name, share) for name, share in largest if share >= 0.0005]


def _finding(finding: Finding) -> Iterator[str]:
    """A finding with what proves it and what to do, wrapped below its share."""
    yield f"{finding.share:6.1%}  {finding.finding}, at most {finding.seconds:.4g} s: {finding.evidence}."
    yield from textwrap.wrap(
        finding.remedy, WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8
    )
