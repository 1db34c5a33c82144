"""Looks for inputs that the agent does not stand: `python -m tests.fuzz [--minutes 30] [TARGET...]`.

The minutes are shared by the targets. What is found is made as small as can be, put into tests/fuzz/corpus and printed
with its traceback; the target's turn is over then, and the exit code is 1. From then on the suite replays that input.
"""

from __future__ import annotations

import argparse
import logging
import time
import traceback

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests.fuzz.corpus_file import keep
from tests.fuzz.targets import TARGETS, FuzzTarget

EXAMPLES = 500
"""Inputs of one round; every round has another seed."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("names", nargs="*", choices=[*TARGETS, []], metavar="TARGET")
    asked = parser.parse_args()
    logging.disable()
    names = asked.names or list(TARGETS)
    seconds = 60 * asked.minutes / len(names)
    return max(search(name, seconds) for name in names)


def search(name: str, seconds: float) -> int:
    """Let hypothesis look until the time is over; 1 when there is a finding."""
    until, tried = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        found, count = one_round(TARGETS[name], time.monotonic_ns(), until)
        tried += count
        if found is not None:
            print(f"{name}: {keep(name, found)}, after {tried} inputs", flush=True)
            return 1
    print(f"{name}: nothing in {tried} inputs", flush=True)
    return 0


def one_round(target: FuzzTarget, seed: int, until: float) -> tuple[bytes | None, int]:
    """The smallest input that the agent does not stand, if there is one, and how many were tried."""
    failed: bytes | None = None
    tried = 0

    @seeded(seed)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(target.inputs)
    def look(data: bytes) -> None:
        nonlocal failed, tried
        if failed is None and time.monotonic() > until:
            return
        tried += 1
        try:
            target.check(data)
        except BaseException:
            failed = data  # the last is the smallest: hypothesis ends by it
            raise

    try:
        look()
    except Exception:  # noqa: BLE001 - every one is a finding
        traceback.print_exc()
    return failed, tried


if __name__ == "__main__":
    raise SystemExit(main())
