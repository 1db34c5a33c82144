"""What a simulated fleet costs: `python -m tests.bench.fleet` prints CPU time per scrape, and memory.

The clock is set by hand: each round is the next window of every node, asked for as Prometheus does. Sockets
come on top.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from ofu_exporter.fleet.simulation import spec
from ofu_exporter.fleet.simulation.agent import SimulatedAgent
from ofu_exporter.fleet.simulation.fleet import fleet_of
from ofu_exporter.serving.page import METRICS

BEGIN = 1756252800.0
PROMETHEUS = {
    "accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
    "accept_encoding": "gzip",
}


def text(nodes: int) -> str:
    """A fleet of nodes with 8 GPUs, of which most have a job of 64 GPUs that reports."""
    return (
        f"nodes:\n  - {{name: n, count: {nodes}, model: H100}}\n"
        f"jobs:\n  - {{name: a, count: {max(1, nodes // 10)}, gpus: 64, mfu: 0.38, report: {{}}}}\n"
    )


def measure(nodes: int, rounds: int) -> tuple[float, float]:
    """CPU milliseconds per scrape, and MiB that the process has taken at most."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.yaml"
        path.write_text(text(nodes))
        fleet = fleet_of(spec.read_spec(path))
    agents = [SimulatedAgent(fleet, number, BEGIN, 0.0) for number in range(nodes)]
    started = time.process_time()
    for turn in range(1, rounds + 1):
        for agent in agents:
            agent.advance(turn * fleet.spec.interval)
            agent.page.render(**PROMETHEUS)
            agent.page.count_request(METRICS, 200)
    seconds = time.process_time() - started
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return 1e3 * seconds / (rounds * nodes), most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[50, 300], help="few before many")
    parser.add_argument(
        "--rounds", type=int, default=90, help="90 of 15 s are all that is remembered"
    )
    wanted = parser.parse_args()
    print("| nodes | CPU ms per scrape | cores | MiB |\n|---|---|---|---|")
    for nodes in wanted.nodes:
        milliseconds, most = measure(nodes, wanted.rounds)
        cores = milliseconds * nodes / 15e3
        print(f"| {nodes} | {milliseconds:.1f} | {cores:.2f} | {most:.0f} |", flush=True)


if __name__ == "__main__":
    main()
