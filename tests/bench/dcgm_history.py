"""What a report from dcgm-exporter's history costs the server, and how wrong it is where the clock follows the load.

python -m tests.bench.dcgm_history [--gpus 200] [--hours 12]
python -m tests.bench.dcgm_history --waves > tests/measured/dcgm-history.md
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ofu_exporter.fleet.history.from_dcgm import read_dcgm_history
from tests.bench.process import cpu_seconds
from tests.fleet.history.test_from_dcgm import HIGH, LOW, wave_pages
from tests.fleet.reports.test_funnel import told
from tests.helpers.stored_fleet import BEGIN, HOUR, labelled, reading, stored_pages

MODEL = "NVIDIA H100 80GB HBM3"
SERIES = (("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.4), ("DCGM_FI_DEV_SM_CLOCK", 1700.0))


def pages(gpus: int, hours: int) -> Iterator[str]:
    """GPUs in jobs of eight, scraped every 30 s."""
    for name, value in SERIES:
        yield f"# TYPE {name} gauge"
        for gpu in range(gpus):
            labels = labelled(gpu=str(gpu % 8), hpc_job=str(gpu // 8), modelName=MODEL, job="dcgm")
            for step in range(1, 120 * hours + 1):
                yield f"{name}{labels} {value + step % 7 / 100!r} {BEGIN + 30 * step:.0f}"
    yield "# EOF\n"


def print_waves() -> None:
    """OFU of square waves against the waves' own, four GPUs of each period, over two hours."""
    truth = sum(activity * mhz for activity, mhz in (HIGH, LOW)) / 2 / 1830
    with (
        tempfile.TemporaryDirectory() as name,
        stored_pages(Path(name), wave_pages(4)) as prometheus,
    ):
        found = told(prometheus.url, "--from", "dcgm-exporter", end=BEGIN + 2 * HOUR, hours=2)
    print("# OFU from dcgm-exporter's history where the clock follows the load\n")
    print("    python -m tests.bench.dcgm_history --waves > tests/measured/dcgm-history.md\n")
    print(
        "Activity (mean of 30 s) and SM clock (at its end) of square waves: half of each period 0.95 at"
    )
    print("1200 MHz, half 0.1 at 1980 MHz.\n")
    print("| period, s | OFU against the truth |\n|---|---|")
    for row in sorted(found.jobs, key=lambda row: float(row.job_id)):
        if row.ofu is not None:
            print(f"| {row.job_id} | {100 * (row.ofu / truth - 1):+.1f} % |")
    print(f"\nThe report: {found.notes[0]}")


def main() -> None:
    """Print the cost, or the errors of waves."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--gpus", type=int, default=200)
    parser.add_argument("--hours", type=int, default=12)
    parser.add_argument("--waves", action="store_true")
    options = parser.parse_args()
    if options.waves:
        print_waves()
        return
    text = "\n".join(pages(options.gpus, options.hours))
    with tempfile.TemporaryDirectory() as name, stored_pages(Path(name), text) as prometheus:
        before = cpu_seconds(prometheus.process.pid)
        with reading(prometheus.url) as reader:
            read_dcgm_history(reader, BEGIN, BEGIN + options.hours * HOUR)
        spent = cpu_seconds(prometheus.process.pid) - before
    each = spent / options.gpus / options.hours
    print(f"{spent:.1f} s of the server's CPU, {1000 * each:.2f} ms for each GPU-hour")
    print(f"10,000 GPUs and 14 days: {each * 10_000 * 336 / 3600:.1f} hours of CPU")


if __name__ == "__main__":
    main()
