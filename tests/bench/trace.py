"""What reading PyTorch traces costs: `python -m tests.bench.trace [RANKS [MB]]` writes one of each rank and reads them.

Without arguments one large trace of 300,000 launches. All are of one job of which one rank is slower; times are of
one core, because a machine has other things to do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.helpers.agent import COMMAND
from tests.traces import trace_maker as made
from tests.traces.formats.tracing import ADD, FLASH, H100, NVJET, kernel, launch, operator
from tests.traces.trace_maker import COMPUTE, NCCL, Maker

GEMM_EVERY = 4
"""Of this many launches one is a product; the others are what stands between products."""
RANK, SLOW_RANK, EXTRA = '"rank": -1,', 3, 900.0
"""The rank that computes for so many microseconds longer before each collective."""
LAUNCHES, BYTES = 21, 14_000
"""Of the time between two collectives, and about what they take in a file."""
KERNEL = {
    "grid": [132, 1, 1],
    "block": [384, 1, 1],
    "registers per thread": 168,
    "context": 1,
    "blocks per SM": 1.0,
}
OPERATOR = {
    "Input Dims": [[8192, 4096], [4096, 4096]],
    "Input type": ["c10::BFloat16", "c10::BFloat16"],
}
"""What Kineto says of them besides: with it an event has 250 bytes, as in real traces."""


def write(path: Path, launches: int) -> None:
    """Each launch with its operator and its call, as Kineto lays them out."""
    kinds = {"Input type": ["c10::BFloat16", "c10::BFloat16"], "Concrete Inputs": ["", ""]}
    with path.open("w") as file:
        file.write(f'{{"deviceProperties": [{{"id": 0, "name": "{H100}"}}], "traceEvents": [\n')
        for number in range(1, launches + 1):
            product = number % GEMM_EVERY == 0
            dims = [8192, 4096], [4096, 4000 + number % 7]
            name = ADD if not product else FLASH if number % 3 == 0 else NVJET
            events = (
                operator("aten::mm" if product else "aten::add", number, *dims, **kinds),
                launch(number, number),
                kernel(name, number, number),
            )
            file.writelines(json.dumps(event, indent=1) + ",\n" for event in events)
        file.write('{"ph": "i", "name": "end"}]}\n')


def write_ranks(folder: Path, ranks: int, megabytes: float) -> None:
    """A file of each rank; every second node of eight has a clock that is a second ahead."""
    rounds = round(megabytes * 1e6 / BYTES)
    ends = _rounds(Maker(), rounds, EXTRA, [])
    for rank in range(ranks):
        extra = EXTRA if rank == SLOW_RANK else 0.0
        text = _text(1e6 * (rank // 8 % 2), rounds, extra, tuple(ends))
        (folder / f"trace_{rank}.json").write_text(text.replace(RANK, f'"rank": {rank},', 1))


@cache
def _text(skew: float, rounds: int, extra: float, ends: tuple[float, ...]) -> str:
    """A file, whose rank is to be put in."""
    maker = Maker(rank=-1, skew=skew)
    _rounds(maker, rounds, extra, ends)
    for event in maker.events:
        args = event["args"]
        if event["cat"] == "kernel":
            args |= {**KERNEL, "External id": args["correlation"]}
        elif event["name"] == "aten::mm":
            args |= OPERATOR
    with tempfile.TemporaryDirectory() as folder:
        return maker.write(Path(folder) / "trace.json").read_text()


def _rounds(maker: Maker, rounds: int, extra: float, ends: Sequence[float]) -> list[float]:
    """Let a rank compute, and reduce with the others: each collective ends as given, or as this rank alone makes it."""
    found = []
    for each in range(rounds):
        for number in range(LAUNCHES - 2):
            if number % GEMM_EVERY:
                maker.kernel(made.ADD, 50.0, "aten::add")
            else:
                maker.kernel(made.PRODUCT, 400.0)
        maker.kernel(made.PRODUCT, 100.0 + extra)
        ready = maker.free[COMPUTE] + 5.0
        end = ends[each] if ends else ready + 300.0
        maker.kernel(made.ALL_REDUCE, end - ready, "nccl:all_reduce", NCCL, after=ready)
        maker.free[COMPUTE] = maker.host = end
        found.append(end)
    return found


def read(path: Path, size: float) -> None:
    """Have the command read it, and print what that cost."""
    with tempfile.TemporaryFile("w+") as out:
        done = subprocess.Popen([*COMMAND, "profile", str(path)], stdout=out)
        _, status, usage = os.wait4(done.pid, 0)
        out.seek(0)
        found = [line.strip() for line in out if "slow_rank" in line]
    print(
        f"{size / 1e6:.0f} MB: {usage.ru_utime + usage.ru_stime:.1f} s of one core, "
        f"{usage.ru_maxrss / 1024:.0f} MiB at most, exit code {os.waitstatus_to_exitcode(status)}",
        *found,
        sep="\n",
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as made_in:
        folder = Path(made_in)
        if len(sys.argv) > 1:
            write_ranks(folder, int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 2.0)
            read(folder, sum(each.stat().st_size for each in folder.iterdir()))
        else:
            write(folder / "trace.json", 300_000)
            read(folder / "trace.json", (folder / "trace.json").stat().st_size)


if __name__ == "__main__":
    main()
