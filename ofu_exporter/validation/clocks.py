"""Measures the clock domains of a card, and proposes a row of the table of models.

Achieved FLOP/s = TPA * f * SMs * FLOPs per cycle and SM, if the FLOPs of tiles are counted. So tensor cycles and
achieved FLOP/s give the FLOPs per cycle, a property of the chip. The tensor clock is not measured: it is the clock
that the *published* peak implies with these FLOPs per cycle, f_T = peak / (SMs * FLOPs per cycle). Otherwise OFU and
MFU would have different denominators. In addition the highest clock under tensor load is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import yaml

from ofu_exporter.hardware import gpu_models
from ofu_exporter.hardware.gpu_spec import GpuModel
from ofu_exporter.validation import Trial
from ofu_exporter.validation.results import Result, steady_windows
from ofu_exporter.values.gpu import Gpu, Rating

BUSY = 0.3
"""Least tensor activity of a window that counts for the highest clock under tensor load."""
FIT = 0.05
"""Largest relative distance of a measured rate from a whole one."""
AGREE = 0.02
"""Largest relative distance of a rate or a clock from the table's."""


@dataclass(frozen=True, slots=True)
class Domain:
    """What was measured of one precision. None = not known."""

    precision: str
    flops_per_cycle_per_sm: float
    """The largest rate of the products, with the FLOPs that tiles add where these are known."""
    is_exact: bool
    """Whether tiles are known; if not, the rate is a lower bound."""
    whole: int | None
    """The nearest rate that a chip can have: a power of two, or one and a half times a power of two."""
    highest_clock_hz: float
    """Highest mean clock of a window under tensor load."""
    implied_clock_hz: float | None
    """The clock that the published peak implies with the whole rate."""
    row_flops_per_cycle_per_sm: int | None
    row_clock_hz: float | None
    notes: tuple[str, ...] = ()


def domains(
    trials: Sequence[Trial],
    results: Sequence[Result],
    gpu: Gpu,
    rating: Rating,
    published: Mapping[str, float],
    extra: Sequence[GpuModel] = (),
) -> tuple[Domain, ...]:
    """The domain of every precision. `published` are dense peaks in FLOP/s that the user gives."""
    row = gpu_models.find_row(gpu, extra)
    peaks = {**(row.published_peak_flops if row else {}), **published}
    highest = _highest_clocks(trials, rating)
    by_precision: dict[str, list[Result]] = {}
    for each in results:
        by_precision.setdefault(each.product.precision, []).append(each)
    return tuple(
        _domain(chosen, gpu.sm_count, highest[precision], peaks.get(precision), row)
        for precision, chosen in by_precision.items()
        if gpu.sm_count and precision in highest
    )


def whole_rate(rate: float) -> int | None:
    """The nearest rate that a chip can have; None if none is close."""
    candidates = [whole for power in range(3, 20) for whole in (1 << power, 3 << (power - 1))]
    nearest = min(candidates, key=lambda whole: abs(rate / whole - 1))
    return nearest if abs(rate / nearest - 1) <= FIT else None


def proposal(gpu: Gpu, measured: Sequence[Domain]) -> tuple[str, str]:
    """A chip and a row for the table of models, and a setting `gpus:`, from what was measured."""
    rates = {each.precision: each.whole for each in measured if each.whole}
    low = _clock([each for each in measured if each.precision != "fp64"])
    high = _clock([each for each in measured if each.precision == "fp64"])
    low = low or gpu.max_sm_clock_hz or 0.0
    setting: dict[str, object] = {"name": gpu.name}
    if gpu.pci_device_id:
        setting["pci_device_id"] = gpu.pci_device_id
    if gpu.sm_count:
        setting["sm_count"] = gpu.sm_count
    setting["tensor_clock_hz"] = round(low, -6)
    if high:
        setting["fp64_clock_hz"] = round(high, -6)
    setting["flops_per_cycle_per_sm"] = rates
    return _row_text(gpu, rates, low, high), yaml.safe_dump({"gpus": [setting]}, sort_keys=False)


def _row_text(gpu: Gpu, rates: Mapping[str, int], low: float, high: float | None) -> str:
    clocks = ("" if hz is None else f"{hz / 1e6:.0f}" for hz in (low, high, gpu.max_sm_clock_hz))
    gib = f"{round(gpu.memory_bytes / 2**30)}" if gpu.memory_bytes else ""
    cells = (
        "MODEL",
        "CHIP",
        gpu.name,
        gpu.pci_device_id,
        f"{gpu.sm_count or ''}",
        *clocks,
        "",
        gib,
    )
    chip = ", ".join(f"{precision}={rate}" for precision, rate in rates.items())
    return (
        f'"CHIP": Chip("ARCHITECTURE", {gpu.compute_capability}, _rates({chip})),\n'
        f"{','.join(cells)},,,,,ofu-exporter validate --clocks,low,,,"
    )


def _clock(measured: Sequence[Domain]) -> float | None:
    """The clock that the first published peak implies; the highest clock under load if no peak is known."""
    implied = [each.implied_clock_hz for each in measured if each.implied_clock_hz]
    return (
        implied[0] if implied else max((each.highest_clock_hz for each in measured), default=None)
    )


def _highest_clocks(trials: Sequence[Trial], rating: Rating) -> dict[str, float]:
    """The highest mean clock of a busy window, by precision."""
    highest: dict[str, float] = {}
    for trial in trials:
        for window in steady_windows(trial, rating):
            if (window.tensor_active or 0.0) >= BUSY and window.sm_clock_hz:
                precision = trial.product.precision
                highest[precision] = max(highest.get(precision, 0.0), window.sm_clock_hz)
    return highest


def _domain(
    chosen: Sequence[Result],
    sm_count: int,
    highest_hz: float,
    peak: float | None,
    row: GpuModel | None,
) -> Domain:
    precision = chosen[0].product.precision
    best = max(chosen, key=lambda each: (each.is_exact, _rate(each, sm_count)))
    rate = _rate(best, sm_count)
    whole = whole_rate(rate)
    in_row = row.chip.flops_per_cycle_per_sm.get(precision) if row else None
    clock_in_row = row.clock_hz(precision) if row else None
    implied = peak / (sm_count * whole) if peak and whole else None
    domain = Domain(
        precision, rate, best.is_exact, whole, highest_hz, implied, in_row, clock_in_row
    )
    return replace(domain, notes=tuple(_notes(domain)))


def _rate(result: Result, sm_count: int) -> float:
    """Executed FLOPs per tensor cycle of an SM."""
    executed = result.achieved_flops * (1 + (result.tiling.overhead_ratio or 0.0))
    return executed / (result.tensor_hz * sm_count) if result.tensor_hz else 0.0


def _notes(domain: Domain) -> Iterator[str]:
    rate, in_row = domain.flops_per_cycle_per_sm, domain.row_flops_per_cycle_per_sm
    implied, clock_in_row = domain.implied_clock_hz, domain.row_clock_hz
    if domain.whole is None:
        yield f"{rate:.0f} FLOPs per cycle are not within {FIT:.0%} of a rate that a chip can have"
    if in_row and abs(rate / in_row - 1) > AGREE:
        yield f"{rate / in_row - 1:+.1%} from the table's {in_row}"
    if implied and clock_in_row and abs(implied / clock_in_row - 1) > AGREE:
        yield f"the peak implies {implied / 1e6:.0f} MHz, the table has {clock_in_row / 1e6:.0f}"
    rated, highest = implied or clock_in_row, domain.highest_clock_hz
    if rated and highest > rated * (1 + AGREE):
        yield (
            f"the clock went to {highest / 1e6:.0f} MHz under tensor load: OFU above TPA is real"
        )
