"""What a report over the paper's fleet costs, and how far it is from the truth: 608 jobs, two weeks, 8,192 GPUs.

    python -m tests.bench.fleet_report

What rules keep of its hours (tests/helpers/simulated_pages.py) is read from a real Prometheus, in some minutes.
Printed are the command's time, the most memory of any program that this one ran (promtool, Prometheus or the command),
and the worst miss of every number against the truth.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ofu_exporter.fleet.reports.job_rows import iso
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.fleet.simulation import spec
from ofu_exporter.fleet.simulation.fleet import fleet_of
from tests.helpers import fleet_truth
from tests.helpers.fleets import BEGIN, HOUR
from tests.helpers.stored_fleet import stored


def main() -> None:
    made = fleet_of(spec.read_spec(Path("paper")))
    with tempfile.TemporaryDirectory() as name:
        truth = fleet_truth.write(made, BEGIN, Path(name))
        with stored(Path(name)) as prometheus:
            report = read(prometheus.url, made.spec.length // 60)
    reading = report.reading
    print(f"{len(report.jobs)} jobs, {reading.queries} queries, samples {reading.samples}")
    for field, miss in fleet_truth.misses(report, truth)._asdict().items():
        print(f"{field:28} {miss:.5f}")


def read(url: str, hours: int) -> FleetReport:
    """Run the command, and say what it took."""
    command = [sys.executable, "-m", "ofu_exporter", "fleet", "report", "--format", "json"]
    flags = ["--prometheus", url, "--since", f"{hours}h", "--until", iso(BEGIN + HOUR * hours)]
    began = time.monotonic()
    output = subprocess.run([*command, *flags], check=True, stdout=subprocess.PIPE).stdout
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"{time.monotonic() - began:.1f} s, {most / 1024:.0f} MiB at most")
    return FleetReport.model_validate_json(output)


if __name__ == "__main__":
    main()
