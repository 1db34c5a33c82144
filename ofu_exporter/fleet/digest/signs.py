"""Reads what a report does not have of a job: its clock, GPUs slower than its others, and how busy memory was.

None of these is part of a sum. A value without a series stays unknown, and is not used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import itemgetter
from typing import NamedTuple

from ofu_exporter.fleet.changes.peer_hours import CLOCK as GPU_CLOCK
from ofu_exporter.fleet.changes.peer_hours import WORK as GPU_WORK
from ofu_exporter.fleet.changes.point import IDLE_OFU
from ofu_exporter.fleet.changes.series import HourReader
from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.answers import job_of
from ofu_exporter.fleet.history.fleet_history import ClusterJob, FleetHistory, JobHistory
from ofu_exporter.fleet.history.queries import (
    JOB,
    LOOKS,
    RAW_MEASURED,
    RAW_UTILIZED,
    WITHIN,
    Quantity,
    activity,
    holder_since,
)
from ofu_exporter.fleet.hours import ServerClock
from ofu_exporter.fleet.reports.job_result import SLOW, SLOW_HOURS
from ofu_exporter.fleet.reports.job_rows import names_of
from ofu_exporter.fleet.series import Series
from ofu_exporter.support.percent import ratio

BUSY = 0.05
"""Tensor activity from which on a clock counts: an idle GPU may lower its clock."""
_BEFORE = "6m15s"
"""Five minutes and a scrape: in the first ones of a job, activity is that of the job before, too."""


def _parts_of_ratio(above: str, below: str) -> str:
    """Numerator and denominator over an hour, with the label `of` to tell them apart, so that the query returns both
    or neither."""
    return f'label_replace({above}, "of", "above", "", "") or label_replace({below}, "of", "below", "", "")'


_ACTIVE = f"({activity('AGENTS', holder_since(_BEFORE))} > {BUSY})"
_RECORDED_ACTIVE = (
    f"((max by ({JOB}) (job:ofu_gpu_tensor_active:avg5m) > {BUSY}) and "
    f"max by ({JOB}) (job:ofu_gpu_tensor_active:avg5m offset {_BEFORE}))"
)


def _clock(utilized: str, measured: str, active: str) -> str:
    """What was utilized over activity x what was measured. At the beginning and end of a job, one is known before the
    other, so their sums are divided."""
    both = (
        f"{utilized} and on ({JOB}) ({active})",
        f"{measured} * on ({JOB}) {active} and on ({JOB}) {utilized}",
    )
    return _parts_of_ratio(*(f"sum_over_time(({each}){WITHIN})" for each in both))


CLOCK = Quantity(
    "clocks of jobs",
    _clock(
        f"max by ({JOB}) (job:ofu_job_utilization_seconds:rate5m)",
        f"max by ({JOB}) (job:ofu_job_gpu_seconds:rate5m)",
        _RECORDED_ACTIVE,
    ),
    _clock(RAW_UTILIZED, RAW_MEASURED, _ACTIVE),
)
"""SM clock / tensor clock of a job while it is busy: OFU is this times the activity."""


def _slower(of_gpus: Quantity) -> Quantity:
    """GPUs of a job below SLOW of its median in an hour, if three or more can be compared."""

    def counted(value: str) -> str:
        group = f"{JOB}, gpu_instance"
        active = f"(({value}) > {IDLE_OFU})"
        return (
            f"sum by ({group}) ({active} < bool on ({group}) group_left () "
            f"({SLOW} * quantile by ({group}) (0.5, {active}))) "
            f"and on ({group}) (count by ({group}) ({active}) > 2)"
        )

    return Quantity(
        f"slower {of_gpus.name}", counted(of_gpus.recorded), counted(f"({of_gpus.raw})")
    )


SLOWER = (_slower(GPU_WORK), _slower(GPU_CLOCK))
IDLE_GPUS = Quantity(
    "idle GPUs", f"({GPU_WORK.recorded}) < {IDLE_OFU}", f"({GPU_WORK.raw}) < {IDLE_OFU}"
)
"""GPUs that computed nothing in an hour."""

_DRAM_LABELS = 'DCGM_FI_PROF_DRAM_ACTIVE{GPU_I_ID=""}'
_BUSY_MEMORY = (
    f"(avg by ({JOB}) (max by (cluster, uuid) "
    f'(label_replace({_DRAM_LABELS}, "uuid", "$1", "UUID", "(.+)")) '
    f"* on (cluster, uuid) group_left (job_id) topk by (cluster, uuid) "
    f'(1, max by (cluster, uuid, job_id) (ofu_gpu_info{{job_id!="",gpu_instance=""}})))){WITHIN}'
)
DRAM = _parts_of_ratio(f"sum_over_time({_BUSY_MEMORY})", f"count_over_time({_BUSY_MEMORY})")
"""Share of cycles in which the memory of a job's GPUs was busy, from a dcgm-exporter on the same nodes.

The agents have no such series. A GPU is found by its uuid; MIG instances are left out.
"""


TARGETS = "max by (cluster, partition) (last_over_time(partition:ofu_target:ratio[1d]))"
"""What deploy/prometheus/rules/partition-targets.yaml records."""


class PartitionKey(NamedTuple):
    """A partition of one cluster, or of all where no cluster is named."""

    cluster: str
    partition: str


@dataclass(slots=True)
class JobSigns:
    clock: float | None = None
    """SM clock / tensor clock while it was busy."""
    dram_busy: float | None = None
    dram_hours: float = 0.0
    """Hours for which that is known."""
    compared: set[int] = field(default_factory=set)
    """Hours in which its GPUs could be compared."""
    slow: set[int] = field(default_factory=set)
    """Of these, hours in which one or more GPUs did clearly less than the others."""
    idle_gpus: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    """Hours in which a GPU, or a part of it, computed nothing, by its node and number."""

    @property
    def has_slow_gpus(self) -> bool | None:
        """Whether some GPU was slower than the others most of the time; None if nothing could be compared."""
        if not self.compared:
            return None
        return len(self.slow) >= SLOW_HOURS and 2 * len(self.slow) > len(self.compared)


class FleetSigns(NamedTuple):
    jobs: Mapping[ClusterJob, JobSigns]
    targets: Mapping[PartitionKey, float]
    """The target OFU of partitions in the site's rules."""


def read_signs(reader: ChunkReader, history: FleetHistory, with_dram: bool) -> FleetSigns:
    """The signs of all jobs and partitions. The reader's list of missing parts has what could not be read."""
    signs = _SignReader(reader, history)
    return FleetSigns(signs.of_jobs(with_dram), signs.targets())


class _SignReader(HourReader):
    def targets(self) -> dict[PartitionKey, float]:
        return {
            PartitionKey(labels.get("cluster", ""), labels.get("partition", "")): value
            for labels, value in self.values_at_end("targets", TARGETS)
        }

    def of_jobs(self, with_dram: bool) -> Mapping[ClusterJob, JobSigns]:
        signs: dict[ClusterJob, JobSigns] = defaultdict(JobSigns)
        for key, parts in _sums(self._owned(self._hourly(CLOCK))).items():
            signs[key].clock = ratio(parts["above"], parts["below"])
        for quantity in SLOWER:
            for key, job, one in self._owned(self._hourly(quantity)):
                if job is not None and len(job.models) < 2 and not one.labels.get("gpu_instance"):
                    _compare(signs[key], one, self._history.clock)
        for key, _, one in self._owned(self._hourly(IDLE_GPUS)):
            idle, node = signs[key].idle_gpus, one.labels.get("instance", "")
            place = node.rpartition(":")[0] or node, one.labels.get("gpu", "")
            idle.setdefault(place, set()).update(self._history.clock.hours_of(one.times))
        if with_dram:
            answer = self._reader.series("busy memory", DRAM, self._history.span)
            for key, parts in _sums(self._owned(answer)).items():
                signs[key].dram_busy = ratio(parts["above"], parts["below"])
                signs[key].dram_hours = parts["below"] / LOOKS
        return signs

    def _hourly(self, quantity: Quantity) -> Iterator[Series]:
        return chain.from_iterable(self.parts(quantity))

    def _owned(
        self, answer: Iterable[Series]
    ) -> Iterator[tuple[ClusterJob, JobHistory | None, Series]]:
        """The series of each job: of an id that several users had, one after the other, all keys have the user."""
        history = self._history
        for one in answer:
            key = job_of(one.labels)
            if not history.is_reused(key):
                yield key, history.jobs.get(key), one
                continue
            owned = [
                (history.owned(key, history.clock.hour_of(point[0])), point) for point in one.points
            ]
            for owner, points in groupby(owned, itemgetter(0)):
                if job := history.jobs.get(owner):
                    its = Series.of(one.labels, [point for _, point in points])
                    yield key._replace(user=names_of(job)["user"]), job, its


def _compare(signs: JobSigns, one: Series, clock: ServerClock) -> None:
    """Note the hours of a job that has one GPU model, and whole GPUs: others cannot be compared."""
    for time, value in one.points:
        hour = clock.hour_of(time)
        signs.compared.add(hour)
        if value > 0:
            signs.slow.add(hour)


def _sums(
    answer: Iterable[tuple[ClusterJob, JobHistory | None, Series]],
) -> Mapping[ClusterJob, Mapping[str, float]]:
    sums: dict[ClusterJob, dict[str, float]] = defaultdict(lambda: {"above": 0.0, "below": 0.0})
    for key, _, one in answer:
        sums[key][one.labels["of"]] += sum(value for _, value in one.points)
    return sums
