"""How often `fleet changes` calls a healthy GPU slow, and how many slow ones it finds.

Its table is in tests/measured/changes.md.

    python -m tests.bench.peers [--fleets 40]

Fleets of 64 nodes of 4 GPUs and 60 jobs of 2 to 16 nodes. Healthy GPUs differ by 0.8 % from each other and by 1 % from
hour to hour; with roles, also by 3 % from job to job.
"""

from __future__ import annotations

import argparse

from ofu_exporter.fleet.changes.peers import compare_peers
from tests.helpers.peer_fleet import fleet, place

SLOW = (5, 2)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--fleets", type=int, default=40, help="for each row")
    fleets = parser.parse_args().fleets
    print(f"{fleets} fleets for each row\n")
    print(
        "| one GPU is slower by | roles | fleets with a healthy one called slow | found | its slowness, mean |"
    )
    print("|---|---|---|---|---|")
    for slower in (0.0, 0.05, 0.1, 0.2):
        for role in (0.0, 0.03):
            print(row(slower, role, fleets), flush=True)


def row(slower: float, role: float, fleets: int) -> str:
    """One row: shares over fleets that differ by their seed."""
    false, seen = 0, []
    for seed in range(fleets):
        slow = {SLOW: slower} if slower else {}
        found = compare_peers(
            fleet(seed, slow, nodes=64, jobs=60, largest=16, role=role).gpus, "ofu", "gpu"
        ).slow
        seen += [each.slower for each in found if each.uuid == place(*SLOW).uuid] if slower else []
        false += any(not slower or each.uuid != place(*SLOW).uuid for each in found)
    share = f"{len(seen) / fleets:.0%}" if slower else ""
    mean = f"{sum(seen) / len(seen):.1%}" if seen else ""
    return f"| {slower:.0%} | {f'{role:.0%}' if role else 'none'} | {false / fleets:.0%} | {share} | {mean} |"


if __name__ == "__main__":
    main()
