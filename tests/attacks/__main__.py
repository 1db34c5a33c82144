"""Attacks a fresh agent: `python -m tests.attacks [--write] [--seconds 10] [NAME...]`, about ten minutes.

With `--memory-limit 128` each agent is in a control group that may have that much (MiB), and its peak is printed.

It prints a row for each attack as soon as it is over, and in bold what is beyond the limits of goals.py. `--write` puts
the table into tests/attacks/results.md. NAMES are begins of the names of attacks.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from tests.attacks.catalogue import ATTACKS
from tests.attacks.measure import Seen, measured
from tests.attacks.memory_limit import memory_limit
from tests.attacks.table import cells, row, table
from tests.helpers.markdown import with_section

PAGE = Path(__file__).with_name("results.md")
SHORT_SECONDS = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each attack")
    parser.add_argument("--memory-limit", type=int, metavar="MIB", help="of each agent; needs root")
    parser.add_argument("names", nargs="*", default=[""])
    given = parser.parse_args()
    if given.memory_limit is not None:
        print_peaks(given.names, given.seconds, given.memory_limit)
        return
    seen = run(given.names, given.seconds)
    if given.write:
        lines = [f"{when_and_where(given.seconds)}\n", *table(ATTACKS, seen)]
        PAGE.write_text(with_section(PAGE, "attacks", lines))


def run(names: Sequence[str], seconds: float) -> dict[str, Seen]:
    seen: dict[str, Seen] = {}
    for name, attack in ATTACKS.items():
        if not name.startswith(tuple(names)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            seen[name] = measured(attack, seconds, Path(folder))
        print(row([name, *cells(seen[name])]), flush=True)
    return seen


def print_peaks(names: Sequence[str], seconds: float, mib: int) -> None:
    """How much each agent had charged to its group at most, and how often the kernel ended it."""
    for name, attack in ATTACKS.items():
        if name.startswith(tuple(names)):
            with tempfile.TemporaryDirectory() as folder, memory_limit(mib) as group:
                seen = measured(attack, seconds, Path(folder), group)
                peak = f"{group.peak_mib():.0f}"
                print(row([name, peak, f"{seen.rss_mib:.0f}", str(group.oom_kills())]), flush=True)


def when_and_where(seconds: float) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return (
        f"{datetime.now(timezone.utc):%Y-%m-%d}, {seconds:g} s of each attack, by a machine of {cores} cores "
        f"({platform.machine()}, {memory:.0f} GiB), which the attackers share with the agent; Python "
        f"{platform.python_version()}:"
    )


if __name__ == "__main__":
    main()
