"""Writes what recording rules would have kept of a simulated fleet: `python -m tests.simulated_history SPEC FOLDER`.

SPEC is a YAML file as of `ofu-exporter fleet simulate`, or the name of a shipped one: paper, small. It may have more
keys, which fleet.py beside this has. The files are OpenMetrics, within 2 % of a Prometheus that evaluates the rules
over the fleet's pages. Into Prometheus, or VictoriaMetrics:

    for file in history/*.om; do promtool tsdb create-blocks-from openmetrics -q "$file" data; done
    for file in history/*.om; do curl -sf --data-binary "@$file" http://127.0.0.1:8428/api/v1/import/prometheus; done
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ofu_exporter.errors import ConfigError, OfuError
from tests.simulated_history import fleet, history
from tests.simulated_history.fleet import RecordedFleet, RecordedFleetSpec

NAME = "tests.simulated_history"
STOPPED, WRONG, CANNOT = 1, 2, 3
"""Exit codes: a signal; a spec, flag or folder that cannot be used; a disk that is full."""


def instant(text: str) -> float:
    """Unix seconds of a whole minute in UTC, as in 2025-08-27T00:00Z, or now."""
    if text == "now":
        return time.time() // 60 * 60
    try:
        read = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        wrong = f"{text!r} is not a time such as 2025-08-27T00:00Z"
        raise argparse.ArgumentTypeError(wrong) from None
    zoned = read if read.tzinfo else read.replace(tzinfo=datetime.timezone.utc)
    if zoned.timestamp() % 60:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole minute")
    return zoned.timestamp()


def asked(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        f"python -m {NAME}", description=(__doc__ or "").partition(":")[0]
    )
    parser.add_argument("spec", type=Path)
    parser.add_argument("folder", type=Path)
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--start", type=instant, help="When the fleet begins, not as SPEC says.")
    when.add_argument("--end", type=instant, help="When it ends, instead: a time, or now.")
    parser.add_argument(
        "--from", dest="begin", type=instant, help="Time from which to go on after a stop."
    )
    return parser.parse_args(words)


def start(flags: argparse.Namespace, spec: RecordedFleetSpec) -> float:
    """Unix time at which the fleet begins."""
    if flags.end is not None:
        return float(flags.end) - 60 * spec.length
    if flags.start is not None:
        return float(flags.start)
    if spec.start is None:
        raise ConfigError("give --start or --end, or a start in SPEC")
    return spec.start.timestamp()


def write(made: RecordedFleet, unix: float, folder: Path, begin: float | None) -> int:
    """Write all files, and name each; gives the exit code. Raises ConfigError, and HistoryError for a full disk."""
    first = 0 if begin is None else int((begin - unix) // 60)
    if not 0 <= first <= made.spec.length:
        raise ConfigError("--from: not within the time of the fleet")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror or error}") from error
    total = 0
    go_on = history.stamp(unix + 60 * first)
    try:
        for written in history.write(made, unix, folder, first):
            total += written.samples
            go_on = written.go_on
            print(f"{written.path}: {written.samples} samples", flush=True)
    except KeyboardInterrupt:
        why = f"stopped; the files written are complete: continue with --from {go_on}"
        print(f"{NAME}: {why}", file=sys.stderr)
        return STOPPED
    print(f"{total} samples")
    return 0


def main(words: Sequence[str] | None = None) -> int:
    flags = asked(words)
    try:
        made = fleet.read(flags.spec)
        unix = start(flags, made.spec)
        print(f"A simulated fleet: {len(made.nodes)} nodes, {len(made.jobs)} jobs.")
        return write(made, unix, flags.folder, flags.begin)
    except OfuError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return WRONG if isinstance(error, ConfigError) else CANNOT
