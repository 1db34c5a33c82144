"""Finds the row of a GPU in the table of models, and from it what the GPU is measured against.

To add a model, add a row to `gpu_models.csv`. Names must be equal; one name that contains another does not match. A
wrong row would make every figure of a GPU wrong, while an unknown card only has no rating.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware.cloud_names import model_key
from ofu_exporter.hardware.gpu_rows import ROWS
from ofu_exporter.hardware.gpu_spec import PRECISIONS, Chip, GpuModel
from ofu_exporter.values.gpu import FP64, LOW_PRECISION, Gpu, Rating

__all__ = [
    "PRECISIONS",
    "ROWS",
    "Chip",
    "GpuModel",
    "custom_row",
    "estimate",
    "find_row",
    "markdown",
    "normalise",
    "rate",
]

SM_COUNT_TOLERANCE = 0.10
"""Bins of one model differ by less than this; the nearest other model under one name differed by 43 %."""
MEMORY_TOLERANCE = 0.05
CLOCK_TOLERANCE = 0.01
_DOUBT = " †"
"""Marks a disputed peak, and a clock that the published peak does not imply."""

_SEPARATORS = re.compile(r"[\W_]+")
_VENDOR = re.compile(r"^nvidia (?=.)")
"""Drivers before R470 name most cards without it."""
_MIG_SUFFIX = re.compile(r" mig (\d+c )?\d+g \d+gb( [a-z]+)*$")


@functools.lru_cache(maxsize=4096)
def normalise(name: str) -> str:
    """The form in which names are compared: without case, punctuation, the vendor, and a MIG profile at the end."""
    words = _SEPARATORS.sub(" ", name.casefold()).strip()
    return _VENDOR.sub("", _MIG_SUFFIX.sub("", words))


def custom_row(
    *,
    name: str,
    pci_device_id: str | None = None,
    sm_count: int | None = None,
    tensor_clock_hz: float,
    fp64_clock_hz: float | None = None,
    flops_per_cycle_per_sm: Mapping[str, int] | None = None,
) -> GpuModel:
    """A user's own row. Raises ConfigError when no device can match it or a precision does not exist."""
    key = name if normalise(name) else pci_device_id
    if key is None:
        raise ConfigError("gpus: a row needs a name or a pci_device_id")
    rates = dict(flops_per_cycle_per_sm or {})
    if unknown := sorted(rates.keys() - set(PRECISIONS)):
        choices = ", ".join(PRECISIONS)
        raise ConfigError(f"gpus: {key}: no precision {', '.join(unknown)}; known: {choices}")
    return GpuModel(
        key=key,
        chip=Chip("", None, rates),
        names=(name,),
        pci_device_ids=(pci_device_id,) if pci_device_id else (),
        sm_count=sm_count,
        tensor_clock_hz=tensor_clock_hz,
        fp64_clock_hz=fp64_clock_hz,
        origin="configured",
    )


def find_row(gpu: Gpu, extra: Sequence[GpuModel] = ()) -> GpuModel | None:
    """The row of a device: the user's, else by PCI device id, else by name; None = not known."""
    for row in extra:
        if _has_id(row, gpu) or _has_name(row, gpu):
            return row
    return _in_table(gpu)


@functools.lru_cache(maxsize=1024)  # a search for causes asks some hundred times for one GPU
def _in_table(gpu: Gpu) -> GpuModel | None:
    if with_id := [row for row in ROWS if _has_id(row, gpu)]:
        return _by_id(gpu, with_id)
    named = next((row for row in ROWS if _has_name(row, gpu)), None)
    if named is not None and _is_another_chip(named, gpu):
        return _relabelled(gpu)
    return named


def by_short_name(text: str) -> tuple[str, tuple[str, ...]] | None:
    """The NVML name that a short name such as `H100` or `h100-pcie` stands for, or a cloud's name, and the other
    models that it may mean.

    Of several models the first in the table is used, which is the SXM part. None if no model has this name.
    """
    if (key := model_key(text)) is not None:
        return next(row.names[0] for row in ROWS if row.key == key), ()
    short = "-".join(text.casefold().removeprefix("nvidia").split())
    rows = [row for row in ROWS if row.names and "-as-" not in row.key]
    fitting = [row for row in rows if f"{row.key.casefold()}-".startswith(f"{short}-")]
    fitting.sort(key=lambda row: row.key.casefold() != short)
    if not fitting:
        return None
    exact = fitting[0].key.casefold() == short
    return fitting[0].names[0], () if exact else tuple(row.key for row in fitting[1:])


HOPPER = (9, 0)
"""Compute capability from which on all counters are of the same instants (GPM)."""


def rate(gpu: Gpu, extra: Sequence[GpuModel] = ()) -> Rating | None:
    """The rating that a device is measured against; None = no row has a clock for it."""
    row = find_row(gpu, extra)
    if row is None or row.tensor_clock_hz is None:
        return None
    low = _tensor_clock_hz(row, row.tensor_clock_hz, gpu)
    fp64 = low if row.fp64_clock_hz is None else row.fp64_clock_hz
    clocks = {LOW_PRECISION: low, FP64: fp64}
    peaks = _peaks(row, low, gpu)
    return Rating(
        clocks,
        peaks,
        row.origin,
        row.key,
        _rated_as(row, gpu),
        row.max_sm_clock_hz,
        row.sm_count,
        None if gpu.instance else row.links,
        None if gpu.instance else row.memory_bytes_per_second,
        (row.chip.compute_capability or HOPPER) < HOPPER,
    )


def estimate(gpu: Gpu) -> Rating | None:
    """A rating from the card's own maximum SM clock, without a row. It serves to find the figures of a new row, not
    for an OFU."""
    own_hz = gpu.max_sm_clock_hz
    return Rating({LOW_PRECISION: own_hz, FP64: own_hz}, {}, "estimated") if own_hz else None


def _has_id(row: GpuModel, gpu: Gpu) -> bool:
    return gpu.pci_device_id != "" and gpu.pci_device_id.lower() in row.pci_device_ids


def _has_name(row: GpuModel, gpu: Gpu) -> bool:
    name = normalise(gpu.name)
    return name != "" and any(normalise(each) == name for each in row.names)


def _sm_count(gpu: Gpu) -> int | None:
    """The chip's SM count. A MIG instance may report its own count, which says nothing about the chip."""
    return None if gpu.instance else gpu.sm_count


def _is_another_chip(row: GpuModel, gpu: Gpu) -> bool:
    reported = _sm_count(gpu)
    if not reported or row.sm_count is None:
        return False
    return abs(reported - row.sm_count) > SM_COUNT_TOLERANCE * row.sm_count


def _by_id(gpu: Gpu, rows: Sequence[GpuModel]) -> GpuModel | None:
    if len(rows) == 1:
        return rows[0]
    if named := [row for row in rows if _has_name(row, gpu)]:
        return named[0]
    fitting = [row for row in rows if row.sm_count == _sm_count(gpu)]
    return _one_rating(
        [row for row in fitting if row.chip.compute_capability == gpu.compute_capability]
    )


def _relabelled(gpu: Gpu) -> GpuModel | None:
    """The row of a card that has another model's name, found by properties that a false name cannot hide; None = not
    found.

    Memory has to fit as well, because SM counts alone repeat between generations of one die.
    """
    if not gpu.memory_bytes:
        return None
    gib = gpu.memory_bytes / 2**30
    rows = [
        row
        for row in ROWS
        if row.sm_count == gpu.sm_count
        and any(abs(gib - size) <= MEMORY_TOLERANCE * size for size in row.memory_gib)
    ]
    # The card may hide these two as well, so each is used only if some row fits it.
    rows = [row for row in rows if row.chip.compute_capability == gpu.compute_capability] or rows
    rows = [row for row in rows if _has_clock(row, gpu)] or rows
    # Prefer models that are known to be sold under false names.
    return _one_rating([row for row in rows if row.relabelled] or rows)


def _has_clock(row: GpuModel, gpu: Gpu) -> bool:
    if row.max_sm_clock_hz is None or gpu.max_sm_clock_hz is None:
        return False
    return abs(gpu.max_sm_clock_hz - row.max_sm_clock_hz) <= CLOCK_TOLERANCE * row.max_sm_clock_hz


def _one_rating(rows: Sequence[GpuModel]) -> GpuModel | None:
    """The first of rows that are all rated alike; None when they are not, or there are none."""
    ratings = [
        (row.sm_count, row.tensor_clock_hz, row.fp64_clock_hz, row.chip, row.published_peak_flops)
        for row in rows
    ]
    return rows[0] if ratings and all(rating == ratings[0] for rating in ratings) else None


def _tensor_clock_hz(row: GpuModel, rated_hz: float, gpu: Gpu) -> float:
    """The clock at which the SMs that the device reports give the published peak."""
    reported = _sm_count(gpu)
    if row.origin == "configured" or not reported or row.sm_count is None:
        return rated_hz
    if reported == row.sm_count or _is_another_chip(row, gpu):
        return rated_hz
    precision = "bf16" if "bf16" in row.chip.flops_per_cycle_per_sm else "fp16"
    rate = row.chip.flops_per_cycle_per_sm.get(precision)
    published = row.published_peak_flops.get(precision)
    if rate is None:  # the peak is capped, so it implies no clock
        return rated_hz
    if published is None or precision in row.disputed:
        return rated_hz * row.sm_count / reported
    return published / (reported * rate)


def _rated_as(row: GpuModel, gpu: Gpu) -> str:
    """The row, and the other properties that a device's clocks and peaks depend on: MIG, and another number of SMs
    than the model's."""
    if gpu.instance:
        return f"{row.key} MIG"
    reported = _sm_count(gpu)
    return row.key if reported in (None, 0, row.sm_count) else f"{row.key} {reported} SMs"


def _peaks(row: GpuModel, low_hz: float, gpu: Gpu) -> dict[str, float]:
    """Dense FLOP/s per precision; empty where the device does not have the model's number of SMs."""
    configured = row.origin == "configured"
    if gpu.instance or (not configured and _is_another_chip(row, gpu)):
        return {}
    counts = (row.sm_count, gpu.sm_count) if configured else (gpu.sm_count, row.sm_count)
    in_hand = replace(row, sm_count=counts[0] or counts[1], tensor_clock_hz=low_hz)
    peaks = {precision: in_hand.peak_flops(precision) for precision in PRECISIONS}
    return {precision: peak for precision, peak in peaks.items() if peak}


def markdown() -> str:
    """The table as Markdown, clocks in MHz and dense peaks in TFLOP/s; models with the same figures share a row.

    In parentheses stands how well the sources of a model agree, where that is less than high.
    """
    head = (
        "| model | SMs | tensor clock, MHz | FP64 clock, MHz | BF16 | FP8 | FP64 |",
        "|---|---:|---:|---:|---:|---:|---:|",
    )
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in ROWS:
        sure = "" if row.confidence == "high" else f" ({row.confidence})"
        alike.setdefault(_figures(row), []).append(f"{row.key}{sure}")
    rows = (f"| {' | '.join((', '.join(keys), *cells))} |" for cells, keys in alike.items())
    return "\n".join((*head, *rows))


def _figures(row: GpuModel) -> tuple[str, ...]:
    bf16 = _peak_cell(row, "bf16")
    if row.peak_flops("bf16") is None and row.peak_flops("fp16") is not None:
        bf16 = f"({_peak_cell(row, 'fp16')})"
    fp64_hz = row.clock_hz("fp64") if row.peak_flops("fp64") is not None else None
    return (
        "-" if row.sm_count is None else str(row.sm_count),
        _clock_cell(row),
        "-" if fp64_hz is None else f"{fp64_hz / 1e6:.0f}",
        bf16,
        _peak_cell(row, "fp8"),
        _peak_cell(row, "fp64"),
    )


def _clock_cell(row: GpuModel) -> str:
    if row.tensor_clock_hz is None:
        return "-"
    return f"{row.tensor_clock_hz / 1e6:.0f}{'' if row.has_implied_clock else _DOUBT}"


def _peak_cell(row: GpuModel, precision: str) -> str:
    peak = row.peak_flops(precision)
    if peak is None:
        return "-"
    mark = _DOUBT if precision in row.disputed else ""
    return f"{peak / 1e12:.1f}{mark}"
