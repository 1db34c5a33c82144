"""What a report over the paper's fleet costs, and how far it is from the truth: 608 jobs, two weeks, 8,192 GPUs.

    python -m tests.bench.fleet_report [--clusters 10]

What rules keep of its hours (tests/helpers/simulated_pages.py) is read from a real Prometheus, in some minutes.
Printed are the command's time, the most memory of any program that this one ran (promtool, Prometheus or the command),
and the worst miss of every number against the truth. With `--clusters`, as many such fleets in one Prometheus are read
after one alone, so that both times are of the same run.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.fleet.simulation import spec
from ofu_exporter.fleet.simulation.fleet import fleet_of
from tests.helpers import fleet_truth
from tests.helpers.fleets import BEGIN
from tests.helpers.stored_fleet import stored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--spec", type=Path, default=Path("paper"))
    parser.add_argument(
        "--clusters", type=int, default=1, help="Also read this many such fleets, a cluster each."
    )
    flags = parser.parse_args()
    made = fleet_of(spec.read(flags.spec))
    end = BEGIN + 60 * made.spec.length
    since = f"{made.spec.length / 60:g}h"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        truth = fleet_truth.write(made, BEGIN, folder / "one")
        with stored(folder / "one") as prometheus:
            report = read(prometheus.url, since, end)
        told(report)
        for field, miss in fleet_truth.misses(report, truth)._asdict().items():
            print(f"{field:28} {miss:.5f}")
        if flags.clusters > 1:
            compare(flags.spec, folder, (since, end), flags.clusters)


def compare(path: Path, folder: Path, time: tuple[str, float], clusters: int) -> None:
    """Read one fleet, and then this many of them."""
    one = yaml.safe_load(spec.spec_path(path).read_text())
    for number in range(clusters):
        other = {"cluster": f"c{number}", "seed": one.get("seed", 1) + number}
        of_many = folder / f"c{number}.yaml"
        of_many.write_text(yaml.safe_dump({**one, **other}))
        fleet_truth.write(fleet_of(spec.read(of_many)), BEGIN, folder / f"c{number}")
        blocks = folder / "many" / "data"
        shutil.copytree(folder / f"c{number}" / "data", blocks, dirs_exist_ok=True)
        if number in (0, clusters - 1):
            print(f"{number + 1} clusters:", flush=True)
            with stored(folder / "many") as prometheus:
                told(read(prometheus.url, *time))


def told(report: FleetReport) -> None:
    reading = report.reading
    print(
        f"{len(report.jobs)} jobs, {reading.queries} queries, samples {reading.samples}", flush=True
    )


def read(url: str, since: str, end: float) -> FleetReport:
    """Run the command, and say what it took."""
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))
    command = [sys.executable, "-m", "ofu_exporter", "fleet", "report", "--format", "json"]
    flags = ["--prometheus", url, "--since", since, "--until", until]
    began = time.monotonic()
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        output = running.stdout.read()
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"{time.monotonic() - began:.1f} s, {most / 1024:.0f} MiB at most")
    return FleetReport.model_validate_json(output)


if __name__ == "__main__":
    main()
