"""Makes the way from the installed GPU-hours to what jobs used of the peak: what was lost at each step, and to what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ofu_exporter.fleet.reports.job_rows import times
from ofu_exporter.fleet.reports.result import FunnelStep, GroupRow, SumsRow, WaterfallStep
from ofu_exporter.support.percent import percent
from ofu_exporter.values.losses import Loss

PAGE = "docs/where.md"
BEFORE_JOBS = ("free", "unclaimed", "unknown", "unmeasured")
"""Steps of the funnel that are lost before any job has a part in them."""
ADVICE: Mapping[Loss, str] = {
    Loss.CLOCK: "Power or heat held the clock down: look at limits and cooling.",
    Loss.NO_TENSOR: "Memory, communication or other arithmetic: fused kernels, larger batches and overlap help.",
    Loss.EMPTY_SMS: "Small grids and launch gaps: larger batches, CUDA graphs, fewer and larger kernels.",
    Loss.IDLE: "GPUs wait for their host: more data loader workers, asynchronous checkpoints, the slowest rank.",
    Loss.ENGINE_WITHOUT_TENSOR: "Collect SM activity too (DCGM_FI_PROF_SM_ACTIVE) to tell these two apart.",
    Loss.EMPTY_OR_IDLE: "The engine's activity (DCGM_FI_PROF_GR_ENGINE_ACTIVE) would tell these two apart.",
    Loss.WITHOUT_TENSOR: "Engine and SM activity would tell these three apart.",
    Loss.UNSPLIT: "Keep ofu_job_lost_seconds_total, or what the rules make of it, as long as the other series.",
}


def lost_hours(row: SumsRow) -> dict[Loss, float]:
    """The GPU-hours that some jobs lost, by part; only the parts that are known, the largest first."""
    by_loss = {loss: getattr(row, f"lost_{loss.value}_gpu_hours") for loss in Loss}
    measured = {loss: hours for loss, hours in by_loss.items() if hours is not None}
    return dict(sorted(measured.items(), key=lambda part: -part[1]))


def step_words(step: WaterfallStep) -> str:
    """The name as people read it."""
    return Loss(step.name).words if step.name in set(Loss) else step.name


def is_shown(step: WaterfallStep) -> bool:
    """Whether a step is worth a line: the ends are, and what is not 0."""
    return bool(step.gpu_hours) or step.name in ("installed", "delivered")


def largest_loss(total: GroupRow) -> str:
    """What jobs lost most of the peak to, and what usually helps; empty where no part is known."""
    loss, hours = next(iter(lost_hours(total).items()), (Loss.UNSPLIT, 0.0))
    if loss is Loss.UNSPLIT or hours <= 0:
        return ""
    share = percent(hours / total.observed_gpu_hours)
    return f"Jobs lost most to {loss.words} ({share} of their measured GPU-hours). {ADVICE[loss]} See {PAGE}."


def waterfall(funnel: Sequence[FunnelStep], total: GroupRow) -> list[WaterfallStep]:
    """The steps. What GPUs did that were not held by exactly one job is no part of what is delivered."""
    by_name: dict[str, FunnelStep] = {step.name: step for step in funnel}
    base = by_name["installed"].gpu_hours
    price = None if total.cost is None else total.cost / (total.held_gpu_hours or 1.0)
    of_jobs = [
        (loss.value, loss.meaning, hours, ADVICE[loss]) for loss, hours in lost_hours(total).items()
    ]
    delivered = ("delivered", "what jobs used of the peak: OFU", total.effective_gpu_hours, "")
    return [
        *_of_funnel([by_name["installed"]]),
        *_of_funnel(by_name[name] for name in BEFORE_JOBS),
        *(
            WaterfallStep(
                name=name,
                meaning=meaning,
                gpu_hours=hours,
                share=hours / base if base else None,
                cost=times(hours, price),
                advice=advice,
                page=PAGE,
            )
            for name, meaning, hours, advice in (*of_jobs, delivered)
        ),
    ]


def _of_funnel(steps: Iterator[FunnelStep] | Sequence[FunnelStep]) -> Iterator[WaterfallStep]:
    for step in steps:
        yield WaterfallStep(
            name=step.name,
            meaning=step.meaning,
            gpu_hours=step.gpu_hours,
            share=step.share,
            cost=step.cost,
            advice="",
            page="docs/fleet.md",
        )
