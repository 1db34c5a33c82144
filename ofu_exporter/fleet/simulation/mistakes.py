"""Computes by how much a known mistake, or a counting convention, makes a job's reported MFU wrong."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.fleet.simulation.spec import ModelSpec, Reporting
from ofu_exporter.flops import conventions
from ofu_exporter.flops.causes import CauseFacts, CountedStep, Side, causes

Models = Mapping[str, ModelSpec]


def reported_over_right(report: Reporting, models: Models, gpu: str) -> float:
    """Reported MFU over right MFU. Raises ConfigError for a mistake that the job cannot make.

    `gpu` is the GPUs' name in NVML, for mistakes in the peak.
    """
    step = None
    if report.model is not None:
        if report.model not in models:
            raise ConfigError(f"no model {report.model!r} in models")
        step = counted_step(models[report.model])
    if report.convention is not None and step is not None:
        return _by_convention(report.convention, step)
    if report.mistake is not None:
        return _by_mistake(report, step, gpu)
    return 1.0


def counted_step(model: ModelSpec) -> CountedStep:
    """The step of one sequence, from which FLOPs are counted. Raises ConfigError."""
    return CountedStep(
        flops.read(model.config),
        flops.fixed(1, tokens=model.seq_len),
        flops.Counting(),
        flops.Passes(),
    )


def _by_convention(name: str, step: CountedStep) -> float:
    if name not in conventions.names():
        raise ConfigError(f"no convention {name!r}; known: {', '.join(conventions.names())}")
    counted = flops.count(step.model, step.lengths, flops.How(convention=name))
    return float(counted.model_flops_per_step) / step.flops()


def _by_mistake(report: Reporting, step: CountedStep | None, gpu: str) -> float:
    cause = next((each for each in causes() if each.slug == report.mistake), None)
    if cause is None or cause.side is not Side.REPORT:
        raise ConfigError(f"no mistake {report.mistake!r}; known: {', '.join(_slugs())}")
    recompute = None if report.recompute is None else flops.Recompute(report.recompute)
    facts = CauseFacts(step=step, gpu=gpu, precision={report.precision: 1.0}, recompute=recompute)
    for hypothesis in cause.hypotheses(facts):
        if hypothesis.miscount is None:
            return hypothesis.ratio
        if step is not None:
            return hypothesis.miscount(step).flops() / step.flops()
    missing = "" if step else " without a model"
    raise ConfigError(f"mistake {report.mistake!r} cannot be made of this job{missing}")


@cache
def _slugs() -> tuple[str, ...]:
    return tuple(cause.slug for cause in causes() if cause.side is Side.REPORT)
