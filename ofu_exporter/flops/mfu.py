"""Computes MFU and HFU: the FLOPs of a step over those that the GPUs could run in its time at their dense peak.

MFU (PaLM, arXiv:2204.02311, section 4.1) counts the FLOPs that the model needs, HFU those that the hardware ran, with
recomputed activations. Equation numbers are those of "Instant GPU Efficiency Visibility at Fleet Scale"
(arXiv:2605.20799).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.lengths import check_positive
from ofu_exporter.flops.step_count import Count, Total
from ofu_exporter.hardware import cloud_names, gpu_models, precision_names
from ofu_exporter.hardware.gpu_models import GpuModel
from ofu_exporter.values import quantities
from ofu_exporter.values.gpu import Gpu

SAME = 0.01
"""Two peaks or ratios that differ by less than this share count as the same."""

BANDS = (
    (0.25, "below 25 %: something is wrong; look for communication, CPU stalls, a small batch"),
    (0.40, "25-40 %: typical of large models at modest batch sizes"),
    (0.55, "40-55 %: well tuned"),
    (math.inf, "above 55 %: check for FLOPs that are counted twice"),
)
"""KempnerForge's bands for H100 clusters (its page on MFU): hints, not verdicts."""
BANDS_FROM = "Hopper"


@dataclass(frozen=True, slots=True)
class Pace:
    """The speed of a job over all its GPUs. Exactly one of the three is given."""

    tokens_per_second: float | None = None
    """Tokens of the streams that a count per token divides by."""
    samples_per_second: float | None = None
    step_seconds: float | None = None

    def steps_per_second(self, count: Count | Total) -> float:
        """Steps per second. Raises ConfigError unless exactly one pace is given, above 0 and finite."""
        paces = asdict(self)
        names = [name for name, value in paces.items() if value is not None]
        if len(names) != 1:
            raise ConfigError(f"give exactly one of {', '.join(paces)}, not {len(names)}")
        value = above_zero(names[0], paces[names[0]] or 0.0)
        first = count if isinstance(count, Count) else count.counts[0]
        if self.tokens_per_second is not None:
            return value / float(first.tokens)
        return value / first.sequences if self.samples_per_second is not None else 1 / value


@dataclass(frozen=True, slots=True)
class Utilization:
    """The MFU and HFU of a job."""

    mfu: float
    hfu: float
    peak_flops: float
    """Dense FLOP/s of one GPU, effective over the precisions in use."""
    model_flops_per_second: float
    """Model FLOP/s over all GPUs."""
    tflops_per_gpu: float
    """Model TFLOP/s of one GPU."""
    warnings: tuple[str, ...]


def _hint(gpu: str) -> str:
    """A hint at GPU names: those that contain the text, otherwise of the chip in it, otherwise the nearest, or
    where all are."""
    import difflib  # noqa: PLC0415 - seldom needed, and milliseconds to import

    names = [name for each in gpu_models.ROWS for name in each.names]
    within = [name for name in names if gpu and gpu.lower() in name.lower()]
    words = {word for word in gpu.casefold().split() if re.search(r"\d", word)}
    of_chip = {
        row.key.casefold().replace("-", " "): row.names[0]
        for row in gpu_models.ROWS
        if row.names and words & {*row.key.casefold().split("-")}
    }
    nearest = difflib.get_close_matches(gpu.casefold(), of_chip, 3, cutoff=0.5)
    near = within or [of_chip[key] for key in nearest] or difflib.get_close_matches(gpu, names, 1)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return "`ofu-exporter list gpus` has those that are"


@functools.lru_cache(maxsize=1024)  # a search for causes asks thousands of times for one GPU
def row_of(gpu: str) -> GpuModel | None:
    """The row of a GPU in the table, by the name that NVML reports."""
    return gpu_models.find_row(Gpu(index="", uuid="", name=gpu))


def dense_peak(gpu: str, precision: str) -> float:
    """Dense FLOP/s of a GPU by the name that NVML reports. Raises ConfigError for a GPU or precision that is not known,
    with the nearest, and for a MIG instance, which has only a share of its GPU's peak."""
    if re.search(r"\bMIG\b", gpu):
        raise ConfigError(
            f"gpu: {gpu!r} is a MIG instance, whose share of the peak is not known; give --peak-tflops"
        )
    row = row_of(gpu)
    if row is None:
        if vendor := cloud_names.other_vendor(gpu):
            raise ConfigError(f"gpu: {gpu!r} is {vendor}: not supported; give --peak-tflops")
        raise ConfigError(f"gpu: {gpu!r} is not known; {_hint(gpu)}")
    precision = precision_names.precision(precision)
    if precision not in gpu_models.PRECISIONS:
        raise ConfigError(f"precision: {precision_names.unknown(precision)}")
    peak = row.peak_flops(precision)
    if peak is None:
        rated = (name for name in gpu_models.PRECISIONS if row.peak_flops(name) is not None)
        precisions = ", ".join(rated) or "none"
        raise ConfigError(
            f"precision: {gpu} has no known dense peak in {precision}; known: {precisions}"
        )
    return peak


def effective_peak(shares: Mapping[str, float], peaks: Mapping[str, float]) -> float:
    """The peak of mixed precision, eq. 12: sum(F_p) / sum(F_p / peak_p), F_p the FLOPs run in precision p.

    Times at peak add up, so this is the harmonic mean weighted by FLOPs. Raises ConfigError when the shares aren't
    above 0 or don't add up to 1.
    """
    for precision, share in shares.items():
        above_zero(f"precision {precision}", share)
    if not shares or abs(math.fsum(shares.values()) - 1) > 1e-6:
        raise ConfigError(f"precision: the shares {dict(shares)} do not add up to 1")
    return 1 / math.fsum(share / peaks[precision] for precision, share in shares.items())


def utilization(
    count: Count | Total,
    pace: Pace,
    *,
    gpu: str,
    number: int,
    precision: Mapping[str, float],
    peak_flops: float | None = None,
) -> Utilization:
    """MFU and HFU of a job. Raises ConfigError for everything that `Pace`, `dense_peak` and `effective_peak` refuse.

    `number` counts all GPUs that the job holds (world size, not data-parallel size; idle and standby ones too).
    `precision` has the share of the FLOPs in each. `peak_flops`, per GPU, replaces the table's peak.
    """
    check_positive("gpus", number)
    warnings: list[str] = []
    if peak_flops is None:
        peak = effective_peak(precision, {name: dense_peak(gpu, name) for name in precision})
    else:
        peak = _given_peak(peak_flops)
        warnings += peak_mistakes(gpu, precision, peak)
    try:
        rate = pace.steps_per_second(count)
        model = float(count.model_flops_per_step) * rate
        ran = float(count.hardware_flops_per_step) * rate
        mfu, hfu = model / (number * peak), ran / (number * peak)
    except OverflowError:
        hfu = math.inf
    if not math.isfinite(hfu):
        raise ConfigError("pace, gpus or lengths: too large or too small for an MFU")
    warnings += ratio_mistakes(mfu, hfu, number)
    tflops = model / number / 1e12
    return Utilization(mfu, hfu, peak, model, tflops, (*count.warnings, *warnings))


def _given_peak(peak_flops: float) -> float:
    try:
        return quantities.flops_per_second(above_zero("peak_flops", peak_flops))
    except ValueError as error:
        raise ConfigError(f"peak_flops: {error}") from error


def peak_mistakes(gpu: str, precision: Mapping[str, float], peak_flops: float) -> list[str]:
    """What is wrong with a peak that the user gave, if the table knows the dense one and it is another."""
    try:
        right = effective_peak(precision, {name: dense_peak(gpu, name) for name in precision})
    except ConfigError:
        return []
    if _same(peak_flops, right):
        return []
    math_used, row = "+".join(precision), row_of(gpu)
    sparse = f"the sparse (2:4) peak of {math_used}, twice the dense one, which halves MFU"
    mistakes = [sparse] if _same(peak_flops, 2 * right) else []
    for name in gpu_models.PRECISIONS:
        other = row.peak_flops(name) if row else None
        if other is not None and name not in precision and _same(peak_flops, other):
            mistakes.append(f"the {name} peak, though the job computes in {math_used}")
    wrong = " or ".join(mistakes) or "none of its dense peaks"
    stated = f"the peak {peak_flops / 1e12:.1f} TFLOP/s of {gpu}"
    return [f"{stated} is {wrong}; dense {math_used} is {right / 1e12:.1f}"]


def ratio_mistakes(mfu: float, hfu: float, number: int) -> list[str]:
    """What a ratio shows about its own inputs."""
    if mfu > 1 or hfu > 1:
        which = "MFU" if mfu > 1 else "HFU"
        return [
            f"{which} over 100 % is impossible: the peak is too low (another precision, another GPU model), the "
            "throughput or FLOPs are counted twice, or GPUs are left out"
        ]
    if number > 1 and mfu < BANDS[0][0] / 5 and BANDS[0][0] <= mfu * number <= 1:
        whole = f"MFU would be {mfu * number:.1%} if the throughput were of one GPU"
        return [f"{whole}: is it of all {number} together?"]
    return []


def hint(count: Count, mfu: float, gpu: str) -> str | None:
    """KempnerForge's hint, only for the jobs of its bands: a dense model that trains on GPUs of the H100's class."""
    row = row_of(gpu)
    is_dense = count.parameters.total == count.parameters.active
    trains = any(line.backward for line in count.lines)
    if row is None or row.chip.arch != BANDS_FROM or not is_dense or not trains:
        return None
    return band(mfu)


def band(mfu: float) -> str:
    """KempnerForge's hint on an MFU."""
    return next(text for limit, text in BANDS if mfu < limit)


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * other


def above_zero(name: str, value: float) -> float:
    """The value as a float. Raises ConfigError unless it is a number above 0."""
    if isinstance(value, bool) or not math.isfinite(value) or value <= 0:
        raise ConfigError(f"{name}: {value!r} is not a number above 0")
    return float(value)
