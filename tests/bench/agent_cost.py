"""What the agent costs the job whose GPU it measures: `python -m tests.bench.agent_cost [PAIRS]`, on a GPU.

One loop of BF16 products runs all the time, so that the card stays as warm as it is. Beside it an agent at its default
settings is stopped and continued in turn (SIGSTOP, SIGCONT), in pairs whose order alternates. While it is stopped it
asks the driver nothing.
"""

from __future__ import annotations

import math
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ofu_exporter.errors import OfuError
from ofu_exporter.validation import Machine, Mark, Product, cuda
from tests.helpers.agent import agent, until

PAIRS = 20
PROGRAM = (sys.executable, "-m", "ofu_exporter")
TURN_SECONDS = 4.0
"""Long enough for the clock reads of several seconds and for most of a window of 5 s."""
EDGE_SECONDS = 0.5
"""Left out at both ends of a turn: a chunk of launches that lies across."""
PRODUCT = Product("noise", "bf16", 4096, 4096, 4096, 0.0)
TWO_SIDED_95 = 1.96
BOUND = 0.002
"""What the agent may cost."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A time in which the agent ran, or did not."""

    beside: bool
    start: float
    end: float


def measure(
    machine: Machine,
    pairs: int,
    turn_seconds: float = TURN_SECONDS,
    product: Product = PRODUCT,
    flags: Sequence[str] = ("--scheduler", "none"),
    say: Callable[[str], None] = print,
) -> list[tuple[float, float]]:
    """Launches per second without and with the agent, of each pair."""
    turns: list[Turn] = []
    with agent("run", *flags, command=PROGRAM) as running:
        until(lambda: running.values("ofu_gpu_up"))
        switch = threading.Thread(
            target=_take_turns, args=(running.process.send_signal, pairs, turn_seconds, turns)
        )
        switch.start()
        seconds = 2 * pairs * turn_seconds + turn_seconds
        marks = machine.run(replace(product, seconds=seconds))
        switch.join()
    by_pair = zip(turns[::2], turns[1::2], strict=True)
    found = [of_pair(marks, first, second) for first, second in by_pair]
    for number, (alone, beside) in enumerate(found, start=1):
        say(f"pair {number}: without {alone:.2f}/s, with {beside:.2f}/s")
    for turn in turns:
        say(slowest(marks, turn))
    return found


def _take_turns(
    send: Callable[[int], None], pairs: int, turn_seconds: float, turns: list[Turn]
) -> None:
    """Stop and continue the agent; the order within a pair alternates."""
    time.sleep(turn_seconds)  # the clock settles, the agent runs
    for number in range(pairs):
        for beside in (False, True) if number % 2 == 0 else (True, False):
            send(signal.SIGCONT if beside else signal.SIGSTOP)
            start = time.monotonic()
            time.sleep(turn_seconds)
            turns.append(Turn(beside, start, time.monotonic()))
    send(signal.SIGCONT)


def of_pair(marks: Sequence[Mark], *pair: Turn) -> tuple[float, float]:
    """Launches per second without and with the agent."""
    rates = {turn.beside: _rate(marks, turn) for turn in pair}
    return rates[False], rates[True]


def _rate(marks: Sequence[Mark], turn: Turn) -> float:
    """Launches per second inside a turn."""
    inside = [m for m in marks if turn.start + EDGE_SECONDS <= m.at <= turn.end - EDGE_SECONDS / 5]
    return (inside[-1].launches - inside[0].launches) / (inside[-1].at - inside[0].at)


def slowest(marks: Sequence[Mark], turn: Turn) -> str:
    """When the slowest chunk of a turn ended, and its launches per second: a loss may be one stall."""
    inside = [mark for mark in marks if turn.start <= mark.at <= turn.end]
    chunks = [((b.launches - a.launches) / (b.at - a.at), b.at) for a, b in pairwise(inside)]
    which = "with" if turn.beside else "without"
    if not chunks:
        return f"{which}: no whole chunk"
    rate, at = min(chunks)
    return f"{which}: {rate:.2f}/s after {at - turn.start:.2f} s"


def cost(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Mean share of the throughput that is lost, and half the width of its 95 % interval."""
    lost = [1 - beside / alone for alone, beside in pairs]
    half = (
        TWO_SIDED_95 * statistics.stdev(lost) / math.sqrt(len(lost)) if len(lost) > 1 else math.inf
    )
    return statistics.fmean(lost), half


def main() -> None:
    try:
        machine = cuda.CudaMachine(0)
    except OfuError as error:
        raise SystemExit(f"not measured: {error}") from error
    lost, half = cost(measure(machine, int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS))
    inside = lost + half <= BOUND
    said = "inside" if inside else "outside or not certain: run more pairs"
    print(f"The agent costs {lost:.3%} ± {half:.3%} of the throughput; bound {BOUND:.1%}: {said}")


if __name__ == "__main__":
    main()
