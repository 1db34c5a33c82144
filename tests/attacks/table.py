"""The table of attacks as Markdown: a row for each, and what was missed in bold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tests.attacks.attack import Attack
from tests.attacks.goals import missed
from tests.attacks.measure import Seen

HEAD = (
    *("attack", "what is done", "limit it meets", "scrape p99", "coverage", "RSS, MiB"),
    *("log, kB/min", "5xx", "tracebacks", "SIGTERM, s", "let in"),
)


def table(attacks: Mapping[str, Attack], seen: Mapping[str, Seen]) -> Iterator[str]:
    yield row(HEAD)
    yield "|---" * len(HEAD) + "|"
    for name, each in seen.items():
        yield row([name, attacks[name].what, attacks[name].limit, *cells(each)])


def cells(seen: Seen) -> list[str]:
    """What was seen, in the order of the head."""
    late = missed(seen)
    coverage = "-" if seen.coverage is None else f"{seen.coverage:.3f}".replace("nan", "?")
    return [
        bold(scrapes(seen), late["scrapes"]),
        bold(coverage, late["coverage"]),
        bold(f"{seen.rss_mib:.0f}", late["memory"]),
        bold(f"{seen.log_bytes_per_minute / 1e3:,.0f}", late["log"]),
        bold(str(seen.server_errors), late["server errors"]),
        bold(str(seen.tracebacks), late["tracebacks"]),
        bold(stop(seen), late["stop in time"]),
        bold(seen.let_in or "-", late["let in"]),
    ]


def scrapes(seen: Seen) -> str:
    """The slowest but one in a hundred; and how many had no answer at all."""
    failed = f", {seen.failed_scrapes} of {seen.scrapes} failed" if seen.failed_scrapes else ""
    known = math.isfinite(seen.p99_seconds)
    return f"{1e3 * seen.p99_seconds:.0f} ms{failed}" if known else failed.removeprefix(", ")


def stop(seen: Seen) -> str:
    return f"{seen.stop_seconds:.1f}" if math.isfinite(seen.stop_seconds) else "never"


def bold(text: str, is_missed: str) -> str:
    return f"**{text}**" if is_missed else text


def row(words: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(words) + " |"
