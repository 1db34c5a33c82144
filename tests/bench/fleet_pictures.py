"""Takes the pictures of `fleet report` and `fleet job` for the docs: `python -m tests.bench.fleet_pictures`.

That of a report is of the month of `demo --fleet`, that of a job from pages of a small simulated fleet in a real
Prometheus. Needs Chromium.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from ofu_exporter.cli.demo_fleet import month_page
from tests.helpers.fleets import BEGIN, fleet
from tests.helpers.screenshots import FOLDER, picture
from tests.helpers.simulated_pages import scraped
from tests.helpers.stored_fleet import read_in, stored

NOW = 1_780_000_000.0
"""2026-05-28: the picture is the same whenever it is taken."""
REPORT_SIZE, JOB_SIZE = (1400, 1640), (1400, 1160)
JOB_FLEET = """
length: 1d
interval: 30
nodes:
  - {name: h100-, count: 3, model: H100, gpus: 8, partition: batch}
jobs:
  - {name: robot-vla, users: [alan], account: robotics, partition: batch, gpus: 24, mfu: 0.36, lasts: 23h, report: {},
     changes: [{at: 14h, factor: 0.5}], straggler: {gpu: 5, share: 0.6}}
faults:
  - {fault: gpu_lost, nodes: [h100-2], gpus: [3], at: 4h, lasts: 3h}
"""
"""A job on 24 GPUs: one of them does less than its peers, one is lost for some hours, and at last it gets slower."""


def report_picture(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch) / "report.html"
        text.write_bytes(month_page(NOW))
        picture(text, folder / "fleet-1400-light.png", REPORT_SIZE, "light")


def job_picture(folder: Path) -> None:
    """A job with the heat map of its GPUs."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        made = fleet(JOB_FLEET, scratch)
        read_in(scratch, scraped(made, BEGIN, 60))
        (job,) = made.jobs
        with stored(scratch) as prometheus:
            command = [sys.executable, "-m", "ofu_exporter", "fleet", "job", job.job.draft.job_id]
            asked = [
                "--prometheus",
                prometheus.url,
                "--since",
                "24h",
                "--until",
                "2025-08-28T00:00Z",
            ]
            shown = ["--format", "html", "--output", str(scratch / "job.html")]
            subprocess.run([*command, *asked, *shown], check=True)
        picture(scratch / "job.html", folder / "fleet-job-1400-light.png", JOB_SIZE, "light")


if __name__ == "__main__":
    for take in (report_picture, job_picture):
        take(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
