"""Makes the series of rules that look back for hours: the sums of every hour, and the past of a job or cluster."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ofu_exporter.fleet.simulation.job_series import GRACE, LOST, REMEMBERED, JobSeries
from ofu_exporter.fleet.simulation.observed import GrowingSum
from ofu_exporter.fleet.simulation.series import ABSENT, RecordedSeries
from ofu_exporter.fleet.simulation.sum_series import GpuSums

HOUR = 60
BASELINE_STEP = 3
"""Minutes between two evaluations of the rules that look back a day."""
DAY = 1440
IDLE = 0.001
"""An OFU below this counts as 0 for the rule of idle GPUs."""
HOURLY = ("held", "observed", "utilized", "compared", "compared_mfu", "compared_utilized")
LOST_HOURS = "lost_gpu_hours:increase1h"
IDLE_MINUTES = 120
"""Over which the rule of idle engines looks back."""


class HourSums:
    """The hours of jobs and GPUs of which the hours of all others are sums."""

    def __init__(self, cluster: str, length: int) -> None:
        self._cluster = cluster
        self._hours = length // HOUR

    def job(self, series: JobSeries) -> Iterator[RecordedSeries]:
        """The hours of one job."""
        job = series.job
        first = job.start // HOUR + 1
        last = min((job.end + GRACE + REMEMBERED - 1) // HOUR + 1, self._hours)
        if last < first:
            return
        sums = [job.held, job.observed, job.used]
        if job.reported:
            sums += [job.compared, job.compared_mfu, job.compared_used]
        hours = range(first, last + 1)
        values = {
            f"{name}_gpu_hours:increase1h": _hours(each, hours)
            for name, each in zip(HOURLY, sums, strict=False)
        }
        values["ofu_job_info:topk1_1h"] = array("d", [1.0]) * len(hours)
        yield from series.models(hours)
        lost = {part: _hours(sums, hours) for part, sums in job.lost.items()}
        if lost:
            values["gained_gpu_hours:increase1h"] = _hours(job.gained, hours)
        has_framework = [series.has_told(HOUR * hour - 59, HOUR * hour) for hour in hours]
        for named, is_wanted in series.named():
            mask = [one == is_wanted for one in has_framework]
            for name, each in values.items():
                yield RecordedSeries(f"job:{name}", named, HOUR * first, _where(each, mask), HOUR)
            for part, each in lost.items():
                labels = {**named, "part": part}
                shown = _where(each, mask)
                yield RecordedSeries(f"job:{LOST_HOURS}", labels, HOUR * first, shown, HOUR)

    def gpus(self, gpus: GpuSums) -> Iterator[RecordedSeries]:
        """The hours of GPU models, held by a job or not."""
        for model in gpus.models:
            labels = {"cluster": self._cluster, "model": model}
            # Means over 5 minutes, every 5 minutes: their sum is the integral.
            for name, rates in (("observed", gpus.measured(model)), ("utilized", gpus.used(model))):
                hours = self._of_rates(rates)
                yield self._hourly(f"model:{name}_gpu_hours:increase1h", labels, hours)
            yield from self._jobless(labels, self._of_rates(gpus.jobless(model)))

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
