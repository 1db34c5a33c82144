"""Asks a server for the hours of a history: of the recording rules, else of the agents' own series."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ofu_exporter.fleet.hours import HOUR, TimeSpan, runs
from ofu_exporter.fleet.parts import PartReader
from ofu_exporter.fleet.prometheus import PrometheusClient, Series
from ofu_exporter.fleet.reports.fleet_history import ClusterHour, FleetHistory
from ofu_exporter.fleet.reports.hour_values import cluster_of, without
from ofu_exporter.fleet.reports.queries import Quantity

Answers = Sequence[list[Series]]


class HistoryAnswers:
    """The answers of a server about one history."""

    def __init__(
        self, client: PrometheusClient, reader: PartReader, history: FleetHistory, jobs: str = ""
    ) -> None:
        """`jobs`: a matcher of PromQL for the jobs that are wanted; all jobs without it."""
        self._client = client
        self._reader = reader
        self._history = history
        self._jobs = jobs
        self._agents: set[ClusterHour] = set()
        """Hours of which the agents' own series are there."""

    def value_at_end(self, what: str, expression: str) -> float | None:
        """The one value of an expression at the end of the time."""
        values: list[float] = []
        part = TimeSpan(self._history.span.end - HOUR, self._history.span.end)
        answers = self._reader.read(
            what, part, lambda one: self._client.instant(expression, one.end)
        )
        for _, series in answers:
            values += [value for one in series for _, value in one.points]
        return values[0] if values else None

    def recorded(self, what: str, names: Sequence[str]) -> Iterator[tuple[TimeSpan, Answers]]:
        """The samples that the rules have recorded, part by part."""

        def fetch(part: TimeSpan) -> Answers:
            return [self._client.recorded(name, *part) for name in names]

        return self._reader.read(what, self._history.span, fetch)

    def stepped(
        self, what: str, expressions: Sequence[str], span: TimeSpan
    ) -> Iterator[tuple[TimeSpan, Answers]]:
        """Expressions at the end of every hour of a time, part by part."""

        def fetch(part: TimeSpan) -> Answers:
            return [self._client.steps(each, *part, HOUR) for each in expressions]

        return self._reader.read(what, span, fetch)

    def series(
        self, what: str, expression: str, span: TimeSpan, step: float = HOUR
    ) -> Iterator[Series]:
        """The series of an expression at the end of every step, part by part."""

        def fetch(part: TimeSpan) -> list[Series]:
            return self._client.steps(expression, *part, step)

        for _, series in self._reader.read(what, span, fetch):
            yield from series

    def either(self, quantity: Quantity) -> Iterator[list[Series]]:
        """The answers from recorded series, and from the agents' own for the hours that need them."""
        return (answer for (answer,) in self.together(quantity.name, [quantity]))

    def together(self, what: str, quantities: Sequence[Quantity]) -> Iterator[Answers]:
        """The same of several quantities, of which an hour has all or none."""
        history, wanted = self._history, set(self._history.raw)
        are_always_there = all(each.is_always_there for each in quantities)
        if history.recorded or not history.raw:
            there: set[ClusterHour] = set()
            expressions = [each.of_jobs(self._jobs) for each in quantities]
            for _, answers in self.stepped(what, expressions, history.span):
                if are_always_there:
                    there |= self.seen(answers)
                yield [
                    [without(one, history.raw, history.clock) for one in answer]
                    for answer in answers
                ]
            if are_always_there:
                wanted |= self._agents - there
        for cluster, span in self.raw_spans(wanted):
            expressions = [each.of_cluster(cluster, self._jobs) for each in quantities]
            for _, answers in self.stepped(f"{what} without rules", expressions, span):
                yield answers

    def raw_spans(self, wanted: set[ClusterHour]) -> Iterator[tuple[str, TimeSpan]]:
        """Hours as clusters and times without a gap."""
        for name in sorted({cluster for cluster, _ in wanted}):
            hours = [hour for cluster, hour in wanted if cluster == name]
            for first, last in runs(hours):
                yield name, self._history.clock.span(first, last)

    def seen(self, answers: Iterable[Iterable[Series]]) -> set[ClusterHour]:
        """The hours that answers have a value of."""
        hour_of = self._history.clock.hour_of
        times: dict[str, set[float]] = defaultdict(set)
        for each in answers:
            for one in each:
                times[cluster_of(one.labels)].update(time for time, _ in one.points)
        return {(cluster, hour_of(time)) for cluster, seen in times.items() for time in seen}
