"""Finds what tells that NVML's clock is wrong: `python -m tests.hardware.clock_error FILE OUT`.

FILE is of `true_clock.py`, OUT becomes JSON. The error of a product is NVML's mean clock over the SMs' own, minus 1.
Each number that NVML gave meanwhile is tried as a predictor: how the error goes with it, what is left of the error
after a correction by a line, and a bound of two steps. Correction and bound of a product are made of all other
products, so that none judges itself.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ofu_exporter.hardware import gpu_models, tiles
from ofu_exporter.hardware.tiles import Gemm
from ofu_exporter.ofu import formula
from ofu_exporter.traces import kernel_names
from ofu_exporter.values.gpu import Gpu, Rating
from tests.hardware.condense import products, steady

H100 = Gpu(index="0", uuid="GPU-a", name="NVIDIA H100 80GB HBM3", sm_count=132)
"""The H200 has the same peaks and clocks."""
REASON_BITS = {0x1: "idle", 0x2: "app_clocks", 0x4: "power_cap", 0x8: "hw_slowdown"}
REASON_BITS |= {0x10: "sync_boost", 0x20: "sw_thermal", 0x40: "hw_thermal", 0x80: "power_brake"}
"""nvmlClocksEventReason... of nvml.h."""
MARGIN = 0.005
"""What a bound has beside the largest error seen: NVML's clock varies by so much without a cap."""
Row = Mapping[str, Any]


def rating() -> Rating:
    rated = gpu_models.rate(H100)
    assert rated is not None
    return rated


def adjusted_points(row: Row, clock_hz: float) -> float:
    """Adjusted OFU minus MFU, in points; the kernel's name says the tiles."""
    rated = rating()
    ofu = formula.utilization(
        row["tensor_active"], clock_hz, rated.tensor_clock_hz["low_precision"]
    )
    gemm = Gemm(row["n"], row["m"], row["k"])  # row-major: the kernel sees the product transposed
    overhead = tiles.cost(kernel_names.parse(row["kernel"]), [gemm]).overhead_ratio
    mfu = row["flops_per_second"] / rated.peak_flops[row["precision"]]
    return float(100 * (tiles.adjusted_utilization(ofu, overhead) - mfu))


def predictors(row: Row) -> Iterator[tuple[str, float]]:
    """Means over the steady windows; of counters of nanoseconds the share of time, of reasons the share of reads."""
    windows = steady(row)
    columns: dict[str, list[float]] = {name: [] for name in windows[0]["beside"]}
    for window in windows:
        for name, values in window["beside"].items():
            columns[name] += [each for each in values if each is not None]
    seconds = columns["at"][-1] - columns.pop("at")[0]
    for name, values in columns.items():
        if values:  # not refused all the time
            yield from _summary(name, values, seconds)
    clocks = [mhz for window in windows for _, mhz in window["clocks_mhz"]]
    yield "clock_std_mhz", statistics.pstdev(clocks)
    yield "tensor_active", statistics.fmean(w["tensor"] for w in windows)
    if row.get("millivolts"):
        yield "millivolts", row["millivolts"]
    yield from _by_cycles(windows)


def _summary(name: str, values: Sequence[float], seconds: float) -> Iterator[tuple[str, float]]:
    if name.endswith("_ns"):
        yield name.replace("_ns", "_share"), (values[-1] - values[0]) / seconds / 1e9
    elif name == "reasons":
        for bit, reason in REASON_BITS.items():
            yield reason, statistics.fmean(bool(int(each) & bit) for each in values)
    elif name == "energy_mj":
        yield "watts_by_energy", (values[-1] - values[0]) / seconds / 1e3
    else:
        yield name, statistics.fmean(values)


def _by_cycles(windows: Sequence[Row]) -> Iterator[tuple[str, float]]:
    """The clock by the elapsed cycles, of one SM or of all, where the driver counts them."""
    first, last = windows[0], windows[-1]
    if len(windows) > 1 and isinstance(last["cycles"]["248"], float):
        cycles = last["cycles"]["248"] - first["cycles"]["248"]
        per_second = cycles / (last["end"] - first["end"])
        yield "cycles_mhz", per_second / 1e6 / (H100.sm_count or 1 if per_second > 1e10 else 1)


def line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Offset and slope of least squares."""
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    square = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / (square or 1)
    return mean_y - slope * mean_x, slope


def steps(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float, float]:
    """A threshold, and the largest error at most there and above, so that their mean is least."""
    ordered = sorted(zip(xs, ys, strict=True))
    cuts = [i + 1 for i, (a, b) in enumerate(pairwise(ordered)) if b[0] > a[0]]
    found = (len(ys) * max(ys), max(xs), max(ys), max(ys))
    for cut in cuts:
        low, high = (max(y for _, y in part) for part in (ordered[:cut], ordered[cut:]))
        middle = (ordered[cut - 1][0] + ordered[cut][0]) / 2
        found = min(found, (cut * low + (len(ys) - cut) * high, middle, low, high))
    return found[1:]


def judged(name: str, xs: Sequence[float], rows: Sequence[Row]) -> Row:
    """How well a number predicts: of each product by all others."""
    errors = [row["nvml_clock_hz"] / row["true_clock_hz"] - 1 for row in rows]
    points, inside = [], 0
    for out, row in enumerate(rows):
        rest = [i for i in range(len(rows)) if i != out]
        others = [xs[i] for i in rest], [errors[i] for i in rest]
        offset, slope = line(*others)
        corrected = row["nvml_clock_hz"] / (1 + offset + slope * xs[out])
        points.append(abs(adjusted_points(row, corrected)))
        threshold, low, high = steps(*others)
        inside += errors[out] <= (high if xs[out] > threshold else low) + MARGIN
    threshold, low, high = steps(xs, errors)
    return {
        "predictor": name,
        "correlation": round(statistics.correlation(xs, errors), 4),
        "corrected_mean_points": round(statistics.fmean(points), 4),
        "bound": {"above": threshold, "at_most": low + MARGIN, "beyond": high + MARGIN},
        "mean_bound": statistics.fmean((high if x > threshold else low) + MARGIN for x in xs),
        "bound_holds": f"{inside} of {len(rows)}",
    }


def analysis(raw: Sequence[Row]) -> Row:
    """All predictors, the best correction first; what is uncorrected beside."""
    usable = [row for row in raw if len(steady(row)) > 1]
    rows, told = list(products(usable)), [dict(predictors(row)) for row in usable]
    names = [n for n in told[0] if all(math.isfinite(each.get(n, math.nan)) for each in told)]
    columns = {name: [each[name] for each in told] for name in names}
    varying = [name for name, column in columns.items() if min(column) < max(column)]
    found = [judged(name, columns[name], rows) for name in varying]
    clocks = ("nvml_clock_hz", "true_clock_hz")
    means = {
        name: statistics.fmean(abs(adjusted_points(row, row[name])) for row in rows)
        for name in clocks
    }
    by_products = [{**row, "beside": each} for row, each in zip(rows, told, strict=True)]
    return {
        "products": len(rows),
        "without_windows": len(raw) - len(rows),
        "mean_points": means,
        "predictors": sorted(found, key=lambda each: each["corrected_mean_points"]),
        "never_varied": sorted({*names} - {*varying}),
        "by_product": by_products,
    }


def main(args: Sequence[str]) -> None:
    if len(args) != 2:
        raise SystemExit(__doc__)
    lines = Path(args[0]).read_text().split("\n")[:-1]  # the last may be half of one
    Path(args[1]).write_text(json.dumps(analysis([json.loads(each) for each in lines])) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
