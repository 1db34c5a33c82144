"""What a report over the paper's fleet costs, and how far it is from the truth: 608 jobs, two weeks, 8,192 GPUs.

    python -m tests.bench.fleet

The history is made by `fleet simulate`, imported by promtool and read from a real Prometheus, which takes some minutes.
Printed are the command's time, the most memory of any program that this one ran (promtool, Prometheus or the command),
and the worst miss of every number against the truth.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ofu_exporter.fleet.reports.report_page import page
from ofu_exporter.fleet.reports.result import FleetReport
from ofu_exporter.fleet.simulation import spec_file
from ofu_exporter.fleet.simulation.fleet import fleet_of
from tests.helpers import fleet_truth
from tests.helpers.screenshots import picture
from tests.helpers.stored_fleet import stored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--spec", type=Path, default=Path("paper"))
    parser.add_argument(
        "--pictures", type=Path, help="Folder to write the picture of the report into."
    )
    flags = parser.parse_args()
    spec = spec_file.read(spec_file.shipped(flags.spec) or flags.spec)
    made = fleet_of(spec)
    assert spec.spec.start is not None
    begin = spec.spec.start.timestamp()
    end = begin + 60 * spec.spec.length
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        truth = fleet_truth.write(made, begin, folder)
        with stored(folder) as prometheus:
            report = read(prometheus.url, f"{(end - begin) / 3600:g}h", end)
        if flags.pictures is not None:
            text = Path(name) / "report.html"
            text.write_text(page(report))
            picture(text, flags.pictures / "fleet-1400-light.png", (1400, 1250), "light")
    print(f"queries {report.reading.queries}, samples {report.reading.samples}")
    for field, miss in fleet_truth.misses(report, truth)._asdict().items():
        print(f"{field:28} {miss:.5f}")


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
