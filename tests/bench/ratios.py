"""Compares what the agent costs with what it cost at the last release, in ratios that any machine has:

    python -m tests.bench.ratios            fails where a ratio is more than 15 % above the last release's
    python -m tests.bench.ratios --write    keeps the ratios of now, at a release

A ratio is of the agent and of something else that does not change, measured in turns within one run: CPU time of a
scrape beside a bare server's, of the start and of the page beside a fixed piece of work, memory beside a bare server's.
Half the distance between the quartiles of the rounds is the noise of the machine, and is taken off before the
comparison. Above a tenth of the ratio it says nothing, and is no failure. What still fails is measured again twice, and
fails only where it fails each time.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.serving.page import Page
from tests.bench import scrape, start
from tests.bench.process import resident_mib
from tests.helpers.playback import RECORDINGS, play

KEPT = Path(__file__).with_name("ratios.json")
WORST = 1.15
MOST_NOISE = 0.1
"""Of a ratio; above it the machine is too busy to tell."""
ROUNDS = 9
TRIES = 3
REPEATED = 20


class Ratio(NamedTuple):
    """What was measured."""

    value: float
    noise: float
    """Half the distance between the quartiles of the rounds."""

    @property
    def is_noisy(self) -> bool:
        """Whether the machine is too busy to tell."""
        return self.noise > MOST_NOISE * self.value


def work() -> float:
    """CPU time of a fixed piece of Python's work."""
    began = time.thread_time()
    for _ in range(REPEATED):
        table = {str(number): number * 0.5 for number in range(4000)}
        ",".join([f"{key}={value!r}" for key, value in table.items()]).encode()
    return time.thread_time() - began


def page() -> float:
    """CPU time of pages that are rendered and packed anew."""
    snapshot = play(RECORDINGS / "simulated-8gpu.jsonl.gz")
    pages = [Page(lambda: snapshot.at, process=False) for _ in range(REPEATED)]
    for made in pages:
        made.publish(snapshot)
    began = time.thread_time()
    for made in pages:
        made.render("", "gzip")
    return time.thread_time() - began


def start_of_version() -> float:
    return start.of_children(start.command("--version"))


def bare_start() -> float:
    program = "import argparse, asyncio, decimal, json, sqlite3, statistics"
    return start.of_children(lambda: subprocess.run((sys.executable, "-c", program), check=True))


def rounds(of: Callable[[], float], beside: Callable[[], float]) -> list[float]:
    return [of() / beside() for _ in range(ROUNDS)]


def scrapes() -> dict[str, list[float]]:
    """Scrapes beside a coroutine of FastAPI's, and the memory of the agent beside that server's."""
    found: dict[str, list[float]] = {"scrape": [], "packed scrape": [], "memory": []}
    with scrape.targets() as servers:
        agent, packed = servers[:2]
        bare = next(each for each in servers if each.name == f"{scrape.LOOP}, h11")
        for _ in range(ROUNDS):
            plain, gzip, beside = (
                scrape.measure(each, 200, is_kept=True).cpu_ms for each in (agent, packed, bare)
            )
            found["scrape"].append(plain / beside)
            found["packed scrape"].append(gzip / beside)
            found["memory"].append(resident_mib(agent.pid) / resident_mib(bare.pid))
    return found


def measured() -> dict[str, Ratio]:
    """Every ratio: the median of the rounds."""
    found = {**scrapes(), "page": rounds(page, work)}
    with start.compiled():
        start_of_version(), bare_start()  # these write their bytecode
        found["start"] = rounds(start_of_version, bare_start)
    return {name: ratio(values) for name, values in found.items()}


def ratio(values: list[float]) -> Ratio:
    low, middle, high = statistics.quantiles(values, n=4)
    return Ratio(middle, (high - low) / 2)


def losses(found: dict[str, Ratio], before: dict[str, float]) -> list[str]:
    """The ratios that are more than 15 % above those of before, and more than the noise; none that is too noisy."""
    return [
        name
        for name, now in found.items()
        if name in before and not now.is_noisy and now.value - now.noise > WORST * before[name]
    ]


def main() -> None:
    before: dict[str, float] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    lost: set[str] = set()
    for attempt in range(TRIES):
        found = measured()
        print("| ratio | now | noise | last release |\n|---|---|---|---|")
        for name, now in found.items():
            kept = f"{before[name]:.3f}" if name in before else ""
            noise = f"{now.noise:.3f}{', too much to compare' * now.is_noisy}"
            print(f"| {name} | {now.value:.3f} | {noise} | {kept} |", flush=True)
        if "--write" in sys.argv[1:]:
            text = json.dumps({name: round(now.value, 3) for name, now in found.items()}, indent=1)
            KEPT.write_text(text + "\n")
            return
        again = set(losses(found, before))
        lost = lost & again if attempt else again
        if not lost:
            return
    raise SystemExit(f"more than {WORST - 1:.0%} above the last release: {', '.join(sorted(lost))}")


if __name__ == "__main__":
    main()
