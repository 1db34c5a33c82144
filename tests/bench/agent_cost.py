"""What the agent costs the job whose GPU it measures: `python -m tests.bench.agent_cost [PAIRS]`, on a GPU.

The throughput of a loop of BF16 products, alternately without and with an agent at its default settings in a process of
its own, in pairs whose order alternates, so that a card that warms up favours neither. Not run on a GPU yet.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Sequence

from ofu_exporter.errors import OfuError
from ofu_exporter.validation import Machine, Product, cuda
from tests.helpers.agent import agent, until

PAIRS = 10
PRODUCT = Product("noise", "bf16", 4096, 4096, 4096, 10.0)
TWO_SIDED_95 = 1.96
BOUND = 0.002
"""What the agent may cost."""


def throughput(machine: Machine, product: Product) -> float:
    """Launches per second, without the first third of the time, in which the clock settles."""
    marks = machine.run(product)
    steady = [mark for mark in marks if mark.at >= marks[0].at + product.seconds / 3]
    return (steady[-1].launches - steady[0].launches) / (steady[-1].at - steady[0].at)


def measure(
    machine: Machine,
    pairs: int,
    product: Product = PRODUCT,
    flags: Sequence[str] = ("--scheduler", "none"),
    say: Callable[[str], None] = print,
) -> list[tuple[float, float]]:
    """Throughput without and with the agent, of each pair."""
    machine.run(product)  # warms up
    found = []
    for number in range(pairs):
        both: dict[bool, float] = {}
        for beside in (False, True) if number % 2 == 0 else (True, False):
            both[beside] = (
                _beside(machine, product, flags) if beside else throughput(machine, product)
            )
        found.append((both[False], both[True]))
        say(f"pair {number + 1}: without {both[False]:.2f}/s, with {both[True]:.2f}/s")
    return found


def _beside(machine: Machine, product: Product, flags: Sequence[str]) -> float:
    """With an agent that has begun to measure."""
    with agent("run", *flags) as running:
        until(lambda: running.values("ofu_gpu_up"))
        return throughput(machine, product)


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
