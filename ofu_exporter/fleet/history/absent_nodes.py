"""Finds nodes that were not seen for a part of the time, and adds what their counters say that was done meanwhile.

Between the last sample before a gap and the first one after it, a counter that did not start anew knows what it
counted, and no sum of whole hours has it. It is spread over the hours of the gap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple

from ofu_exporter.fleet.history import queries
from ofu_exporter.fleet.history.answers import HistoryAnswers, job_of, over_gap, spread
from ofu_exporter.fleet.history.fleet_history import AbsentNode, ClusterJob, JobSums
from ofu_exporter.fleet.history.progress_sums import ProgressSums
from ofu_exporter.fleet.history.queries import Quantity, any_of, matcher
from ofu_exporter.fleet.history.served import TOKENS
from ofu_exporter.fleet.history.served_sums import ServedSums
from ofu_exporter.fleet.hours import DAY, HOUR, TimeSpan, successive_hours
from ofu_exporter.fleet.series import Series

NODES_AT_ONCE = 50
"""Nodes that are named in one query."""
_LOOK_HOURS = 0.5
"""How much longer than by looks a node may have been away."""
_IDLE_OFU = 0.001
"""As in the recording rules."""
_LEAST_SECONDS, _STEP_SECONDS = 300.0, 60.0
"""Of a gap that a job may have ended in, and between two looks for its begin and end."""
_GpusOfNodes = dict[str, dict[str, float]]
"""GPUs by node and model."""
_Place = tuple[str, str]
"""A cluster and a node of it."""
_JobOfNode = tuple[str, str]
"""A node and the id of a job on it."""
_BRIDGED = (
    *((each, each.name, queries.NODE_JOB) for each in queries.JOB_HOURS),
    (queries.LOST, "lost", f"{queries.NODE_JOB}, part"),
    (queries.GAINED, "gained", queries.NODE_JOB),
    (queries.ENERGY, "joules", queries.NODE_JOB),
)
"""Quantities whose counters go on, which sum of a job each is, and by what."""


class _Gap(NamedTuple):
    """Hours of a cluster in which the same nodes were away, with the missing share of each hour."""

    cluster: str
    first: int
    last: int
    nodes: dict[str, dict[int, float]]


class _Hole(NamedTuple):
    """A time in which a node was not seen."""

    seconds: float
    since: float
    """When it was last seen before."""


class AbsentNodeReader(HistoryAnswers):
    def _about(self, gap: _Gap) -> TimeSpan:
        """The gap with the hours beside it: some minutes of them, which may belong to it, are too few to be seen."""
        whole = self._history.clock.span(gap.first - 1, gap.last + 1)
        return whole._replace(end=min(whole.end, self._history.span.end))

    def read(self) -> None:
        """Name the nodes that were away, and bridge their gaps."""
        for gap in self._gaps():
            before, back = self._around(gap)
            for node in self._renamed(gap, gap.nodes.keys() - back):
                del gap.nodes[node]
            for node, shares in sorted(gap.nodes.items()):
                gpus = before[node]
                self._history.absent.append(
                    AbsentNode(gap.cluster, node, shares, sum(gpus.values()), node in back)
                )
                if node in back:  # its GPUs were there between, too
                    for model, count in gpus.items():
                        for hour, share in shares.items():
                            self._history.add_absent(hour, gap.cluster, model, count, share)
            holes = self._holes(gap)
            bridged = self._bridge(gap, before, back, self._ended(gap, holes)) if back else {}
            self._note_away(gap, holes, bridged)

    def _gaps(self) -> Iterator[_Gap]:
        nodes: dict[_Place, dict[int, float]] = defaultdict(dict)
        absent = partial(self._absent, {})
        for one in chain.from_iterable(self._reader.read("nodes", self._history.span, absent)):
            place = (one.labels.get("cluster", ""), one.labels.get("instance", ""))
            for time, share in one.points:
                nodes[place][self._history.clock.hour_of(time)] = share
        by_hours: dict[tuple[str, int, int], dict[str, dict[int, float]]] = defaultdict(dict)
        for (cluster, node), shares in nodes.items():
            for first, last in successive_hours(shares):
                part = {hour: shares[hour] for hour in range(first, last + 1)}
                by_hours[cluster, first, last][node] = part
        for (cluster, first, last), together in sorted(by_hours.items()):
            names = sorted(together)
            for at in range(0, len(names), NODES_AT_ONCE):
                some = {name: together[name] for name in names[at : at + NODES_AT_ONCE]}
                yield _Gap(cluster, first, last, some)

    def _absent(self, seen: dict[_Place, float], part: TimeSpan) -> list[Series]:
        """The shares of hours in which nodes were away; only nodes that may have been are asked about by hour.

        `seen` has the end of the last part in which each node was there: all that were a day before are known.
        """
        if part.start not in seen.values():
            for before in TimeSpan(part.start - DAY - HOUR, part.start).pieces(part.hours):
                self._looks(seen, before)
        always = self._looks(seen, part)
        recent = {place for place, last in seen.items() if last >= part.start - DAY}
        names = sorted({node for _, node in recent - always})
        expressions = [
            queries.ABSENT.replace("NODES", any_of("instance", names[at : at + NODES_AT_ONCE]))
            for at in range(0, len(names), NODES_AT_ONCE)
        ]
        client = self._reader.client
        return [one for each in expressions for one in client.steps(each, *part, HOUR)]

    def _looks(self, seen: dict[_Place, float], part: TimeSpan) -> set[_Place]:
        """Note which nodes were there, and give those that were in every look, which costs a fraction of all looks."""
        always = set()
        for one in self._reader.client.instant(queries.looks_at_nodes(part.hours), part.end):
            place = one.labels.get("cluster", ""), one.labels.get("instance", "")
            seen[place] = part.end
            if one.values[-1] >= part.hours * queries.LOOKS // 2:
                always.add(place)
        return always

    def _of_nodes(
        self, gap: _Gap, nodes: Iterable[str], time: float, expression: str
    ) -> Iterator[Series]:
        """The answer at a time about some nodes of the gap's cluster."""
        wanted = f"{matcher('cluster', gap.cluster)},{any_of('instance', nodes)}"
        named = expression.replace("NODES", wanted)
        return self._reader.series("nodes that were away", named, TimeSpan(time - HOUR, time))

    def _around(self, gap: _Gap) -> tuple[_GpusOfNodes, set[str]]:
        """Which GPUs the nodes had before, and which nodes are there again."""
        begin = self._history.clock.end_of(gap.first - 1)
        before: _GpusOfNodes = defaultdict(dict)
        for one in self._of_nodes(gap, gap.nodes, begin, queries.NODE_GPUS):
            gpus = before[one.labels.get("instance", "")]
            gpus[one.labels.get("model", "")] = one.points[-1][1]
        present = self._of_nodes(gap, gap.nodes, self._about(gap).end, queries.PRESENT)
        return before, {one.labels.get("instance", "") for one in present}

    def _renamed(self, gap: _Gap, gone: Iterable[str]) -> Iterator[str]:
        """Nodes all of whose GPUs go on under other names."""
        span = self._history.clock.span(gap.first, gap.last)
        had: dict[str, set[str]] = defaultdict(set)
        for one in self._of_nodes(gap, gone, span.start, queries.NODE_UUIDS) if gone else ():
            had[one.labels.get("instance", "")].add(one.labels.get("uuid", ""))
        if not had:
            return
        same = f"{matcher('cluster', gap.cluster)},{any_of('uuid', set().union(*had.values()))}"
        named = queries.NODE_UUIDS.replace("NODES", same)
        after = self._reader.series("renamed nodes", named, TimeSpan(span.end - HOUR, span.end))
        elsewhere = {
            one.labels.get("uuid", "") for one in after if one.labels.get("instance") not in had
        }
        yield from (node for node, uuids in had.items() if uuids <= elsewhere)

    def _holes(self, gap: _Gap) -> dict[str, _Hole]:
        """Since when nodes were not seen, and how long: the longest time of each about the gap."""
        end = self._history.clock.end_of(gap.last)
        return {
            node: max(
                _Hole(until - since, since) for since, until in pairwise([*sorted(times), end])
            )
            for (node, _), times in self._seen(gap, gap.nodes, queries.SEEN_NODES).items()
        }

    def _ended(self, gap: _Gap, holes: Mapping[str, _Hole]) -> set[_JobOfNode]:
        """Nodes with jobs that they no longer have."""
        return {
            (node, job.job_id)
            for (node, job), times in self._seen(gap, holes, queries.SEEN_JOBS).items()
            if holes[node].seconds > _LEAST_SECONDS and max(times) <= holes[node].since
        }

    def _note_away(
        self, gap: _Gap, holes: Mapping[str, _Hole], bridged: Container[_JobOfNode]
    ) -> None:
        """Note what jobs may have held that had GPUs as their node went away, where no counter went on."""
        for one in self._beside(gap, holes, queries.HELD_GPUS):
            key, node = job_of(one.labels), one.labels["instance"]
            job = self._history.jobs.get(self._history.owned(key, gap.first))
            seconds, since = holes[node]
            gpus = sum(gpus for time, gpus in one.points if 0 <= time - since < _STEP_SECONDS)
            if job is not None and seconds > _LEAST_SECONDS and (node, key.job_id) not in bridged:
                job.away += gpus * seconds / HOUR

    def _beside(self, gap: _Gap, nodes: Iterable[str], expression: str) -> Iterator[Series]:
        """The answer about some nodes, minute by minute, about the begin and the end of a gap."""
        ends = self._history.clock.end_of
        wanted = f"{matcher('cluster', gap.cluster)},{any_of('instance', nodes)}"
        named = expression.replace("NODES", wanted)
        spans = [TimeSpan(ends(gap.first) - 2 * HOUR, ends(gap.first))]
        after = TimeSpan(max(ends(gap.last) - HOUR, ends(gap.first)), self._about(gap).end)
        spans += [after] if after.hours else []
        for span in spans if nodes else ():
            yield from self._reader.series("nodes that were away", named, span, _STEP_SECONDS)

    def _seen(
        self, gap: _Gap, nodes: Iterable[str], expression: str
    ) -> dict[tuple[str, ClusterJob], set[float]]:
        """When nodes, or jobs on them, were seen then."""
        seen: dict[tuple[str, ClusterJob], set[float]] = defaultdict(set)
        for one in self._beside(gap, nodes, expression):
            seen[one.labels["instance"], job_of(one.labels)].update(at for _, at in one.points)
        return seen

    def _bridge(
        self, gap: _Gap, before: _GpusOfNodes, back: set[str], earlier: set[_JobOfNode]
    ) -> Mapping[_JobOfNode, float]:
        """Give the GPU-hours held that were added, of every job whose counter went on.

        `earlier`: nodes with jobs that ended; those are added that counted most before the gap.
        """
        wanted = f"{matcher('cluster', gap.cluster)},{any_of('instance', back)}"
        bridged: dict[str, dict[_JobOfNode, float]] = defaultdict(dict)
        jobs = f"{wanted},{self._jobs}" if self._jobs else wanted
        for quantity, name, by in _BRIDGED:
            for labels, hours in self._beyond(gap, quantity, (jobs, by)):
                shares, gpus = gap.nodes[labels["instance"]], before[labels["instance"]]
                place = labels["instance"], labels["job_id"]
                most = sum(gpus.values()) * (sum(shares.values()) + _LOOK_HOURS)
                if gpus and hours > most and name != "joules":
                    earlier.add(place)
                if place not in earlier:
                    bridged[name][place] = hours
                    self._add(gap, labels, name, hours * (HOUR if name == "joules" else 1.0))
        self._bridge_idle(gap, jobs, earlier)
        if not self._jobs:
            self._bridge_progress(gap, wanted)
            self._bridge_models(gap, wanted, before)
            self._bridge_served(gap, wanted, bridged)
        return bridged["held"]

    def _bridge_idle(self, gap: _Gap, jobs: str, earlier: Container[_JobOfNode]) -> None:
        """Of a job that used nothing over the whole gap, all that was measured meanwhile was idle."""
        _, observed, utilized, *_ = queries.JOB_HOURS
        by = jobs, queries.NODE_JOB
        used = {
            (of["instance"], of["job_id"]): hours
            for of, hours in self._beyond(gap, utilized, by, True)
        }
        for labels, hours in self._beyond(gap, observed, by, True):
            place = labels["instance"], labels["job_id"]
            if place not in earlier and used.get(place, 0.0) < _IDLE_OFU * hours:
                self._add(gap, labels, "idle", hours)

    def _add(self, gap: _Gap, labels: Mapping[str, str], name: str, hours: float) -> None:
        """Add to one of a job's sums, spread over the hours of the gap."""
        for hour, part in spread(hours, gap.nodes[labels["instance"]]):
            sums = JobSums()
            sums.add_each(name, [part], labels.get("part", ""))
            key = self._history.owned(job_of(labels), hour)
            self._history.add_hour(self._history.job(key), hour, sums)

    def _bridge_progress(self, gap: _Gap, wanted: str) -> None:
        for are_looks, matched in ((True, "=~"), (False, "!~")):
            reasons = f'{wanted},reason{matched}"evaluation|checkpoint"'
            by = reasons, f"{queries.NODE_JOB}, reason"
            for labels, hours in self._beyond(gap, queries.LOST_PROGRESS, by, are_looks):
                for hour, part in spread(hours, gap.nodes[labels["instance"]]):
                    key = self._history.owned(job_of(labels), hour)
                    sums = self._history.progress.setdefault(key, ProgressSums())
                    sums.lose(labels["reason"], hour, part)

    def _bridge_models(self, gap: _Gap, wanted: str, before: _GpusOfNodes) -> None:
        for quantity in queries.MODEL_HOURS:
            for labels, hours in self._beyond(gap, quantity, (wanted, queries.GPU)):
                gpus = before[labels["instance"]] or {"": 0.0}
                model = max(gpus, key=gpus.__getitem__)
                for hour, part in spread(hours, gap.nodes[labels["instance"]]):
                    of_model = self._history.model(hour, gap.cluster, model)
                    setattr(of_model, quantity.name, getattr(of_model, quantity.name) + part)

    def _bridge_served(
        self, gap: _Gap, wanted: str, bridged: Mapping[str, Mapping[_JobOfNode, float]]
    ) -> None:
        """Add what engines served, with the GPU-hours and the energy of the same time."""
        tokens: dict[_JobOfNode, dict[tuple[str, str], float]] = defaultdict(dict)
        for labels, hours in self._beyond(
            gap, TOKENS, (wanted, f"{queries.NODE_JOB}, served_model, kind")
        ):
            of_job = tokens[labels["instance"], labels["job_id"]]
            of_job[labels["served_model"], labels["kind"]] = HOUR * hours
        for place in tokens.keys() & bridged["held"].keys():
            key = self._history.owned(ClusterJob(gap.cluster, place[1]), gap.first)
            if any(tokens[place].values()) and (job := self._history.jobs.get(key)):
                job.served = job.served or ServedSums()
                energy = bridged["joules"].get(place)
                joules = None if energy is None else HOUR * energy
                job.served.add_hour(tokens[place], bridged["held"][place], joules)

    def _beyond(
        self, gap: _Gap, quantity: Quantity, wanted: tuple[str, str], are_looks: bool = False
    ) -> Iterator[tuple[dict[str, str], float]]:
        """GPU-hours that a counter counted over the gap, beyond what its single hours have; 0 where these have all.

        `wanted`: matchers, and the labels of which each combination counts once, however many scrape jobs tell of it.
        `are_looks`: what the hours have are looks, which know nothing of a gap.
        """
        matchers, by = wanted
        counter = f"{quantity.counter}{{{matchers}}}"
        span = self._about(gap)
        length = f"[{span.hours}h]"
        whole = over_gap(counter, length, by)

        def fetch(part: TimeSpan) -> tuple[list[Series], list[Series]]:
            if part != span:  # a gap that is cut has no end to count to
                return [], []
            each = f"max by ({by}) (increase({counter}[1h]))"
            client = self._reader.client
            cuts = self._cuts(gap, are_looks)
            hourly = [one for cut in cuts for one in client.steps(each, *cut, HOUR)]
            return client.instant(whole, part.end), hourly

        for over, hourly in self._reader.read("gaps of nodes", span, fetch):
            hourly_sums: dict[tuple[tuple[str, str], ...], float] = defaultdict(float)
            for one in hourly:
                hourly_sums[tuple(sorted(one.labels.items()))] += sum(one.values)
            for one in over:
                more = one.points[-1][1] - hourly_sums[tuple(sorted(one.labels.items()))]
                if one.labels["instance"] in gap.nodes:
                    yield one.labels, max(0.0, more) / HOUR

    def _cuts(self, gap: _Gap, are_looks: bool) -> list[TimeSpan]:
        """The time about a gap, cut where no hour knows what was before, as its hours were asked for or recorded.

        In VictoriaMetrics an increase counts from the last sample before, however long ago, of the same answer.
        """
        about, history = self._about(gap), self._history
        raw = {each for each in history.raw if each[0] == gap.cluster}
        ends = {history.clock.end_of(gap.first)}
        if (gap.cluster, gap.last) in raw and not are_looks:
            at_once = self._reader.hours_at_once
            ends = {part.end for _, span in self.raw_spans(raw) for part in span.pieces(at_once)}
        inside = sorted(end for end in ends if about.start < end < about.end)
        return [TimeSpan(*both) for both in pairwise([about.start, *inside, about.end])]
