"""What must hold under every attack, and what of that a short run on any machine can say."""

from __future__ import annotations

import math

from tests.attacks.measure import Seen

COVERAGE = 0.99
SCRAPE_SECONDS = 0.25
RSS_MIB = 110.0
"""Of which an idle agent takes 63 with Python 3.11, and 70 with 3.14,
which reads nested JSON until the stack ends, after 8 more."""
LOG_BYTES_PER_MINUTE = 1e6
STOP_SECONDS = 2.0

SIZES = ("answers", "measured", "memory", "log", "server errors", "tracebacks", "stop", "let in")
"""What is no matter of time, beyond that of a machine that stands still."""


def missed(seen: Seen) -> dict[str, str]:
    """By the goal: "" where it is reached, else what was seen."""
    return {**missed_sizes(seen), **missed_times(seen)}


def missed_sizes(seen: Seen) -> dict[str, str]:
    return {
        "answers": "" if seen.failed_scrapes < seen.scrapes else "no page was had",
        "measured": "" if seen.coverage is None or seen.coverage > 0 else unmeasured(seen),
        "memory": "" if seen.rss_mib <= RSS_MIB else f"{seen.rss_mib:.0f} MiB",
        "log": "" if seen.log_bytes_per_minute <= LOG_BYTES_PER_MINUTE else log_rate(seen),
        "server errors": f"{seen.server_errors} answers of 5xx" if seen.server_errors else "",
        "tracebacks": f"{seen.tracebacks} tracebacks" if seen.tracebacks else "",
        "stop": "" if math.isfinite(seen.stop_seconds) else "SIGTERM was not obeyed",
        "let in": seen.let_in,
    }


def missed_times(seen: Seen) -> dict[str, str]:
    in_time = seen.p99_seconds <= SCRAPE_SECONDS
    observed = seen.coverage is None or seen.coverage >= COVERAGE
    stops = seen.stop_seconds <= STOP_SECONDS
    return {
        "scrapes": "" if in_time else f"p99 of {seen.p99_seconds:.2f} s",
        "coverage": "" if observed else f"{seen.coverage:.3f} observed",
        "stop in time": "" if stops else f"{seen.stop_seconds:.1f} s after SIGTERM",
    }


def unmeasured(seen: Seen) -> str:
    return "a GPU was not measured" if seen.coverage == 0 else "no page says what was measured"


def log_rate(seen: Seen) -> str:
    return f"{seen.log_bytes_per_minute / 1e6:.2f} MB a minute"
