"""Writes what recording rules would have kept of a simulated fleet: `python -m tests.simulated_history SPEC FOLDER`.

SPEC is a YAML file as of `ofu-exporter fleet simulate`, or the name of a shipped one: paper, small. It may have more
keys, which fleet.py beside this has. The files are OpenMetrics, within 2 % of a Prometheus that evaluates the rules
over the fleet's pages. Into Prometheus, or VictoriaMetrics:

    for file in history/*.om; do promtool tsdb create-blocks-from openmetrics -q "$file" data; done
    for file in history/*.om; do curl -sf --data-binary "@$file" http://127.0.0.1:8428/api/v1/import/prometheus; done
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.simulated_history import fleet, history


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("spec", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--end", choices=["now"], help="Else it begins when SPEC says.")
    flags = parser.parse_args()
    made = fleet.read(flags.spec)
    if not flags.end and made.spec.start is None:
        parser.error("give --end, or a start in SPEC")
    begin = made.spec.start.timestamp() if made.spec.start else 0.0
    if flags.end:
        begin = (time.time() // 60 - made.spec.length) * 60
    flags.folder.mkdir(parents=True, exist_ok=True)
    samples = sum(written.samples for written in history.write(made, begin, flags.folder))
    print(f"{samples} samples")


if __name__ == "__main__":
    main()
