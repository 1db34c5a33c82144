"""Logs the changes between two snapshots that an operator needs to know about, one line for each."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from ofu_exporter.values.reasons import Reason, SchedulerReason
from ofu_exporter.values.snapshot import GpuView, SchedulerHealth, Snapshot

log = logging.getLogger(__name__)


def log_changes(before: Snapshot | None, after: Snapshot) -> None:
    """Log one line for every change whose time an operator may look for."""
    _log_pause(before, after)
    views_before = {view.gpu.key: view for view in before.gpus} if before else {}
    for view in after.gpus:
        old = views_before.get(view.gpu.key)
        if old is None or old.reason != view.reason:
            _log_reason(view)
        if view.share.basis == "instances" and (old is None or old.share.basis != "instances"):
            log.warning(
                "%s: its slices are not known; it counts as %.3f GPUs, an equal part of its GPU",
                _gpu_name(view),
                view.share.ratio,
            )
        if len(view.holders) > 1 and (old is None or old.holders != view.holders):
            holders = ", ".join(sorted(job.job_id for job in view.holders))
            log.warning(
                "%s is held by several jobs (%s): its OFU is credited to none",
                _gpu_name(view),
                holders,
            )
    for job, device in after.unknown_devices:
        if before is None or (job, device) not in before.unknown_devices:
            log.warning("job %s holds %r, which is not a GPU measured here", job[1], device)
    _log_schedulers(before.schedulers if before else (), after.schedulers)


def _log_pause(before: Snapshot | None, after: Snapshot) -> None:
    was, is_now = (
        (shown.paused, shown.released) if shown else (False, False) for shown in (before, after)
    )
    if was == is_now:
        return
    if after.released:
        log.warning("paused: no GPU, driver or host engine is held. %s", Reason.PAUSED.advice)
    elif after.paused:
        log.warning("not paused yet: a call that does not return still holds a GPU")
    else:
        log.info("the pause is over")


def _log_schedulers(before: Sequence[SchedulerHealth], after: Sequence[SchedulerHealth]) -> None:
    health_before = {health.name: health for health in before}
    for health in after:
        old = health_before.get(health.name)
        if old is not None and (old.reason, _kind(old)) == (health.reason, _kind(health)):
            continue
        if health.reason is None:
            log.info("scheduler %s says who owns the GPUs", health.name)
        elif health.reason is not SchedulerReason.STARTING:
            no_job_yet = health.reason is SchedulerReason.NO_JOB_YET
            log.log(
                logging.INFO if no_job_yet else logging.WARNING,
                "scheduler %s does not say who owns the GPUs: %s. %s",
                health.name,
                health.detail or health.reason.value,
                health.reason.advice,
            )


def _kind(health: SchedulerHealth) -> str:
    """The detail without its numbers, which change while the problem stays the same."""
    return re.sub(r"\d+", "", health.detail)


def _gpu_name(view: GpuView) -> str:
    instance = f"/{view.gpu.instance}" if view.gpu.instance else ""
    return f"GPU {view.gpu.index} ({view.gpu.uuid}{instance})"


def _log_reason(view: GpuView) -> None:
    name = _gpu_name(view)
    if view.reason is None:
        log.info("%s is measured", name)
    elif view.reason not in (Reason.STARTING, Reason.PAUSED):
        detail = f": {view.detail}" if view.detail else ""
        log.warning(
            "%s is not measured (%s%s). %s", name, view.reason.value, detail, view.reason.advice
        )
