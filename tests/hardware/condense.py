"""Makes the small files in tests/measured/ from what the hardware tests left behind.

    python -m tests.hardware.condense FOLDER

Or, of what `second_hour.py` left there, tests/measured/NAME-clock.json, NAME-honest.json, NAME-refreshes.json,
NAME-trace.json and NAME-sources.json, as far as their steps ran:

    python -m tests.hardware.condense FOLDER NAME

FOLDER has true-clock.jsonl (`true_clock.py`), parts-loads.jsonl and parts-gpm.jsonl (`first_contact.py`), and the files
of `day.py`. Only means over the steady part of each load are kept, so that a test can read them at a glance.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

SETTLING_SECONDS = 0.8
MEASURED = Path(__file__).parents[1] / "measured"
Row = Mapping[str, Any]


def products(rows: Sequence[Row]) -> Iterator[Row]:
    """Each product: FLOP/s and clock by the SMs' own counters, activity and clock by NVML over the same windows."""
    for row in rows:
        times = row["times"]
        windows = steady(row)
        begin = _nearest(times, windows[0]["start"])
        end = _nearest(times, windows[-1]["end"])
        pairs = list(zip(row["notes"][begin], row["notes"][end], strict=True))
        seconds = statistics.fmean((after[1] - before[1]) / 1e9 for before, after in pairs)
        cycles = statistics.fmean(after[0] - before[0] for before, after in pairs)
        precision, m, n, k = row["product"]
        yield {
            "precision": precision,
            **{"m": m, "n": n, "k": k},
            "kernel": row["kernels"][-1],
            "flops_per_second": round((end - begin) * row["flops_per_chunk"] / seconds, -8),
            "tensor_active": round(_mean(windows, lambda w: w["tensor"] / 100), 5),
            "nvml_clock_hz": round(
                1e6 * statistics.fmean(mhz for w in windows for _, mhz in w["clocks_mhz"])
            ),
            "true_clock_hz": round(cycles / seconds),
        }


def steady(row: Row) -> list[Row]:
    """The windows of a product after the clock has settled."""
    times = row["times"]
    settled = times[0] + SETTLING_SECONDS
    first = next((i for i, at in enumerate(times) if at > settled), -1)
    return [w for w in row["windows"] if w["start"] >= times[first] and w["end"] <= times[-2]]


def loads(rows: Sequence[Row], windows: Sequence[Row]) -> Iterator[Row]:
    """Each load: what it did, and the mean of every metric in percent or MiB/s."""
    for row in rows:
        inside = [
            w
            for w in windows
            if w["start"] >= row["began"] + SETTLING_SECONDS and w["end"] <= row["ended"]
        ]
        seconds = row["ended"] - row["began"]
        rates = {
            f"{name}_per_second": row[name] / seconds
            for name in ("flops", "bytes")
            if row.get(name)
        }
        shares = {name: row[name] for name in row if name.endswith("_ratio")}
        means = {
            id_: round(_mean(inside, lambda w, id_=id_: w["metrics"][id_]), 3)
            for id_ in inside[0]["metrics"]
        }
        clocks = [mhz for w in inside for _, mhz in w["clocks_mhz"]]
        yield {
            "name": row["name"],
            **{name: round(value, 4) for name, value in (rates | shares).items()},
            "metrics": means,
            "clock_mhz": round(statistics.fmean(clocks), 1),
            "power_watts": round(_mean(inside, lambda w: w["power_watts"]), 1),
        }


def training(stories: Sequence[Row]) -> Iterator[Row]:
    """Each job: steps after the first four, when they began and ended, and the FLOPs of one."""
    for story in stories:
        steps = story["steps"]
        yield {
            **{name: story[name] for name in ("phase", "config", "batch", "seq_len")},
            **{name: story[name] for name in ("formula_flops", "executed_flops")},
            "steps": len(steps) - 5,
            "began": round(steps[4][0], 4),
            "ended": round(steps[-1][0], 4),
        }


def _nearest(times: Sequence[float], at: float) -> int:
    return min(range(len(times)), key=lambda place: abs(times[place] - at))


def _mean(windows: Sequence[Row], value: Any) -> float:
    """The mean over time."""
    seconds = [w["end"] - w["start"] for w in windows]
    total = sum(value(w) * s for w, s in zip(windows, seconds, strict=True))
    return float(total / sum(seconds))


def _lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _write(name: str, rows: Iterator[Row]) -> None:
    lines = ",\n".join(json.dumps(row) for row in rows)
    (MEASURED / name).write_text(f"[\n{lines}\n]\n")


def second_hour(folder: Path, name: str) -> None:
    """Products with what predicts their error, and the ways of training with a ratio."""
    steps = json.loads((folder / "second-hour.json").read_text())["steps"]
    answers = {step: told["answer"] for step, told in steps.items() if told.get("answer")}
    if clock := answers.get("clock-error"):
        _write(f"{name}-clock.json", map(partial(_told, clock), clock.get("by_product", ())))
    if honest := answers.get("honest"):
        cases = ({"case": case, **told} for case, told in honest.items())
        _write(f"{name}-honest.json", (case for case in cases if case.get("mfu_over_ofu")))
    if traced := answers.get("traced"):
        kept = ("in_the_agent", "steps_per_second", "file")
        _write(f"{name}-trace.json", iter([{key: traced[key] for key in kept}]))
    if phases := answers.get("both-sources"):
        _write(f"{name}-sources.json", windows_of_sources(phases))
    if (log := folder / "raw/honest.gpm").exists():
        changes = list(clock_changes(_lines(log)))
        (MEASURED / f"{name}-refreshes.json").write_text(json.dumps(changes) + "\n")


def windows_of_sources(phases: Mapping[str, Row]) -> Iterator[Row]:
    """Of each phase and source: beginning, end and OFU of every window."""
    for phase, told in phases.items():
        for source, windows in told.get("all", {}).items():
            shown = [[round(number, 4) for number in window[:3]] for window in windows]
            yield {"phase": phase, "source": source, "windows": shown}


def clock_changes(windows: Sequence[Row]) -> Iterator[float]:
    """When the clock that was read every 25 ms had another value than before, in seconds."""
    reads = (read for window in windows for read in window["clocks_mhz"])
    for (_, before), (at, mhz) in itertools.pairwise(reads):
        if mhz != before:
            yield round(at, 3)


def _told(clock: Row, product: Row) -> Row:
    """A product with what varied beside it, in four digits."""
    constant = clock["never_varied"]
    beside = {k: float(f"{v:.4g}") for k, v in product["beside"].items() if k not in constant}
    return {**product, "beside": beside}


def main(args: Sequence[str]) -> None:
    if len(args) not in (1, 2):
        raise SystemExit(__doc__)
    folder = Path(args[0])
    if args[1:]:
        second_hour(folder, args[1])
        return
    _write("h100-products.json", products(_lines(folder / "true-clock.jsonl")))
    known = _lines(folder / "parts-loads.jsonl")
    _write("h100-known-loads.json", loads(known, _lines(folder / "parts-gpm.jsonl")))
    names = ("plain", "recompute", "full-attention", "waiting", "tf32")
    stories = [json.loads((folder / f"{name}.json").read_text()) for name in names]
    _write("h100-training.json", training(stories))


if __name__ == "__main__":
    main(sys.argv[1:])
