"""What report() costs the thread that calls it: `python -m tests.bench.client`.

One thread calls as a training loop does between its steps: with an agent that answers, with none, with one
that takes connections and says nothing, and while 8 other Python threads compute, each of which may hold the
interpreter for a while in any line of the loop. The agent is the tests' own, in another process. Prints a table;
asserts nothing.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

from ofu_exporter.client import Reporter
from tests.doubles.report_agent import Reply, report_agent

CALLS = 20_000
PAUSE_SECONDS = 2e-4
"""Between two calls: a step, in which the sender has its turn."""
EVERY = 0.05


def serve(hangs: bool, pipe: Connection) -> None:
    with report_agent() as agent:
        if hangs:
            agent.behave = lambda *_: Reply(hang=True)
        pipe.send(agent.url)
        pipe.recv()


@contextlib.contextmanager
def agent_process(hangs: bool) -> Iterator[str]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(hangs, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


@contextlib.contextmanager
def computing(threads: int) -> Iterator[None]:
    """Python threads that want the interpreter all the time, as data loaders of a careless job do."""
    over = threading.Event()

    def compute() -> None:
        while not over.is_set():
            sum(range(1000))

    workers = [threading.Thread(target=compute) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        over.set()
        for worker in workers:
            worker.join()


def costs(url: str, calls: int) -> tuple[list[float], dict[str, int]]:
    """Microseconds of each call, sorted, and what became of the reports."""
    spent = []
    with Reporter("7", url, every=EVERY, gpus=256, precision="bf16") as reporter:
        for step in range(calls):
            began = time.perf_counter()
            reporter.report(mfu=0.41, tokens_per_second=2e6, step=step)
            spent.append(1e6 * (time.perf_counter() - began))
            time.sleep(PAUSE_SECONDS)
    return sorted(spent), reporter.counts


def row(name: str, url: str, calls: int = CALLS) -> None:
    spent, counts = costs(url, calls)
    cells = [f"{spent[round(share * (calls - 1))]:.1f}" for share in (0.5, 0.99, 1.0)]
    outcome = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
    print(f"| {name} | {' | '.join(cells)} | {outcome} |", flush=True)


def main() -> None:
    logging.disable(logging.WARNING)
    print("| agent | p50 µs | p99 µs | max µs | reports |")
    print("|---|---|---|---|---|")
    with agent_process(hangs=False) as url:
        row("there", url)
    row("away", "http://127.0.0.1:1")
    with agent_process(hangs=True) as url:
        row("silent", url)
    with agent_process(hangs=False) as url, computing(threads=8):
        row("there, 8 threads compute", url, calls=1000)


if __name__ == "__main__":
    main()
