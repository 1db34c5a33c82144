"""Computes the MFU of a report against the right dense peak, and the FLOPs per token of the model that it carries.

OFU is a share of the dense peak of the precision in use, so an MFU against any other peak is converted before the two
are compared. Equation numbers are those of arXiv:2605.20799.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import recipes as recipe_format
from ofu_exporter.flops.config_file import READY, parsed_config, ready_recipes
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.flops.mfu import SAME, effective_peak, peak_mistakes, ratio_mistakes
from ofu_exporter.flops.recipes import Recipe
from ofu_exporter.flops.step_count import complete
from ofu_exporter.hardware.gpu_models import find_row
from ofu_exporter.reports.messages import WAYS, MfuReport, ModelBody, out_of_range
from ofu_exporter.support.small_files import read_small
from ofu_exporter.values import quantities
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.snapshot import GpuView

ASSUMED = ("bf16", "fp16")
"""Precision of a job that does not report one: the first of these that its GPUs are rated in."""
MOST_RECIPE_BYTES = 256 << 10
MOST_RECIPES = 16
"""Most recipes that are remembered."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs of a job on this node: what a report needs to know of them."""

    number: int = 0
    name: str = ""
    """The GPUs' name in NVML; "" where their names differ."""
    present: frozenset[str] = frozenset()
    """The names of all GPUs of the node, of other jobs too."""
    peaks: Mapping[str, float] = field(default_factory=dict)
    """Dense FLOP/s of one GPU, in each precision that all of them have; the mean where they differ."""

    @property
    def is_in_table(self) -> bool:
        """Whether the GPUs are of one model whose peaks the table has."""
        return bool(self.peaks) and find_row(Gpu(index="", uuid="", name=self.name)) is not None


LEAST_OF_TOKEN = 1e5
"""FLOPs of a token: 6 for each of 16,000 parameters."""


class Stated(NamedTuple):
    """The MFU of a report against the right peak."""

    mfu: float | None
    """MFU against `peak_flops`; None if the report has only facts."""
    peak_flops: float | None
    """Dense FLOP/s of one GPU, effective over the precisions (eq. 12); None where it is not known."""
    warnings: tuple[str, ...]


def hardware_of(views: Iterable[GpuView], present: frozenset[str] = frozenset()) -> Hardware:
    """The GPUs of a job, for its reports; `present` are the names of all GPUs of the node."""
    gpus = list(views)
    rated = [view.rating.peak_flops if view.rating else {} for view in gpus]
    common = set.intersection(*({*peaks} for peaks in rated)) if rated else set()
    peaks = {name: math.fsum(each[name] for each in rated) / len(rated) for name in sorted(common)}
    names = {view.gpu.name for view in gpus}
    name = names.pop() if len(names) == 1 else ""
    return Hardware(len(gpus), name, present, peaks)


def stated_mfu(report: MfuReport, hardware: Hardware, per_token: float | None = None) -> Stated:
    """The MFU of a report; `per_token` are the FLOPs of a token of its model, where it was counted before.

    Raises ReportError, which names the field that cannot be used.
    """
    shares, warnings = _shares(report, hardware), list[str]()
    peak = _peak(shares, hardware)
    stated = None if report.peak_tflops is None else report.peak_tflops * 1e12
    if peak is None:
        peak = stated
    elif stated is not None and abs(stated - peak) > SAME * peak:
        warnings += peak_mistakes(hardware.name, shares, stated)
        warnings.append(f"the MFU is converted to the dense peak of {peak / 1e12:.1f} TFLOP/s")
    mfu = _mfu(report, hardware, peak, stated, warnings, per_token)
    if mfu is None:
        return Stated(None, peak, tuple(warnings))
    if not mfu <= quantities.MOST:
        stated_field = next(name for name in WAYS if getattr(report, name) is not None)
        detail = f"makes an MFU of {mfu:.3g} on this hardware, which is impossible: it is a ratio, 0.4 and not 40"
        raise out_of_range(stated_field, detail)
    if report.flops_per_token is not None and report.flops_per_token < LEAST_OF_TOKEN:
        warnings.append(
            f"flops_per_token: {report.flops_per_token:g} is fewer than any model needs; in GFLOPs it is "
            f"{report.flops_per_token * 1e9:g}"
        )
    if report.gpus is not None or mfu > 1:
        warnings += ratio_mistakes(mfu, mfu, report.gpus or 1)
    return Stated(mfu, peak, tuple(warnings))


def with_recipe(report: MfuReport, folder: Path | None) -> tuple[MfuReport, str | None]:
    """The report with the recipe that it names, and why there is none. Raises ReportError where it needs one."""
    model = report.model
    if model is None or not isinstance(model.recipe, str):
        return report, None
    try:
        recipe = named_recipe(folder, model.recipe)
    except ConfigError as error:
        if report.counts_model:
            raise out_of_range("model", str(error)) from error
        return report.model_copy(update={"model": None}), f"model: {error}; it explains nothing"
    with_it = model.model_copy(update={"recipe": recipe})
    return report.model_copy(update={"model": with_it}), None


def named_recipe(folder: Path | None, name: str) -> Recipe:
    """The package's own recipe of a name, otherwise that of the site's folder, as it is now.

    Raises ConfigError, which says what is missing.
    """
    folder = READY if name in ready_recipes() else folder
    if folder is None:
        raise ConfigError(f"recipe {name!r}: this agent has no folder of recipes (recipe_folder)")
    path = folder / f"{name}.json"
    try:
        text = read_small(path, "the recipe", MOST_RECIPE_BYTES)
    except ConfigError as error:  # where the site keeps its files is nothing that a job has to know
        raise ConfigError(str(error).replace(str(path), path.name)) from error
    return _recipe(text, path.name)


@lru_cache(MOST_RECIPES)
def _recipe(text: str, name: str) -> Recipe:
    fields = parsed_config(text, f"the recipe {name}")
    try:
        return recipe_format.read(fields)
    except ConfigError as error:
        raise ConfigError(f"the recipe {name}: {error}") from error


def _shares(report: MfuReport, hardware: Hardware) -> Mapping[str, float]:
    shares = report.shares()
    if shares is None:
        assumed = next((name for name in ASSUMED if name in hardware.peaks), ASSUMED[0])
        return {assumed: 1.0}
    if abs(math.fsum(shares.values()) - 1) > 1e-6:
        raise out_of_range(
            "precision", f"the shares add up to {math.fsum(shares.values()):.6g}, not 1"
        )
    return shares


def _peak(shares: Mapping[str, float], hardware: Hardware) -> float | None:
    """The peak to divide by; None where the GPUs have no known peak. Raises ReportError for a precision they lack."""
    if not hardware.peaks:
        return None
    if missing := [name for name in shares if name not in hardware.peaks]:
        raise out_of_range(
            "precision",
            f"{hardware.name or 'the GPUs'}: no known dense peak in {missing[0]}; "
            f"known: {', '.join(hardware.peaks)}",
        )
    return effective_peak(shares, hardware.peaks)


def _mfu(
    report: MfuReport,
    hardware: Hardware,
    peak: float | None,
    stated: float | None,
    warnings: list[str],
    per_token: float | None,
) -> float | None:
    if report.mfu is not None:
        return report.mfu * (stated / peak) if stated and peak else report.mfu
    if all(getattr(report, name) is None for name in WAYS):
        return None  # it has only facts
    if peak is None:
        raise out_of_range("peak_tflops", "is needed: the peak of these GPUs is not known")
    if report.tflops_per_gpu is not None:
        return report.tflops_per_gpu * 1e12 / peak
    if not report.gpus and not hardware.number:
        raise out_of_range("gpus", "is needed: the job has none that this agent measures")
    if report.gpus is None:
        warnings.append(
            f"gpus is not given: assuming that the job has only its {hardware.number} on this node"
        )
    return _flops_per_second(report, per_token) / ((report.gpus or hardware.number) * peak)


def _flops_per_second(report: MfuReport, per_token: float | None) -> float:
    if report.model_flops_per_second is not None:
        return report.model_flops_per_second
    assert report.tokens_per_second is not None
    if report.flops_per_token is not None:
        per_token = report.flops_per_token
    elif report.model is not None:
        per_token = flops_per_token(report.model)
    if per_token is None:
        raise out_of_range("tokens_per_second", "needs flops_per_token or model")
    return report.tokens_per_second * per_token


MODELS = 8
"""Most counted models that are remembered."""
UNCOUNTABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors that a senseless configuration can cause in the count."""


def flops_per_token(model: ModelBody) -> float:
    """Model FLOPs of a token. Raises ReportError for a model that cannot be counted."""
    return _flops_per_token(model.model_dump_json())


def counted_step(model: ModelBody) -> CountedStep:
    """A step of a model, to count FLOPs from. Raises ReportError for a model that cannot be counted."""
    return _counted_step(model.model_dump_json())


@lru_cache(MODELS)
def _flops_per_token(model: str) -> float:
    step = _counted_step(model)
    tokens = sum(complete(step.model, step.lengths).tokens(name) for name in step.model.counted)
    return step.flops() / float(tokens)


@lru_cache(MODELS)
def _counted_step(model: str) -> CountedStep:
    """The step of a model in JSON: text, since a cache needs a key."""
    body = ModelBody.model_validate_json(model)
    try:
        read = _model(body)
        lengths = flops.fixed(body.batch_size, **{**read.usual, **body.streams()})
        complete(read, lengths)
        step = CountedStep(
            read,
            lengths,
            flops.Counting(predictions=body.mtp),
            flops.Passes(
                forward_only=body.forward_only,
                frozen=frozenset(body.freeze),
                lora=None if body.lora_rank is None else flops.Lora(body.lora_rank),
            ),
        )
        counted = step.flops()
    except ConfigError as error:
        raise out_of_range("model", str(error)) from error
    except UNCOUNTABLE as error:
        # The configuration is the sender's text, so any error that it causes is the sender's.
        raise out_of_range(
            "model", f"cannot be counted: {type(error).__name__}: {error}"
        ) from error
    if not 0 < counted < math.inf:
        raise out_of_range("model", "has no FLOPs at these lengths: give flops_per_token")
    return step


def _model(body: ModelBody) -> flops.Model:
    """The model of a body. Raises ConfigError."""
    if isinstance(body.recipe, Recipe):
        return body.recipe.model()
    if body.config is None:
        raise ConfigError(f"recipe {body.recipe!r} was not looked up")
    return flops.read(body.config, body.ignore_fields)
