"""Asks a server for the hours of a history: of the recording rules, else of the agents' own series."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TypeVar

from ofu_exporter.fleet.chunks import Answers, ChunkReader
from ofu_exporter.fleet.history.fleet_history import ClusterHour, ClusterJob, FleetHistory, HourSums
from ofu_exporter.fleet.history.queries import Quantity, looks_into
from ofu_exporter.fleet.hours import HOUR, ServerClock, TimeSpan, successive_hours
from ofu_exporter.fleet.series import Series

KeyT = TypeVar("KeyT", bound=tuple[str, ...])


class HistoryAnswers:
    """The answers of a server about one history."""

    def __init__(self, reader: ChunkReader, history: FleetHistory, jobs: str = "") -> None:
        """`jobs`: a matcher of PromQL for the jobs that are wanted; all jobs without it."""
        self._reader = reader
        self._history = history
        self._jobs = jobs
        self._agents: set[ClusterHour] = set()
        """Hours of which the agents' own series are there."""

    def about(self, jobs: str) -> HistoryAnswers:
        """The same for the jobs that a matcher selects."""
        answers = HistoryAnswers(self._reader, self._history, jobs)
        answers._agents = self._agents
        return answers

    def values_at_end(
        self, what: str, expression: str
    ) -> Iterator[tuple[Mapping[str, str], float]]:
        """The values of an expression at the end of the time, with their labels."""
        end = self._history.span.end
        for one in self._reader.series(what, expression, TimeSpan(end - HOUR, end)):
            yield from ((one.labels, value) for _, value in one.points)

    def either(self, quantity: Quantity) -> Iterator[list[Series]]:
        """The answers from recorded series, and from the agents' own for the hours that need them."""
        return (answer for (answer,) in self.together(quantity.name, [quantity]))

    def together(self, what: str, quantities: Sequence[Quantity]) -> Iterator[Answers]:
        """The same of several quantities, of which an hour has all or none."""
        history, wanted = self._history, set(self._history.raw)
        early = self._early()
        are_always_there = all(each.is_always_there for each in quantities)
        if history.recorded or not history.raw:
            recorded: set[ClusterHour] = set()
            expressions = [each.of_jobs(self._jobs) for each in quantities]
            for answers in self._reader.stepped(what, expressions, history.span):
                if are_always_there:
                    recorded |= self.hours_of(answers)
                yield [
                    [without(one, history.raw | early.keys(), history.clock) for one in answer]
                    for answer in answers
                ]
            if are_always_there:
                wanted |= self._agents - recorded
        yield from self._raw(what, quantities, wanted - early.keys())
        yield from self.finer(what, quantities)

    def finer(self, what: str, quantities: Sequence[Quantity]) -> Iterator[Answers]:
        """The same of the hours of which only a part is known, by more looks."""
        early = self._early()
        for looks in sorted(set(early.values())):
            finer = [each.with_looks(looks) for each in quantities]
            yield from self._raw(what, finer, {hour for hour in early if early[hour] == looks})

    def _early(self) -> dict[ClusterHour, int]:
        """How often to look into the hours of which only a part is known."""
        covered = self._history.covered
        return {
            hour: looks_into(covered[hour])
            for hour in self._agents & covered.keys()
            if covered[hour] < 1
        }

    def of_agents(
        self, quantities: Sequence[Quantity], hours: set[ClusterHour]
    ) -> Iterator[Answers]:
        """The same of hours as far as the agents' own series are there."""
        return self._raw(quantities[0].name, quantities, hours & self._agents)

    def _raw(
        self, what: str, quantities: Sequence[Quantity], hours: set[ClusterHour]
    ) -> Iterator[Answers]:
        for cluster, span in self.raw_spans(hours):
            expressions = [each.of_cluster(cluster, self._jobs) for each in quantities]
            yield from self._reader.stepped(f"{what} without rules", expressions, span)

    def raw_spans(self, wanted: set[ClusterHour]) -> Iterator[tuple[str, TimeSpan]]:
        """Hours as clusters and times without a gap."""
        for name in sorted({cluster for cluster, _ in wanted}):
            hours = [hour for cluster, hour in wanted if cluster == name]
            for first, last in successive_hours(hours):
                yield name, self._history.clock.span(first, last)

    def hours_of(self, answers: Iterable[Iterable[Series]]) -> set[ClusterHour]:
        """The hours that answers have a value of."""
        hour_of = self._history.clock.hour_of
        times: dict[str, set[float]] = defaultdict(set)
        for each in answers:
            for one in each:
                times[cluster_of(one.labels)].update(one.times)
        return {
            (cluster, hour_of(time)) for cluster, instants in times.items() for time in instants
        }

    def largest(
        self, answer: Iterable[Series], key: Callable[[Mapping[str, str]], KeyT]
    ) -> dict[KeyT, dict[int, float]]:
        """One value by key and hour: two replicas of a server tell the same hour twice."""
        hours_of = self._history.clock.hours_of
        by_key: dict[KeyT, dict[int, float]] = {}
        for one in answer:
            hours = dict(zip(hours_of(one.times), one.values, strict=True))
            other = by_key.setdefault(key(one.labels), hours)
            if other is not hours:
                for hour, value in hours.items():
                    other[hour] = max(value, other.get(hour, value))
        return by_key

    def values_of(
        self, answer: Iterable[Series], key: Callable[[Mapping[str, str]], KeyT]
    ) -> Iterator[tuple[KeyT, int, float]]:
        """The same, value by value."""
        for one, hours in sorted(self.largest(answer, key).items()):
            for hour, value in sorted(hours.items()):
                yield one, hour, value


def over_gap(counter: str, length: str, by: str) -> str:
    """What a counter that did not start anew counted over a gap of this length.

    Of one that is new behind the gap that is also its first value, unless it is that of ten scrapes or fewer, which
    engines count or extrapolate.
    """
    grown, first = f"increase({counter}{length})", f"min_over_time({counter}{length})"
    new = f"{grown} + ({first} > 11 * {grown} / count_over_time({counter}{length}))"
    new = f"({new} unless last_over_time({counter}[1h] offset {length[1:-1]}))"
    return f"max by ({by}) (({new} or {grown}) and resets({counter}{length}) == 0)"


def spread(hours: float, shares: Mapping[int, float]) -> Iterable[tuple[int, float]]:
    """The same GPU-hours, over the hours of a gap as far as each of them is missing."""
    whole = sum(shares.values())
    return [(hour, hours * share / whole) for hour, share in shares.items()] if hours else []


def sums_of_hour(values: Sequence[float | None]) -> HourSums:
    """The sums of an hour, in the order of JOB_HOURS. One that lacks what it is divided by counts for nothing."""
    held, observed, utilized, compared, mfu, compared_utilized = values
    if observed is None or utilized is None:
        observed = utilized = 0.0
    if compared is None or mfu is None or compared_utilized is None:
        compared = mfu = compared_utilized = 0.0
    return (held or 0.0, observed, utilized, compared, mfu, compared_utilized)


def add_up(sums: MutableMapping[str, float], name: str, values: Iterable[float]) -> None:
    """Add values one by one, so that the sum is the same to the last bit however the time is cut."""
    for value in values:
        sums[name] = sums.get(name, 0.0) + value


def without(one: Series, hours: set[ClusterHour], clock: ServerClock) -> Series:
    if not hours:
        return one
    cluster = cluster_of(one.labels)
    points = [point for point in one.points if (cluster, clock.hour_of(point[0])) not in hours]
    return Series.of(one.labels, points)


def cluster_of(labels: Mapping[str, str]) -> str:
    return labels.get("cluster", "")


def job_of(labels: Mapping[str, str]) -> ClusterJob:
    return ClusterJob(cluster_of(labels), labels.get("job_id", ""))


def job_and_loss_of(labels: Mapping[str, str]) -> tuple[str, str, str, str]:
    return (*job_of(labels), labels.get("part", ""))


def model_of(labels: Mapping[str, str]) -> tuple[str, str]:
    return (cluster_of(labels), labels.get("model", ""))
