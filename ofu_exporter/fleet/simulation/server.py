"""Answers the queries of reports about a simulated fleet as a Prometheus with our rules would, within the process.

Every answer has one value an hour, made from what the fleet's jobs truly do. Faults are not in it. Of what no simulated
job has, such as traces, there is no series.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate

from ofu_exporter.errors import QueryError
from ofu_exporter.fleet.changes import peer_hours
from ofu_exporter.fleet.history import progress_reader, queries, served
from ofu_exporter.fleet.history.progress_sums import NoProgress
from ofu_exporter.fleet.history_server import HistoryServer
from ofu_exporter.fleet.hours import HOUR
from ofu_exporter.fleet.series import Labels, Series
from ofu_exporter.fleet.simulation.fleet import JobTruth, SimulatedFleet
from ofu_exporter.fleet.simulation.job_hours import HourOfJob, agent_labels, hours_of_job
from ofu_exporter.fleet.simulation.runs import AGAIN, STARTS
from ofu_exporter.fleet.simulation.serving import served_tokens
from ofu_exporter.values.reasons import QueryReason

TARGET = 0.4
"""OFU; that of helm/ofu-exporter/files/rules/target.yaml."""
URL = "http://prometheus.example:9090"
"""Stands in commands where a reader's own server would; nobody can ask it (RFC 2606)."""
_JOBS = re.compile(r'\{job_id=~"[^"]*"\}')
"""Which jobs are asked for; all are answered for."""
_PEERS = 4
"""GPUs of a job from which on they are compared with each other."""


class SimulatedServer(HistoryServer):
    """A whole number of hours of a fleet that began at this Unix time."""

    def __init__(self, fleet: SimulatedFleet, begin_unix: float) -> None:
        super().__init__(URL)
        self._fleet = fleet
        self._begin = begin_unix
        self._hours = fleet.spec.length // 60
        self._cluster = {"cluster": fleet.spec.cluster}
        self.series: dict[str, list[Series]] = defaultdict(list)
        """By what is asked."""
        self._used, self._held = (
            {name: [0.0] * self._hours for name in _models(fleet)} for _ in "uh"
        )
        for truth in fleet.jobs:
            self._add_job(truth)
        self._add_gpus()

    def instant(self, expression: str, at: float | None = None) -> list[Series]:
        """The values at a time."""
        del at  # both answers are the same for the whole time
        if expression == peer_hours.MODELS:
            return [
                Series(Labels(self._cluster, instance=node.name, model=node.model.names[0]), (), ())
                for node in self._fleet.nodes
            ]
        return self._known(expression)

    def recorded(self, selector: str, start: float, end: float) -> list[Series]:
        """The samples after `start`, until `end`."""
        return self.steps(selector, start, end, HOUR)

    def steps(self, expression: str, start: float, end: float, step: float) -> list[Series]:
        """The values at the ends of hours. Raises QueryError for another step."""
        if step != HOUR:
            raise QueryError(QueryReason.REFUSED, f"{URL}: has whole hours alone")
        cut = [
            Series(each.labels, each.times[first:last], each.values[first:last])
            for each in self._known(expression)
            for first, last in [(bisect(each.times, start), bisect(each.times, end))]
        ]
        return [each for each in cut if each.times]

    def server_time(self) -> float:
        """The end of the fleet."""
        return self._begin + HOUR * self._hours

    def _known(self, expression: str) -> list[Series]:
        self.cost.queries += 1
        return self.series.get(_JOBS.sub("", expression), [])

    def _add(self, expression: str, values: Mapping[int, float], **labels: str) -> None:
        """Add a series by the number of each hour, from 0 on."""
        points = [(self._begin + HOUR * (hour + 1), value) for hour, value in values.items()]
        if points:
            self.series[expression].append(Series.of(Labels(self._cluster, **labels), points))

    def _add_job(self, truth: JobTruth) -> None:
        hours = hours_of_job(truth, self._fleet)
        job = {"job_id": truth.job.draft.job_id}
        for quantity in queries.JOB_HOURS:
            field, names = quantity.name, agent_labels(truth) if quantity.name == "held" else {}
            self._add(quantity.recorded, _filled(hours, field), **job, **names)
        self._add(queries.SIZE.recorded, dict.fromkeys(hours, truth.gpu_shares), **job)
        self._add(queries.IDLE.recorded, _filled(hours, "idle"), **job)
        for part in sorted({part for each in hours.values() for part in each.lost}):
            lost = {hour: each.lost.get(part, 0.0) for hour, each in hours.items()}
            self._add(queries.LOST.recorded, lost, part=part, **job)
        self._add_progress(truth, hours)
        self._add_served(truth, hours)
        for kind in (queries.VERDICT, queries.CAUSE):
            words = {hour: getattr(each, kind.name) for hour, each in hours.items()}
            for value in sorted({*words.values()} - {""}):
                nodes = {
                    hour: float(len(truth.job.devices)) for hour in hours if words[hour] == value
                }
                self._add(kind.recorded, nodes, **job, **{kind.name: value})
        model = self._fleet.nodes[next(iter(truth.job.devices))].model.names[0]
        self._add(queries.JOB_MODELS.recorded, _filled(hours, "held"), **job, model=model)
        for hour, each in hours.items():
            self._used[model][hour] += each.utilized
            self._held[model][hour] += each.held
        if truth.job.size >= _PEERS:
            self._add_peers(truth, hours)

    def _add_progress(self, truth: JobTruth, hours: Mapping[int, HourOfJob]) -> None:
        """What was no progress. Where it states steps, those that it does again are known."""
        job, minutes, first = {"job_id": truth.job.draft.job_id}, truth.minutes, truth.job.start

        def of(kind: int) -> dict[int, float]:
            shares = (
                (hour, minutes.share(kind, 60 * hour - first, 60 * (hour + 1) - first))
                for hour in hours
            )
            return {hour: truth.gpu_shares * share for hour, share in shares}

        group, nothing = truth.job.draft.group, dict.fromkeys(hours, 0.0)
        starting = _filled(hours, "held") if group.work == "idle" else of(STARTS)
        lost = {
            NoProgress.STARTING: starting,
            NoProgress.HELD_IDLE: nothing,
            NoProgress.ALONE: nothing,
        }
        if group.report and group.report.step:
            lost[NoProgress.DONE_AGAIN] = of(AGAIN)
            furthest = [*accumulate(minutes.reached, max)]
            ends = {hour: min(60 * (hour + 1) - first, len(furthest) - 1) for hour in hours}
            steps = {hour: furthest[end] * 60.0 / group.report.step for hour, end in ends.items()}
            self._add(progress_reader.STEP.recorded, steps, **job)
        for reason, values in lost.items():
            self._add(progress_reader.LOST.recorded, values, reason=reason.value, **job)
        self._add(progress_reader.UTILIZED.recorded, nothing, **job)
        self._add(progress_reader.WATCHED.recorded, _filled(hours, "held"), **job)
        begins = [begin // 60 for begin, _ in truth.job.runs[1:]]
        again = {hour: float(begins.count(hour)) for hour in hours}
        self._add(progress_reader.RESTARTS.recorded, again, **job)

    def _add_served(self, truth: JobTruth, hours: Mapping[int, HourOfJob]) -> None:
        """Energy, and what its engines serve: they have requests all the time."""
        group, job = truth.job.draft.group, {"job_id": truth.job.draft.job_id}
        held_hours = _filled(hours, "held")
        beside = {"held_gpu_hours": held_hours}
        if group.watts is not None:
            joules = {hour: group.watts * HOUR * each for hour, each in held_hours.items()}
            idle = {hour: value if hours[hour].idle else 0.0 for hour, value in joules.items()}
            self._add(queries.ENERGY.recorded, joules, **job)
            self._add(queries.IDLE_ENERGY.recorded, idle, **job)
        serves = group.serves
        if serves is None:
            return
        if group.watts is not None:
            beside["idle_engine_joules"] = dict.fromkeys(hours, 0.0)
        beside["memory_gpu_hours"] = held_hours
        beside["memory_busy_gpu_hours"] = {
            hour: serves.memory * v for hour, v in held_hours.items()
        }
        for quantity in served.BESIDE:
            self._add(quantity.recorded, beside.get(quantity.name, {}), **job)
        self._add(served.ROLES.recorded, dict.fromkeys(hours, 1.0), role=serves.role, **job)
        by_hour = {
            hour: served_tokens(truth, HOUR * hour, HOUR * (hour + 1), truth.gpu_shares)
            for hour in hours
        }
        for kind in serves.tokens:
            counts = {hour: each[kind] for hour, each in by_hour.items()}
            of_kind = {"served_model": serves.model, "kind": kind}
            self._add(served.TOKENS.recorded, counts, **of_kind, **job)

    def _add_peers(self, truth: JobTruth, hours: Mapping[int, HourOfJob]) -> None:
        """Each GPU of a job beside the others, in hours that the job had from begin to end."""
        whole = {hour: each for hour, each in hours.items() if each.held >= truth.gpu_shares}
        for node, devices in truth.job.devices.items():
            for device in devices:
                gpu = self._fleet.nodes[node].devices[device]
                labels = {
                    "instance": self._fleet.nodes[node].name,
                    "uuid": gpu.uuid,
                    "gpu": gpu.index,
                    "job_id": truth.job.draft.job_id,
                }
                share = truth.share_of(node, device) / truth.mean_share
                ofu = {hour: each.utilized / each.held * share for hour, each in whole.items()}
                hz = min(truth.job.draft.clock_hz, truth.limit_hz(node, device))
                busy = {hour: hz for hour in whole if ofu[hour] > 0}
                self._add(peer_hours.WORK.recorded, ofu, **labels)
                self._add(peer_hours.CLOCK.recorded, busy, **labels)

    def _add_gpus(self) -> None:
        """What is known of all GPUs, by model, and of the cluster."""
        nothing = [0.0] * self._hours
        observed, utilized = queries.MODEL_HOURS
        for model, gpus in _models(self._fleet).items():
            free = [max(0.0, gpus - held) for held in self._held[model]]
            of_model: Sequence[tuple[str, Sequence[float]]] = (
                (observed.recorded, [gpus] * self._hours),
                (utilized.recorded, self._used[model]),
                (queries.INSTALLED.recorded, [gpus] * self._hours),
                *zip(
                    (each.recorded for each in queries.JOBLESS), (free, nothing, free), strict=True
                ),
            )
            for expression, values in of_model:
                self._add(expression, dict(enumerate(values)), model=model)
        always = dict.fromkeys(range(self._hours), 1.0)
        self._add(queries.COVERED.recorded, always)
        self._add(queries.SIMULATED.recorded, always, simulated="1")
        self._add(queries.TARGET, dict.fromkeys(always, TARGET))


def _models(fleet: SimulatedFleet) -> dict[str, float]:
    """How many GPUs there are, by model."""
    gpus: dict[str, float] = defaultdict(float)
    for node in fleet.nodes:
        gpus[node.model.names[0]] += sum(node.shares)
    return gpus


def _filled(hours: Mapping[int, HourOfJob], field: str) -> dict[int, float]:
    """The hours in which something is known."""
    values = ((hour, getattr(each, field)) for hour, each in hours.items())
    return {hour: value for hour, value in values if value is not None}
