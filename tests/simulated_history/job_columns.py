"""Makes what the agents of its nodes show of a simulated job together, and what rules keep of its single GPUs."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from statistics import median

from ofu_exporter.fleet.simulation.agent import SCHEDULER
from ofu_exporter.fleet.simulation.fleet import SimulatedFleet
from ofu_exporter.fleet.simulation.serving import REQUESTS_RUNNING
from ofu_exporter.fleet.simulation.spec import MINUTE
from ofu_exporter.ofu.divergence import compare_sums
from ofu_exporter.ofu.job_state import GRACE_SECONDS
from ofu_exporter.reports.cause_question import CauseQuestion
from ofu_exporter.reports.cause_search import causes_or_none
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.stated import Hardware
from ofu_exporter.serving.metrics.job import NO_CAUSE
from ofu_exporter.values.reported import Compared, Verdict
from tests.simulated_history.observed import (
    COMPARED,
    SETTLED_MINUTES,
    SHORT,
    GrowingSum,
    ObservedJob,
)
from tests.simulated_history.series import ABSENT, RecordedSeries, is_there

GRACE = int(GRACE_SECONDS / MINUTE)
"""Minutes for which the agents show a job that has ended."""
HORIZON = 10
"""Minutes over which agents compare."""
IDLE = 0.001
"""An OFU below this counts as 0 for the rule of idle GPUs (baselines.yaml)."""


class JobColumns:
    """The series of one job."""

    def __init__(self, job: ObservedJob, fleet: SimulatedFleet, begin_unix: float) -> None:
        self._observed = job
        self._truth, self._watched = job.truth, job.watched
        self._fleet = fleet
        self._begin = begin_unix
        self._job, self._draft = job.truth.job, job.truth.job.draft
        self._first, self._end = job.start + 1, job.end
        self._shown = job.end + GRACE - 1
        """The last minute at which the agents show it."""
        self._ids = {"cluster": fleet.spec.cluster, "job_id": self._draft.job_id}
        self._reports = [*job.mfus]
        """The minutes of its reports."""

    def _column(
        self,
        name: str,
        labels: Mapping[str, str],
        last: int,
        value: Callable[[int], float],
        first: int | None = None,
    ) -> RecordedSeries:
        begin = self._first if first is None else first
        minutes = range(begin, min(last, self._fleet.spec.length) + 1)
        return RecordedSeries(name, labels, begin, array("d", map(value, minutes)))

    def series(self) -> Iterator[RecordedSeries]:
        """What the agents show of the job, and what rules make of its names and of its GPUs."""
        yield from self._named()
        yield from self._counters()
        yield from self._of_gpus()
        if self._reports:
            yield from self._of_reports(self._reports[0])

    @cached_property
    def _names(self) -> Mapping[str, str]:
        group = self._draft.group
        return {
            **self._ids,
            "job_name": group.name,
            "user": self._draft.user,
            "account": group.account,
            "partition": group.partition,
            "namespace": group.namespace,
            "scheduler": SCHEDULER,
        }

    def _named(self) -> Iterator[RecordedSeries]:
        """The job by its names: without its framework until a run has reported it, and with it from then on."""
        report = self._draft.group.report
        framework = report.framework if report else ""
        wanted = {False: self._names}
        if framework and self._reports:
            wanted[True] = {**self._names, "framework": framework}
        for is_wanted, labels in wanted.items():

            def one(minute: int, is_wanted: bool = is_wanted) -> float:
                has_framework = len(wanted) > 1 and self._has_reported(minute)
                return 1.0 if has_framework == is_wanted else ABSENT

            yield self._column("ofu_job_info", labels, self._shown, one)

    def _has_reported(self, minute: int) -> bool:
        """Whether the run of this minute, or the last one before it, has reported by then."""
        began = max(begin for begin, _ in self._job.runs if begin <= minute)
        return bisect_right(self._reports, minute) > bisect_right(self._reports, began)

    def _counters(self) -> Iterator[RecordedSeries]:
        node = next(
            (node for node in self._job.devices if not self._fleet.faults.get(node)),
            next(iter(self._job.devices)),
        )
        labels = {**self._ids, "instance": self._fleet.nodes[node].name}
        for (name, part), sums in self._observed.counters.items():
            first = self._reports[0] + 1 if name in COMPARED else self._first
            yield self._column(
                f"ofu_job_{name}_seconds_total",
                {**labels, "part": part},
                self._shown,
                sums.at,
                first,
            )
        yield from self._served(labels)
        held = GrowingSum.of(
            self._job.start, (MINUTE * self._truth.gpu_shares * on for on in self._truth.is_running)
        )

        def held_hours(minute: int) -> float:
            """Of the agents that are there. One that was missing shows the missed time as held."""
            watched = self._watched.held[min(minute - self._job.start, len(self._watched.held)) - 1]
            return held.at(minute) / 3600 * (watched / self._truth.gpu_shares)

        yield self._column("job:held_gpu_hours:sum", self._names, self._shown, held_hours)

    def _served(self, labels: Mapping[str, str]) -> Iterator[RecordedSeries]:
        """Energy, and what its engines serve: the counters of all its agents, as if one agent had them."""
        for name, more, growth in self._observed.served():
            sums = GrowingSum.of(self._job.start, growth)
            yield self._column(f"ofu_job_{name}_total", {**labels, **more}, self._shown, sums.at)
        serves = self._draft.group.serves
        if serves is not None:
            running = {**labels, "served_model": serves.model}
            engines = {**labels, "role": serves.role}
            yield self._column(
                "ofu_job_requests_running", running, self._shown, lambda _: REQUESTS_RUNNING
            )
            yield self._column("ofu_job_engines", engines, self._shown, lambda _: 1.0)

    def _of_gpus(self) -> Iterator[RecordedSeries]:
        """While the job holds its GPUs: how many are measured, and the means of those."""
        start, running = self._job.start, self._truth.is_running

        def measured(minute: int) -> float:
            place = minute - start
            devices = self._watched.devices[max(0, place - SHORT) : place]
            return (running[place] and float(max(devices))) or ABSENT

        def mean(sums: GrowingSum, share: float) -> Callable[[int], float]:
            return lambda minute: (
                share * sums.grown(minute, SHORT) / (MINUTE * min(SHORT, minute))
                if is_there(measured(minute))
                else ABSENT
            )

        active = GrowingSum.of(start, (MINUTE * each for each in self._observed.activity))
        ofu = mean(GrowingSum(start, self._truth.done), self._median())
        last, names = self._end - 1, self._names
        yield self._column("job:ofu_gpu_tensor_active:avg5m", names, last, mean(active, 1.0))
        yield self._column("job:job_gpu_ofu:count", names, last, measured)
        median_ofu = self._column("job:job_gpu_ofu:quantile50", names, last, ofu)
        yield median_ofu
        yield from self._idle(median_ofu)
        yield from self._models()

    def _median(self) -> float:
        """The median of the job's GPUs, as a share of a GPU that is not a straggler."""
        straggler = self._draft.group.straggler
        share = 1.0 if straggler is None or straggler.share is None else straggler.share
        return median([share, *[1.0] * min(2, self._job.size - 1)])

    def _idle(self, ofu: RecordedSeries) -> Iterator[RecordedSeries]:
        """GPUs that have been idle for an hour, from the median OFU, because all of its GPUs do the same."""
        first, step = -(-(self._first + 60) // 3) * 3, 3
        minutes = range(first, min(self._end, self._fleet.spec.length) + 1, step)
        values = array("d")
        is_low = bytes(value < IDLE for value in ofu.values)
        for place in (minute - self._first for minute in minutes):
            is_idle = sum(is_low[place - 60 : place + 1]) >= 60
            values.append(float(self._watched.devices[place]) if is_idle else ABSENT)
        yield RecordedSeries("job:idle_gpus:count1h", self._names, first, values, step)

    def _models(self) -> Iterator[RecordedSeries]:
        """Its GPUs by model, instances as their shares, as the mean over each hour from twelve samples."""
        start, running, watched = self._job.start, self._truth.is_running, self._watched.held
        node = self._fleet.nodes[next(iter(self._job.devices))]
        first, last = start // 60 + 1, self._end // 60 + 1
        values = array("d")
        for hour in range(first, min(last, self._fleet.spec.length // 60) + 1):
            places = (minute - start for minute in range(60 * hour - 55, 60 * hour + 1, 5))
            seen = (p for p in places if 0 <= p < len(running) and running[p])
            values.append(sum(watched[place] for place in seen) / 12 or ABSENT)
        labels = {**self._ids, "model": node.model.names[0]}
        yield RecordedSeries("job_model:ofu_gpu_info:avg1h", labels, 60 * first, values, 60)

    def _of_reports(self, first: int) -> Iterator[RecordedSeries]:
        """The last report and how many there were, and the verdicts and causes by how many nodes hold them."""
        nodes = len(self._job.devices)

        def last_report(minute: int) -> float:
            latest = self._reports[bisect_right(self._reports, minute) - 1]
            return self._begin + MINUTE * latest

        def later_reports(minute: int) -> float:
            return float(nodes * (bisect_right(self._reports, minute) - 1))

        accepted = {**self._ids, "outcome": "accepted"}
        shown = self._shown
        name = "ofu_job_report_timestamp_seconds"
        yield self._column(name, self._ids, shown, last_report, first)
        yield self._column("ofu_job_reports_total", accepted, shown, later_reports, first + 1)
        counts: dict[tuple[str, str], dict[int, float]] = {}
        for minute, kind in self._verdicts(first):
            agents = self._watched.agents
            now = agents[min(minute - self._job.start, len(agents)) - 1]
            counts.setdefault(kind, {})[minute] = float(now)
        for (label, value), agents_by_minute in sorted(counts.items()):

            def holding(minute: int, by: Mapping[int, float] = agents_by_minute) -> float:
                return by.get(minute, ABSENT)

            labels = {**self._ids, label: value}
            yield self._column(f"ofu_job_divergence_{label}", labels, shown, holding)

    def _verdicts(self, first: int) -> Iterator[tuple[int, tuple[str, str]]]:
        """For each minute the verdict, and the cause where there is a divergence."""
        causes: dict[Verdict, str] = {}
        verdict = None
        for minute in range(first, min(self._shown, self._fleet.spec.length) + 1):
            sums = self._horizon(minute)
            divergence = compare_sums(sums, self._truth.gpu_shares, previous=verdict)
            verdict = divergence.verdict if divergence else None
            yield minute, ("verdict", (verdict or Verdict.INSUFFICIENT_DATA).value)
            if divergence is not None and divergence.verdict.diverged:
                if divergence.verdict not in causes:
                    causes[divergence.verdict] = self._cause(minute, sums)
                yield minute, ("cause", causes[divergence.verdict])

    def _horizon(self, minute: int) -> Compared:
        settled = minute + SETTLED_MINUTES  # reports until now are settled by then
        return Compared(
            *(self._observed.counters[name, ""].grown(settled, HORIZON) for name in COMPARED)
        )

    def _cause(self, minute: int, sums: Compared) -> str:
        """The cause that an agent names first, found by the agent's own search."""
        latest = self._reports[bisect_right(self._reports, minute) - 1]
        report = MfuReport.model_validate(
            self._truth.report_body(latest, self._fleet.spec, self._begin)
        )
        node = self._fleet.nodes[next(iter(self._job.devices))]
        name, peaks = node.model.names[0], node.rating.peak_flops
        peak = peaks.get(next(iter(report.shares() or {"bf16": 1.0})))
        divergence = compare_sums(sums)
        assert divergence is not None  # or there would be no verdict
        question = CauseQuestion(
            sums, divergence, report, Hardware(1, name, frozenset({name}), peaks), peak
        )
        first = causes_or_none(self._draft.job_id, question).first
        return first.cause if first else NO_CAUSE
