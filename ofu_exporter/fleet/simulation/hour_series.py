"""Makes the series of rules that look back for hours: the sums of every hour, and the past of a job or cluster."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ofu_exporter.fleet.simulation.job_series import GRACE, LOST, REMEMBERED, JobSeries
from ofu_exporter.fleet.simulation.observed import GrowingSum
from ofu_exporter.fleet.simulation.series import ABSENT, RecordedSeries, Totals, divided
from ofu_exporter.fleet.simulation.sum_series import OWNER, TARGET, GpuSums

HOUR = 60
BASELINE_STEP = 3
"""Minutes between two evaluations of the rules that look back a day."""
DAY = 1440
IDLE = 0.001
"""An OFU below this counts as 0 for the rule of idle GPUs."""
HOURLY = (
    "held_gpu_hours:increase1h",
    "observed_gpu_hours:increase1h",
    "utilized_gpu_hours:increase1h",
    "compared_gpu_hours:increase1h",
    "compared_mfu_gpu_hours:increase1h",
    "compared_utilized_gpu_hours:increase1h",
    "wasted_gpu_hours:increase1h",
)

LOST_HOURS = "lost_gpu_hours:increase1h"
IDLE_MINUTES = 120
"""Over which the rule of idle engines looks back."""


class HourSums:
    """The hours of all jobs, and their sums by owner."""

    def __init__(self, cluster: str, length: int) -> None:
        self._cluster = cluster
        self._length = length
        self._hours = length // HOUR
        self._owners: dict[tuple[str, ...], dict[str, Totals]] = {}
        self._lost: dict[tuple[str, ...], dict[str, Totals]] = {}

    def job(self, series: JobSeries) -> Iterator[RecordedSeries]:
        """The hours of one job, which are added to its owner's."""
        job, labels = series.job, series.labels
        first = job.start // HOUR + 1
        last = min((job.end + GRACE + REMEMBERED - 1) // HOUR + 1, self._hours)
        if last < first:
            return
        sums = [job.held, job.observed, job.used]
        if job.reported:
            sums += [job.compared, job.compared_mfu, job.compared_used]
        hours = range(first, last + 1)
        values = {name: _hours(each, hours) for name, each in zip(HOURLY, sums, strict=False)}
        observed, used = values[HOURLY[1]], values[HOURLY[2]]
        values[HOURLY[6]] = _wasted(observed, used)
        owner = tuple(labels[label] for label in OWNER)
        totals = self._owners.setdefault(owner, {})
        for name, each in values.items():
            totals.setdefault(name, Totals(self._hours + 1)).add(
                RecordedSeries("", {}, first, each)
            )
        values["ofu_job_info:topk1_1h"] = array("d", [1.0]) * len(hours)
        values["ofu:ratio_increase1h"] = divided(used, observed)
        if job.reported:
            values["mfu:ratio_increase1h"] = divided(values[HOURLY[4]], values[HOURLY[3]])
        yield from series.models(hours)
        lost = {part: _hours(sums, hours) for part, sums in job.lost.items()}
        for part, each in lost.items():
            of_owner = self._lost.setdefault(owner, {}).setdefault(part, Totals(self._hours + 1))
            of_owner.add(RecordedSeries("", {}, first, each))
        if lost:
            values["gained_gpu_hours:increase1h"] = _hours(job.gained, hours)
        told = [series.has_told(HOUR * hour - 59, HOUR * hour) for hour in hours]
        for named, is_wanted in series.named():
            for name, each in values.items():
                kept = _where(each, [one == is_wanted for one in told])
                yield RecordedSeries(f"job:{name}", named, HOUR * first, kept, HOUR)
            for part, each in lost.items():
                kept = _where(each, [one == is_wanted for one in told])
                labels = {**named, "part": part}
                yield RecordedSeries(f"job:{LOST_HOURS}", labels, HOUR * first, kept, HOUR)

    def series(self) -> Iterator[RecordedSeries]:
        """The hours of owners, of users, accounts, partitions and namespaces, and the MFU of the cluster."""
        for owner, sums in sorted(self._owners.items()):
            labels = {"cluster": self._cluster, **dict(zip(OWNER, owner, strict=True))}
            for name, totals in sums.items():
                yield self._hourly(f"owner:{name}", labels, totals.values)
            for part, totals in self._lost.get(owner, {}).items():
                yield self._hourly(f"owner:{LOST_HOURS}", {**labels, "part": part}, totals.values)
        for place, label in enumerate(OWNER):
            for value, sums in sorted(self._by(place).items()):
                labels = {"cluster": self._cluster, label: value}
                yield self._hourly(f"{label}:ofu:ratio_increase1h", labels, _ofu(sums))
                if HOURLY[3] in sums:
                    yield self._hourly(f"{label}:mfu:ratio_increase1h", labels, _mfu(sums))
        for sums in self._by(None).values():
            if HOURLY[3] in sums:
                labels = {"cluster": self._cluster}
                yield self._hourly("cluster:mfu:ratio_increase1h", labels, _mfu(sums))

    def _by(self, place: int | None) -> dict[str, dict[str, Totals]]:
        found: dict[str, dict[str, Totals]] = {}
        for owner, sums in self._owners.items():
            value = "" if place is None else owner[place]
            if place is None or value:
                for name, totals in sums.items():
                    each = found.setdefault(value, {}).setdefault(name, Totals(self._hours + 1))
                    each.add(RecordedSeries("", {}, 0, totals.values))
        return found

    def gpus(self, gpus: GpuSums) -> Iterator[RecordedSeries]:
        """The hours of GPU models and of the cluster, held by a job or not."""
        sums = [Totals(self._hours + 1) for _ in range(2)]
        cluster = {"cluster": self._cluster}
        for model in gpus.models:
            # Means over 5 minutes, every 5 minutes: their sum is the integral.
            observed, used = (
                self._of_rates(each) for each in (gpus.measured(model), gpus.used(model))
            )
            for totals, values in zip(sums, (observed, used), strict=True):
                totals.add(RecordedSeries("", {}, 0, values))
            labels = {**cluster, "model": model}
            yield from self._gpu_hours("model", labels, observed, used)
            yield from self._jobless(labels, self._of_rates(gpus.jobless(model)))
        observed, used = (totals.values for totals in sums)
        yield from self._gpu_hours("cluster", cluster, observed, used)
        yield self._hourly("cluster:wasted_gpu_hours:increase1h", cluster, _wasted(observed, used))

    def _gpu_hours(
        self, level: str, labels: Mapping[str, str], observed: array[float], used: array[float]
    ) -> Iterator[RecordedSeries]:
        yield self._hourly(f"{level}:observed_gpu_hours:increase1h", labels, observed)
        yield self._hourly(f"{level}:utilized_gpu_hours:increase1h", labels, used)
        yield self._hourly(f"{level}:ofu:ratio_increase1h", labels, divided(used, observed))

    def _jobless(
        self, labels: Mapping[str, str], observed: array[float]
    ) -> Iterator[RecordedSeries]:
        """GPUs that no job had: here all work is a job's."""
        nothing = array("d", (each - each for each in observed))
        for name, values in (("observed", observed), ("utilized", nothing), ("idle", observed)):
            yield self._hourly(f"model:jobless_{name}_gpus:avg1h", labels, values)

    def _of_rates(self, rates: array[float]) -> array[float]:
        step = 5
        hours = array("d", [ABSENT])
        for hour in range(1, self._hours + 1):
            ends = range(HOUR * (hour - 1) + step, HOUR * hour + 1, step)
            hours.append(sum(rates[end] for end in ends) * step / HOUR)
        return hours

    @staticmethod
    def _hourly(name: str, labels: Mapping[str, str], values: array[float]) -> RecordedSeries:
        return RecordedSeries(name, labels, 0, values, HOUR)


def _hours(sums: GrowingSum, hours: range) -> array[float]:
    return array("d", (sums.grown(HOUR * hour, HOUR) / 3600 for hour in hours))


def _where(values: array[float], mask: Sequence[bool]) -> array[float]:
    return array("d", (v if is_kept else ABSENT for v, is_kept in zip(values, mask, strict=True)))


def _wasted(observed: array[float], used: array[float]) -> array[float]:
    return array("d", (o * TARGET - u for o, u in zip(observed, used, strict=True)))


def _ofu(sums: Mapping[str, Totals]) -> array[float]:
    return divided(sums[HOURLY[2]].values, sums[HOURLY[1]].values)


def _mfu(sums: Mapping[str, Totals]) -> array[float]:
    return divided(sums[HOURLY[4]].values, sums[HOURLY[3]].values)


def baselines(series: Sequence[RecordedSeries], length: int) -> Iterator[RecordedSeries]:
    """What a job did before, from its series of each minute."""
    by_name = {one.name: one for one in series}
    used = by_name["job:ofu_job_utilization_seconds:rate5m"]
    observed = by_name["job:ofu_job_gpu_seconds:rate5m"]
    pair = (_sums(used), _sums(observed))
    first, last = used.first, used.first + len(used.values) - 1
    minutes = range(-(-first // BASELINE_STEP) * BASELINE_STEP, length + 1, BASELINE_STEP)
    half_hour = [_before(pair, t, 0, 30) if t <= last + 30 else ABSENT for t in minutes]
    name = "job:ofu:ratio_sum30m"
    yield RecordedSeries(name, used.labels, minutes.start, array("d", half_hour), BASELINE_STEP)
    day = [_before(pair, t, 30, DAY) if first <= t - 90 <= last + 4 else ABSENT for t in minutes]
    name = "job:ofu:ratio_sum1d"
    yield RecordedSeries(name, used.labels, minutes.start, array("d", day), BASELINE_STEP)


def engine_idle(series: Sequence[RecordedSeries], length: int) -> Iterator[RecordedSeries]:
    """For which share of the last two hours no kernel of a job ran, once it is that old."""
    by_part = {one.labels["part"]: one for one in series if one.name == LOST}
    observed = next(one for one in series if one.name == "job:ofu_job_gpu_seconds:rate5m")
    if "idle" not in by_part:
        return
    pair = (_sums(by_part["idle"]), _sums(observed))
    first = observed.first + IDLE_MINUTES
    until = min(first + len(observed.values), length + 1)
    values = array("d", (_before(pair, t, 0, IDLE_MINUTES) for t in range(first, until)))
    yield RecordedSeries("job:engine_idle:ratio2h", observed.labels, first, values)


def cluster_baselines(series: Iterable[RecordedSeries], length: int) -> Iterator[RecordedSeries]:
    """What all jobs of the cluster did before, from its series of each minute."""
    by_name = {one.name: one for one in series}
    used = by_name.get("cluster:ofu_job_utilization_seconds:rate5m")
    observed = by_name.get("cluster:ofu_job_gpu_seconds:rate5m")
    if used is None or observed is None:
        return
    pair = (_sums(used), _sums(observed))
    minutes = range(0, length + 1, BASELINE_STEP)
    hour = array("d", (_before(pair, t, 0, HOUR) for t in minutes))
    yield RecordedSeries("cluster:job_ofu:ratio_sum1h", used.labels, 0, hour, BASELINE_STEP)
    there = observed.values
    day = (
        _before(pair, t, HOUR, DAY) if t >= 360 and there[t - 360] == there[t - 360] else ABSENT
        for t in minutes
    )
    name = "cluster:job_ofu:ratio_sum1d"
    yield RecordedSeries(name, used.labels, 0, array("d", day), BASELINE_STEP)


def _sums(series: RecordedSeries) -> GrowingSum:
    values = array("d", [0.0])
    for value in series.values:
        values.append(values[-1] + (value if value == value else 0.0))  # noqa: PLR0124
    return GrowingSum(series.first - 1, values)


def _before(pair: tuple[GrowingSum, GrowingSum], minute: int, offset: int, minutes: int) -> float:
    """The quotient of two sums of samples over a range that ended `offset` minutes ago."""
    over, under = (sums.grown(minute - offset, minutes + 1) for sums in pair)
    return over / under if under > 0 else ABSENT


def idle_gpus(job: JobSeries, ofu: RecordedSeries, length: int) -> Iterator[RecordedSeries]:
    """GPUs of a job that have been idle for an hour, from its median OFU, because all of its GPUs do the same."""
    counts = job.job.devices
    start, end = job.job.start, job.job.end
    idle = _sums(
        RecordedSeries("", {}, ofu.first, array("d", (float(v < IDLE) for v in ofu.values)))
    )
    first = -(-(start + HOUR + 1) // BASELINE_STEP) * BASELINE_STEP
    minutes = range(first, min(end, length) + 1, BASELINE_STEP)
    values = array(
        "d",
        (
            float(counts[t - start - 1]) if idle.grown(t, HOUR + 1) > HOUR - 0.5 else ABSENT
            for t in minutes
        ),
    )
    if len(values):
        yield RecordedSeries("job:idle_gpus:count1h", job.labels, first, values, BASELINE_STEP)
