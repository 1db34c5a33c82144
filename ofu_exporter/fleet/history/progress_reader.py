"""Reads how much of each job's time was no progress: what the rules of job-gpus.yaml and hours.yaml keep.

Where they kept nothing, GPUs are looked at twelve times an hour, which is rough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ofu_exporter.fleet.history.answers import HistoryAnswers, job_of
from ofu_exporter.fleet.history.fleet_history import ClusterJob
from ofu_exporter.fleet.history.progress_sums import NoProgress, ProgressSums
from ofu_exporter.fleet.history.queries import (
    GPU,
    HAS,
    JOB,
    KNOWN,
    LOOKS,
    NODE_JOB,
    WITHIN,
    Quantity,
)
from ofu_exporter.fleet.history.queries import over_nodes as summed
from ofu_exporter.fleet.series import Series

_KEPT = "[59m59s999ms]"
_IDLE = (
    f'max by ({GPU}) (rate(ofu_gpu_lost_seconds_total{{part="idle",AGENTS}}[2m15s])) '
    f"/ (max by ({GPU}) (rate(ofu_gpu_observed_seconds_total{{AGENTS}}[2m15s])) > 0)"
)
_STANDS = f"({_IDLE} > bool 0.9) * on ({GPU}) group_left (job_id) topk by ({GPU}) (1, {HAS})"
_STANDING = f"sum by ({JOB}) ({_STANDS} * on ({GPU}) group_left () {KNOWN})"
_WATCHED = f"sum by ({JOB}) (({_STANDS} >= bool 0) * on ({GPU}) group_left () {KNOWN})"
_COUNTED = summed(
    'increase(ofu_job_lost_progress_gpu_seconds_total{reason=~"starting|done_again",CLUSTER}[1h])',
    f"{JOB}, reason",
)
_PAUSED = summed(
    'rate(ofu_job_lost_progress_gpu_seconds_total{reason=~"evaluation|checkpoint",CLUSTER}[2m15s])',
    f"{JOB}, reason",
)
_STARTING = summed(
    'increase(ofu_job_lost_progress_gpu_seconds_total{reason="starting",CLUSTER}[1h])'
)


def _looks(expression: str, reason: str, less: str = "") -> str:
    hours = f"sum by ({JOB}) (sum_over_time(({expression}){WITHIN})) / {LOOKS}"
    if less:
        hours = f"clamp_min({hours} - ({less} / 3600 or 0 * {hours}), 0)"
    return f'label_replace({hours}, "reason", "{reason}", "", "")'


LOST = Quantity(
    "no progress",
    f"max by ({JOB}, reason) (last_over_time(job:lost_progress_gpu_hours:sum1h{_KEPT}))",
    f"{_COUNTED} / 3600 or {_looks(_STANDING, 'held_idle', _STARTING)} or "
    + _looks(f"{_WATCHED} * max by ({JOB}) ({_STANDS}) - {_STANDING}", "alone")
    + f" or sum_over_time(({_PAUSED} unless on ({JOB}) {_STANDING} > 0){WITHIN}) / {LOOKS}",
)
"""GPU-hours of a job that were no progress, by reason. Of every job whose GPUs are watched there is held_idle."""
UTILIZED = Quantity(
    "used without progress",
    f"max by ({JOB}) (last_over_time(job:lost_progress_utilized_gpu_hours:sum1h{_KEPT}))",
    f"0 * {summed('increase(ofu_job_utilization_seconds_total{CLUSTER}[1h])')}",
)
"""GPU-hours at the full peak in these; not known by looks."""
WATCHED = Quantity(
    "watched",
    f"(max by ({JOB}) (last_over_time(job:watched_gpu_hours:sum1h{_KEPT})) or "
    f"max by ({JOB}) (last_over_time(job:held_gpu_hours:increase1h{_KEPT}))) and on ({JOB}) "
    f'last_over_time(job:lost_progress_gpu_hours:sum1h{{reason="held_idle"}}{_KEPT})',
    f"sum by ({JOB}) (sum_over_time(({_WATCHED}){WITHIN})) / {LOOKS}",
)
"""GPU-hours of which is known whether a kernel ran; rules of before did not tell them from those held."""
STEP = Quantity(
    "step",
    f"max by ({JOB}) (last_over_time(job:ofu_job_step:max1h{_KEPT}))",
    f"max by ({JOB}) (max_over_time(ofu_job_step{{CLUSTER}}[1h]))",
)
_RESTARTS = "ofu_job_restarts_total{CLUSTER}"
_ROSE = (
    f"max by ({JOB}) (max_over_time({_RESTARTS}[1h])) - (max by ({JOB}) (max_over_time({_RESTARTS}[1h] offset 1h)) "
    f"or min by ({JOB}) (min_over_time({_RESTARTS}[1h]) unless on ({NODE_JOB}) "
    "rate(ofu_job_held_gpu_seconds_total{CLUSTER}[2m15s]) > 0))"
)
RESTARTS = Quantity(
    "restarts",
    f"max by ({JOB}) (last_over_time(job:restarts:increase1h{_KEPT}))",
    f'max by ({JOB}) (label_replace({_ROSE}, "instance", "all", "", "") or increase({_RESTARTS}[1h]))',
)
"""As hours.yaml has it."""
ASKED = (LOST, UTILIZED, WATCHED, STEP, RESTARTS)


class ProgressReader(HistoryAnswers):
    """Reads it into a history whose jobs are known."""

    def read(self) -> None:
        for answers in self.together("progress", ASKED):
            self._add(answers)

    def _add(self, answers: Sequence[list[Series]]) -> None:
        lost, used, seen, steps, restarts = answers
        watched = self._add_lost(lost)
        for job, hour, value in self.values_of(seen, job_of):
            if (job, hour) in watched:
                self._sums(job, hour).held += value
        for job, hour, value in self.values_of(used, job_of):
            self._sums(job, hour).utilized += value
        for job, hour, value in self.values_of(steps, job_of):
            sums = self._sums(job, hour)
            sums.step = max(sums.step or 0.0, value)
        for job, hour, value in self.values_of(restarts, job_of):
            sums, rose = self._sums(job, hour), max(0.0, value)  # it falls with an agent's state
            sums.restarts = (sums.restarts or 0.0) + rose
            if round(rose):
                sums.restarted[hour] = rose

    def _add_lost(self, lost: list[Series]) -> set[tuple[ClusterJob, int]]:
        """Gives the hours of jobs in which their engines were watched."""
        watched: set[tuple[ClusterJob, int]] = set()
        for (*key, reason), hours in self.largest(lost, _reason_of).items():
            for hour, value in sorted(hours.items()):
                self._sums(ClusterJob(*key), hour).lose(reason, hour, value)
                if reason == NoProgress.HELD_IDLE:
                    watched.add((ClusterJob(*key), hour))
        return watched

    def _sums(self, key: ClusterJob, hour: int) -> ProgressSums:
        return self._history.progress.setdefault(self._history.owned(key, hour), ProgressSums())


def _reason_of(labels: Mapping[str, str]) -> tuple[str, str, str, str]:
    return (*job_of(labels), labels.get("reason", ""))
