"""Makes the recorded series that follow from others, by the recording rules themselves.

It reads the forms of PromQL of which such rules are made: a sum or count by labels, a quotient, a difference, and what
is short of the target. A rule of another form, or over series that are not there, is left to whoever makes its series.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import yaml

from ofu_exporter.fleet.simulation.series import ABSENT, RecordedSeries, Totals, divided, minus
from ofu_exporter.support.packed_files import folder

FILES = ("jobs.yaml", "models.yaml", "owners.yaml", "hours.yaml")
"""The files of rules, in an order in which each follows from those before."""
_NAME = r"[a-z]\w*:\w+:\w+"
_SUM = rf'(?:(?P<how>sum|count) by \((?P<by>[\w, ]+)\) \()?(?P<name>{_NAME})(?:{{(?P<label>\w+)!=""}})?(?: > 0)?\)?'
_TERM = re.compile(_SUM)
_QUOTIENT = re.compile(r"(?P<over>.+?)\s*/ \((?P<under>.+) > 0\)")
_DIFFERENCE = re.compile(rf"({_NAME}) - ({_NAME})")
_WASTE = re.compile(rf"({_NAME}) \* on \(\) group_left \(\) max\(({_NAME})\)\s*- ({_NAME})")

Vector = list[RecordedSeries]


class Rule(NamedTuple):
    """One recording rule."""

    record: str
    expression: str


def rules() -> Iterator[Rule]:
    """The rules of these files."""
    for file in FILES:
        for group in yaml.safe_load((folder("rules") / file).read_text())["groups"]:
            yield from (Rule(rule["record"], rule["expr"].strip()) for rule in group["rules"])


def derived(series: Iterable[RecordedSeries], length: int) -> Iterator[RecordedSeries]:
    """The series of rules over these series and over each other; `length` is the fleet's, in minutes."""
    by_name: dict[str, Vector] = {}
    for one in series:
        by_name.setdefault(one.name, []).append(one)
    names = frozenset(by_name)
    for rule in rules():
        if rule.record not in names:
            for one in _Evaluation(by_name, length).of(rule.expression):
                following = RecordedSeries(rule.record, one.labels, one.first, one.values, one.step)
                by_name.setdefault(rule.record, []).append(following)
                yield following


class _Evaluation:
    """Evaluates expressions over series by name. What it cannot read has no series."""

    def __init__(self, by_name: Mapping[str, Vector], length: int) -> None:
        self._by_name = by_name
        self._length = length

    def of(self, expression: str) -> Vector:
        """The series of an expression."""
        if waste := _WASTE.fullmatch(expression):
            observed, target, used = (self._by_name.get(name, []) for name in waste.groups())
            goal = target[0].values[0] if target else ABSENT
            short = [
                RecordedSeries(
                    "", one.labels, one.first, array("d", (goal * v for v in one.values)), one.step
                )
                for one in observed
            ]
            return _joined(short, used, minus)
        if difference := _DIFFERENCE.fullmatch(expression):
            left, right = (self._by_name.get(name, []) for name in difference.groups())
            return _joined(left, right, minus)
        if quotient := _QUOTIENT.fullmatch(expression):
            return _joined(self._term(quotient["over"]), self._term(quotient["under"]), divided)
        return self._term(expression)

    def _term(self, expression: str) -> Vector:
        term = _TERM.fullmatch(expression.strip())
        if term is None:
            return []
        label = term["label"]
        series = [
            one
            for one in self._by_name.get(term["name"], [])
            if label is None or one.labels.get(label)
        ]
        if term["how"] is None:
            return series
        return self._together(series, term["by"].split(", "), term["how"] == "count")

    def _together(self, series: Vector, by: Sequence[str], is_count: bool) -> Vector:
        """The sums of series, or how many are above 0, by labels."""
        totals: dict[tuple[str, ...], Totals] = {}
        step = series[0].step if series else 1
        for one in series:
            values = one.values
            if is_count:
                values = array("d", (1.0 if value > 0 else ABSENT for value in values))
            key = tuple(one.labels.get(label, "") for label in by)
            sums = totals.setdefault(key, Totals(self._length // step + 1))
            sums.add(RecordedSeries("", {}, one.first // step, values))
        return [
            RecordedSeries("", dict(zip(by, key, strict=True)), 0, sums.values, step)
            for key, sums in sorted(totals.items())
        ]


def _joined(
    left: Vector, right: Vector, join: Callable[[array[float], array[float]], array[float]]
) -> Vector:
    """An operation on series with equal labels, which begin at the same minute."""
    others = {frozenset(one.labels.items()): one for one in right}
    return [
        RecordedSeries("", one.labels, one.first, join(one.values, other.values), one.step)
        for one in left
        if (other := others.get(frozenset(one.labels.items()))) is not None
    ]
