"""Makes the series that the recording rules keep of one job, from the counts of its nodes' agents."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from statistics import median

from ofu_exporter.fleet.simulation.agent import SCHEDULER
from ofu_exporter.fleet.simulation.fleet import SimulatedFleet
from ofu_exporter.fleet.simulation.observed import GrowingSum, ObservedJob
from ofu_exporter.fleet.simulation.reporting import report_body
from ofu_exporter.fleet.simulation.series import ABSENT, RecordedSeries, divided
from ofu_exporter.fleet.simulation.spec import MINUTE
from ofu_exporter.ofu.divergence import Divergence, compare, compare_sums
from ofu_exporter.ofu.job_state import GRACE_SECONDS
from ofu_exporter.reports.causes import Question, causes_or_none
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.stated import Hardware
from ofu_exporter.serving.metrics.report import NO_CAUSE
from ofu_exporter.values.reported import Compared, Verdict

GRACE = int(GRACE_SECONDS / MINUTE)
"""Minutes for which the agents show a job that has ended."""
REMEMBERED = 5
"""Minutes for which the rules remember the names of a job that no page shows."""
SHORT, LONG = 5, 15
"""Minutes of the ranges of the rules: of OFU, and of what is compared."""
LOST = "job:ofu_job_lost_seconds:rate5m"
HORIZON = 10
"""Minutes over which agents compare."""

Values = Callable[[int], float]


class JobSeries:
    """The series of one job, by name. Each has one value per minute from the job's first minute on."""

    def __init__(self, job: ObservedJob, fleet: SimulatedFleet, begin_unix: float) -> None:
        self.job = job
        self._fleet = fleet
        self._begin = begin_unix
        draft = job.truth.job.draft
        self.labels: Mapping[str, str] = {
            "cluster": fleet.spec.cluster,
            "job_id": draft.job_id,
            "job_name": draft.group.name,
            "user": draft.user,
            "account": draft.group.account,
            "partition": draft.group.partition,
            "namespace": draft.group.namespace,
            "scheduler": SCHEDULER,
        }
        self.first = job.start + 1
        self._end = job.end
        reporting = draft.group.report
        self._reports_from = job.start + reporting.every if reporting and job.reported else None
        self._framework = reporting.framework if reporting else ""
        self._told = tuple(_told(job)) if self._framework else ()
        """The times at which the framework is known: from a run's first report to the beginning of the next run."""
        self._cut = fleet.spec.length

    def _while(self, last: int, value: Values, first: int | None = None) -> array[float]:
        """A value for each minute, up to the last minute that has one."""
        begin = self.first if first is None else first
        until = min(last, self._cut) + 1
        return array("d", (value(t) if t >= begin else ABSENT for t in range(self.first, until)))

    def _known(self, value: Values, first: int | None = None) -> array[float]:
        """While a page shows the job, or its names are remembered."""
        return self._while(self._end + GRACE + REMEMBERED - 1, value, first)

    def _shown(self, value: Values, first: int | None = None) -> array[float]:
        return self._while(self._end + GRACE - 1, value, first)

    def _holding(self, value: Values) -> array[float]:
        """While the job holds its GPUs."""
        running, start = self.job.truth.is_running, self.job.start
        return self._while(self._end - 1, lambda t: value(t) if running[t - start] else ABSENT)

    def series(self) -> Iterator[RecordedSeries]:
        """Every series that the rules of each minute keep of the job."""
        yield from self._named()
        for name, values in self._values():
            yield RecordedSeries(name, self.labels, self.first, values)
        yield from self._losses()
        if self._reports_from is not None:
            yield from self._verdicts()

    def _losses(self) -> Iterator[RecordedSeries]:
        for part, sums in self.job.lost.items():
            labels = {**self.labels, "part": part}
            yield RecordedSeries(LOST, labels, self.first, self._known(_rate(sums, SHORT)))
        if self.job.lost:
            gained = self._known(_rate(self.job.gained, SHORT))
            name = "job:ofu_job_gained_seconds:rate5m"
            yield RecordedSeries(name, self.labels, self.first, gained)

    def _named(self) -> Iterator[RecordedSeries]:
        """The job by its names: without its framework until a run has reported it, and with it from then on."""
        for labels, is_wanted in self.named():
            values = self._known(partial(self._one_where, is_wanted))
            yield RecordedSeries("job:ofu_job_info:topk1", labels, self.first, values)

    def _one_where(self, is_wanted: bool, minute: int) -> float:
        return 1.0 if self.has_told(minute, minute) == is_wanted else ABSENT

    def named(self) -> Iterator[tuple[Mapping[str, str], bool]]:
        """The labels of the job, and whether they are those of the time when its framework is known."""
        yield self.labels, False
        if self._told:
            yield {**self.labels, "framework": self._framework}, True

    def has_told(self, first: int, last: int) -> bool:
        """Whether the framework is known at one of these minutes."""
        return any(begin <= last and first < end for begin, end in self._told)

    def models(self, hours: range) -> Iterator[RecordedSeries]:
        """Its devices by model, as the mean over each hour from twelve samples."""
        counts: Counter[str] = Counter()
        for node, devices in self.job.truth.job.devices.items():
            counts[self._fleet.nodes[node].model.names[0]] += len(devices)
        shares = [self._looks(hour) / 12 for hour in hours]
        for model, count in counts.items():
            labels = {"cluster": self.labels["cluster"], "job_id": self.labels["job_id"]}
            values = array("d", (count * share or ABSENT for share in shares))
            name = "job_model:ofu_gpu_info:avg1h"
            yield RecordedSeries(name, {**labels, "model": model}, 60 * hours.start, values, 60)

    def _looks(self, hour: int) -> float:
        """The samples of the hour that see the job, each weighted by the part of the job on nodes with an agent."""
        running, start = self.job.truth.is_running, self.job.start
        minutes = (minute - start for minute in range(60 * hour - 55, 60 * hour + 1, 5))
        return sum(self.job.present[m] for m in minutes if 0 <= m < len(running) and running[m])

    def _values(self) -> Iterator[tuple[str, array[float]]]:
        job = self.job
        used = self._known(_rate(job.used, SHORT))
        observed = self._known(_rate(job.observed, SHORT))
        yield "job:ofu_job_utilization_seconds:rate5m", used
        yield "job:ofu_job_gpu_seconds:rate5m", observed
        yield "job:ofu_job_held_gpu_seconds:rate5m", self._known(_rate(job.held, SHORT))
        yield "job:held_gpu_hours:sum", self._shown(self._held_hours)
        ofu = divided(used, observed)
        yield "job:ofu:ratio_rate5m", ofu
        measured = self._measured()
        active = self._where(measured, job.active, 1.0)
        yield "job:ofu_gpu_tensor_active:avg5m", active
        yield "job:clock:ratio_rate5m", divided(ofu[: len(active)], active)
        done = GrowingSum(job.start, job.truth.done)
        yield "job:job_gpu_ofu:quantile50", self._where(measured, done, self._median())
        yield "job:job_gpu_ofu:count", measured
        if self._reports_from is not None:
            yield from self._compared(self._reports_from)

    def _where(self, mask: array[float], integral: GrowingSum, share: float) -> array[float]:
        """The mean of the last minutes of an integral, times a share, where a mask has a value."""
        means = self._holding(lambda t: share * integral.grown(t, SHORT) / (MINUTE * min(SHORT, t)))
        return array(
            "d",
            (
                mean if there == there else ABSENT  # noqa: PLR0124
                for there, mean in zip(mask, means, strict=True)
            ),
        )

    def _median(self) -> float:
        """The median of the job's GPUs, as a share of a GPU that is not a straggler."""
        straggler = self.job.truth.job.draft.group.straggler
        share = 1.0 if straggler is None or straggler.share is None else straggler.share
        return median([share, *[1.0] * min(2, self.job.truth.job.size - 1)])

    def _measured(self) -> array[float]:
        devices, start = self.job.devices, self.job.start
        counts = self._holding(lambda t: float(max(devices[max(0, t - SHORT - start) : t - start])))
        return array("d", (count or ABSENT for count in counts))

    def _compared(self, first: int) -> Iterator[tuple[str, array[float]]]:
        job = self.job
        mfu, used, seconds = (
            self._known(_rate(sums, LONG), first + 1)
            for sums in (job.compared_mfu, job.compared_used, job.compared)
        )
        yield "job:ofu_job_compared_mfu_seconds:rate15m", mfu
        yield "job:ofu_job_compared_utilization_seconds:rate15m", used
        yield "job:ofu_job_compared_gpu_seconds:rate15m", seconds
        mfu, used, seconds = (
            self._shown(sums.at, first)
            for sums in (job.compared_mfu, job.compared_used, job.compared)
        )
        yield "job:mfu:ratio", divided(mfu, seconds)
        yield "job:ofu_compared:ratio", divided(used, seconds)
        yield "job:ofu_job_report_timestamp_seconds:max", self._shown(self._last_report(), first)

    def _held_hours(self, minute: int) -> float:
        """GPU-hours that the agents show now. An agent that was missing shows the missed time as held."""
        place = min(minute - self.job.start, len(self.job.present)) - 1
        return self.job.held_by_all.at(minute) / 3600 * self.job.present[place]

    def _last_report(self) -> Values:
        last, latest = {}, 0
        report_minutes = {minute for minute, _ in self.job.reported}
        for minute in range(self.job.start, self._end + GRACE + 1):
            latest = minute if minute in report_minutes else latest
            last[minute] = self._begin + MINUTE * latest
        return lambda t: last[t]

    def _verdicts(self) -> Iterator[RecordedSeries]:
        """Verdicts and causes, by the number of the job's nodes that hold them, and the reports."""
        first = self._reports_from
        assert first is not None
        minutes = min(self._end + GRACE - 1, self._cut) + 1 - self.first
        counts: dict[tuple[str, str], array[float]] = {}
        causes: dict[Verdict, str] = {}
        previous: Divergence | None = None
        for minute in range(first, self.first + minutes):
            previous = self._divergence(minute, previous)
            verdict = previous.verdict if previous else Verdict.INSUFFICIENT_DATA
            kinds = [("verdict", verdict.value)]
            if previous is not None and verdict.diverged:
                if verdict not in causes:
                    causes[verdict] = self._cause(minute, previous)
                kinds.append(("cause", causes[verdict]))
            agents = self.job.agents
            nodes = agents[min(minute - self.job.start, len(agents)) - 1]
            for kind in kinds:
                values = counts.setdefault(kind, array("d", [ABSENT]) * minutes)
                values[minute - self.first] = float(nodes)
        for (label, value), values in sorted(counts.items()):
            name = f"job:ofu_job_divergence_{label}:sum"
            yield RecordedSeries(name, {**self.labels, label: value}, self.first, values)
        labels = {**self.labels, "outcome": "accepted"}
        rate = self._known(self._report_rate(first), first + 1)
        yield RecordedSeries("job:ofu_job_reports:rate15m", labels, self.first, rate)

    def _divergence(self, minute: int, previous: Divergence | None) -> Divergence | None:
        sums = self._horizon(minute)
        gpus = self.job.truth.gpu_shares
        if sums.mfu is None or sums.ofu is None:
            return None
        before = previous.verdict if previous else None
        observed_seconds = sums.gpu_seconds / gpus
        return compare(sums.mfu, sums.ofu, observed_seconds=observed_seconds, previous=before)

    def _horizon(self, minute: int) -> Compared:
        job = self.job
        settled = minute + 2  # reports until now are settled by then
        grown = (
            sums.grown(settled, HORIZON)
            for sums in (job.compared_mfu, job.compared_used, job.compared)
        )
        mfu, used, seconds = grown
        return Compared(mfu, used, seconds)

    def _cause(self, minute: int, divergence: Divergence) -> str:
        """The cause that an agent names first, found by the agent's own search."""
        minutes = [each for each, _ in self.job.reported if each <= minute]
        truth = self.job.truth
        body = report_body(truth, minutes[-1], self._fleet.spec, self._begin)
        node = self._fleet.nodes[next(iter(truth.job.devices))]
        name = node.model.names[0]
        hardware = Hardware(1, name, frozenset({name}), node.rating.peak_flops)
        sums = self._horizon(minute)
        judged = compare_sums(sums) or divergence
        report = MfuReport.model_validate(body)
        peak = node.rating.peak_flops.get(next(iter(report.shares() or {"bf16": 1.0})))
        question = Question(sums, judged, report, hardware, peak)
        first = causes_or_none(truth.job.draft.job_id, question).first
        return first.cause if first else NO_CAUSE

    def _report_rate(self, first: int) -> Values:
        report_minutes = {minute for minute, _ in self.job.reported}
        count, counts = 0, {}
        for minute in range(self.job.start, self._end + 1):
            count += minute in report_minutes
            counts[minute] = count
        nodes = len(self.job.truth.job.devices)

        def rate(minute: int) -> float:
            now = counts[min(minute, self._end)]
            before = counts[min(max(minute - LONG, first), self._end)]
            return nodes * (now - before) / (LONG * MINUTE)

        return rate


def _rate(sums: GrowingSum, minutes: int) -> Values:
    seconds = minutes * MINUTE
    return lambda minute: sums.grown(minute, minutes) / seconds


def _told(job: ObservedJob) -> Iterator[tuple[int, float]]:
    minutes = [minute for minute, _ in job.reported]
    runs = job.truth.job.runs
    for (begin, end), following in zip(
        runs, [*(run[0] for run in runs[1:]), math.inf], strict=True
    ):
        place = bisect_right(minutes, begin)
        if place < len(minutes) and minutes[place] <= end:
            yield minutes[place], following
