"""Evaluates the recording rules, as they are, over series of a simulated fleet.

It knows the PromQL that our rules are made of; over what is not there all of it has no series. A counter was 0 before
its first sample, so that nothing of a job's first minute is missing.
"""

from __future__ import annotations

import operator
import re
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import accumulate

import promql_parser as promql
import yaml

from ofu_exporter.cli.files import folder
from tests.simulated_history.series import ABSENT, RecordedSeries, is_there, together

FILES = ("target", "models", "jobs", "job-gpus", "owners", "baselines", "serving", "hours")
"""The files of rules that are not kept of single GPUs, in an order in which each follows from those before."""
ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "*": operator.mul,
    "/": operator.truediv,
    "-": operator.sub,
}
COMPARING: Mapping[str, Callable[[float, float], bool]] = {">": operator.gt, "==": operator.eq}
JOINING = {**ARITHMETIC, ">": lambda value, other: value if value > other else ABSENT}
COMBINING: Mapping[str, Callable[[float, float], float]] = {
    "count": operator.add,
    "max": max,
    "sum": operator.add,
}

Vector = list[RecordedSeries]


def recorded(series: Sequence[RecordedSeries], length: int) -> Iterator[RecordedSeries]:
    """The series of all rules over these series and each other, without the rules whose series are among these.

    `length` is the fleet's, in minutes.
    """
    by_name: dict[str, Vector] = {}
    for one in series:
        by_name.setdefault(one.name, []).append(one)
    for file in FILES:
        for group in yaml.safe_load((folder("rules") / f"{file}.yaml").read_text())["groups"]:
            step = _minutes(promql.parse_duration(group["interval"]))
            for rule in group["rules"]:
                name = rule["record"]
                if name not in by_name:
                    values = _Evaluation(by_name, step, length).of(promql.parse(rule["expr"]))
                    by_name[name] = [
                        RecordedSeries(name, one.labels, one.first, one.values, step)
                        for one in values
                    ]
                    yield from by_name[name]


def _minutes(time: timedelta | None) -> int:
    return 0 if time is None else int(time.total_seconds() // 60)


def _increase(one: RecordedSeries, ends: range, window: int) -> Iterator[float]:
    """By how much a counter grows in the minutes before each end: it was 0 before, and stays as it is at last."""
    values = array("d", [0.0]) * window + one.values + one.values[-1:] * window
    first, last = ends.start - one.first, ends.stop - one.first
    ahead = values[first + window : last + window : ends.step]
    return map(operator.sub, ahead, values[first : last : ends.step])


def _rate(one: RecordedSeries, ends: range, window: int) -> Iterator[float]:
    return (increase / (60 * window) for increase in _increase(one, ends, window))


def _sum_over_time(one: RecordedSeries, ends: range, window: int) -> Iterator[float]:
    """The sum of the samples in each range, of which both ends count."""
    sums = array("d", accumulate(value if is_there(value) else 0.0 for value in one.values))
    return _increase(RecordedSeries("", {}, one.first, sums), ends, window + 1)


def _count_over_time(one: RecordedSeries, ends: range, window: int) -> Iterator[float]:
    ones = array("d", (1.0 if is_there(value) else 0.0 for value in one.values))
    counts = _sum_over_time(RecordedSeries("", {}, one.first, ones), ends, window)
    return (count or ABSENT for count in counts)


def _lowest(
    one: RecordedSeries,
    ends: range,
    window: int,
    is_kept: Callable[[float, float], bool] = operator.lt,
) -> Iterator[float]:
    """The lowest sample of each range, or with `operator.gt` the highest."""
    samples = ((one.first + n * one.step, value) for n, value in enumerate(one.values))
    coming = ((minute, value) for minute, value in samples if is_there(value))
    ahead = next(coming, None)
    kept: deque[tuple[int, float]] = deque()
    for end in ends:
        while ahead and ahead[0] <= end:
            while kept and not is_kept(kept[-1][1], ahead[1]):
                kept.pop()
            kept.append(ahead)
            ahead = next(coming, None)
        while kept and kept[0][0] < end - window:
            kept.popleft()
        yield kept[0][1] if kept else ABSENT


def _highest_over_time(one: RecordedSeries, ends: range, window: int) -> Iterator[float]:
    return _lowest(one, ends, window, operator.gt)


def _last_over_time(one: RecordedSeries, ends: range, window: int) -> Iterator[float]:
    ranges = ((one.at(end - back) for back in range(window + 1)) for end in ends)
    return (next(filter(is_there, values), ABSENT) for values in ranges)


RANGES: Mapping[str, Callable[[RecordedSeries, range, int], Iterator[float]]] = {
    "count_over_time": _count_over_time,
    "increase": _increase,
    "last_over_time": _last_over_time,
    "max_over_time": _highest_over_time,
    "min_over_time": _lowest,
    "rate": _rate,
    "sum_over_time": _sum_over_time,
}
"""Functions of the minutes before each end, a range of time."""


class _Evaluation:
    """Evaluates expressions every `step` minutes."""

    def __init__(self, by_name: Mapping[str, Vector], step: int, length: int) -> None:
        self._by_name = by_name
        self._step = step
        self._length = length

    def of(self, expression: promql.Expr) -> Vector:
        """The series of an expression."""
        match expression:
            case promql.ParenExpr():
                return self.of(expression.expr)
            case promql.VectorSelector():
                offset = _minutes(expression.offset)
                return [self._seen(one, offset) for one in self._selected(expression)]
            case promql.AggregateExpr():
                return _aggregated(expression, self.of(expression.expr))
            case promql.Call():
                return self._called(expression.func.name, expression.args[0])
            case promql.BinaryExpr():
                return self._binary(expression)
        return []

    def _selected(self, selector: promql.VectorSelector) -> Vector:
        is_equal = (promql.MatchOp.Equal, promql.MatchOp.Re)
        matchers = [
            (
                each.name,
                each.value if "Re" in str(each.op) else re.escape(each.value),
                each.op in is_equal,
            )
            for each in selector.matchers.matchers
        ]
        return [
            one
            for one in self._by_name.get(selector.name or "", [])
            if all(
                bool(re.fullmatch(value, one.labels.get(name, ""))) == wanted
                for name, value, wanted in matchers
            )
        ]

    def _minutes(self, first: int, last: int) -> range:
        """The minutes of a time at which the rule is evaluated."""
        step = self._step
        return range(-(-first // step) * step, min(last, self._length) + 1, step)

    def _seen(self, one: RecordedSeries, offset: int) -> RecordedSeries:
        minutes = self._minutes(one.first + offset, one.end - one.step + offset)
        if not offset and one.step == self._step and one.end <= self._length + one.step:
            return one
        skipped = (minutes.start - offset - one.first) // one.step
        values = one.values[skipped :: self._step // one.step][: len(minutes)]
        return RecordedSeries("", one.labels, minutes.start, values, self._step)

    def _called(self, function: str, argument: promql.Expr) -> Vector:
        if isinstance(argument, promql.NumberLiteral):  # vector(0.4)
            values = array("d", [argument.val]) * (self._length // self._step + 1)
            return [RecordedSeries("", {}, 0, values, self._step)]
        if function == "label_replace":  # by a label that a Prometheus operator adds: there is none
            return self.of(argument)
        if not isinstance(argument, promql.MatrixSelector):
            return []
        selector, window = argument.vector_selector, _minutes(argument.range)
        offset = _minutes(selector.offset)
        vector = []
        for one in self._selected(selector):
            minutes = self._minutes(one.first + offset, one.end - 1 + offset + window)
            ends = range(minutes.start - offset, minutes.stop - offset, minutes.step)
            values = array("d", RANGES[function](one, ends, window))
            vector.append(RecordedSeries("", one.labels, minutes.start, values, self._step))
        return vector

    def _binary(self, expression: promql.BinaryExpr) -> Vector:
        sign, left, right = str(expression.op), expression.lhs, expression.rhs
        matching = _Matching(expression.modifier)
        if isinstance(left, promql.NumberLiteral):
            factor = left.val
            return _each(self.of(right), lambda value: ARITHMETIC[sign](factor, value))
        if isinstance(right, promql.NumberLiteral):
            number = right.val
            if sign in COMPARING:
                is_bool, holds = matching.is_bool, COMPARING[sign]
                return _each(
                    self.of(left), lambda v: (is_bool or v) if holds(v, number) else ABSENT
                )
            return _each(self.of(left), lambda value: ARITHMETIC[sign](value, number))
        these, others = self.of(left), self.of(right)
        if sign in JOINING:
            return matching.joined(these, others, JOINING[sign])
        if sign == "or":
            return [*these, *matching.where(others, these, False)]
        return matching.where(these, others, {"and": True, "unless": False}[sign])


def _each(vector: Vector, function: Callable[[float], float]) -> Vector:
    return [
        RecordedSeries("", one.labels, one.first, array("d", map(function, one.values)), one.step)
        for one in vector
    ]


def _aggregated(expression: promql.AggregateExpr, vector: Vector) -> Vector:
    how, by = str(expression.op), expression.modifier.labels if expression.modifier else []
    if how == "count":
        vector = _each(vector, lambda value: 1.0 if is_there(value) else ABSENT)
    groups: dict[tuple[str, ...], Vector] = {}
    for one in vector:
        groups.setdefault(tuple(one.labels.get(label, "") for label in by), []).append(one)
    if how == "topk":
        return [one for members in groups.values() for one in _highest(members)]
    return [
        _combined(dict(zip(by, key, strict=True)), members, COMBINING[how])
        for key, members in groups.items()
    ]


def _combined(
    labels: Mapping[str, str], members: Vector, combine: Callable[[float, float], float]
) -> RecordedSeries:
    first, values = together(members, combine)
    return RecordedSeries("", labels, first, values, members[0].step)


def _highest(members: Vector) -> Iterator[RecordedSeries]:
    """The series, each where it is above all others; of equal ones the first is."""
    if len(members) == 1:
        yield members[0]
        return
    first, highest = together(members, max)
    for one in members:
        values = array("d")
        for place, value in enumerate(one.values, (one.first - first) // one.step):
            is_highest = value == highest[place]
            values.append(value if is_highest else ABSENT)
            if is_highest:
                highest[place] = ABSENT
        yield RecordedSeries("", one.labels, one.first, values, one.step)


class _Matching:
    """Finds for a series of one side those of the other side that belong to it."""

    def __init__(self, modifier: promql.BinModifier | None) -> None:
        on = modifier.matching if modifier else None
        self._on = None if on is None else on.labels
        self.is_bool = bool(modifier and modifier.return_bool)
        self._right_is_many = modifier is not None and "OneToMany" in str(modifier.card)
        self._added = (modifier.group_labels or ()) if modifier else ()

    def _key(self, one: RecordedSeries) -> frozenset[tuple[str, str]]:
        labels = one.labels.items()
        return frozenset((k, v) for k, v in labels if v and (self._on is None or k in self._on))

    def _pairs(self, left: Vector, right: Vector) -> Iterator[tuple[RecordedSeries, Vector]]:
        others: dict[frozenset[tuple[str, str]], Vector] = {}
        for one in right:
            others.setdefault(self._key(one), []).append(one)
        return ((one, others.get(self._key(one), [])) for one in left)

    def joined(
        self, left: Vector, right: Vector, operation: Callable[[float, float], float]
    ) -> Vector:
        """An operation on each series and its others. Where two give series of equal labels, these are one."""
        if self._right_is_many:
            left, right, one_to_one = right, left, operation
            operation = lambda value, other: one_to_one(other, value)  # noqa: E731
        results: dict[tuple[tuple[str, str], ...], Vector] = {}
        for one, others in self._pairs(left, right):
            for other in others:
                begin, end = max(one.first, other.first), min(one.end, other.end)
                values = array(
                    "d", map(operation, _part(one, begin, end), _part(other, begin, end))
                )
                labels = {label: one.labels.get(label, "") for label in self._on or ()}
                labels |= {label: other.labels.get(label, "") for label in self._added}
                labels |= one.labels
                result = RecordedSeries("", labels, begin, values, one.step)
                results.setdefault(tuple(labels.items()), []).append(result)
        return [_combined(each[0].labels, each, operator.add) for each in results.values()]

    def where(self, vector: Vector, others: Vector, wanted: bool) -> Vector:
        """The samples at whose minute another series that belongs to theirs has one, or has none."""
        return [
            RecordedSeries(
                "", one.labels, one.first, array("d", _masked(one, these, wanted)), one.step
            )
            for one, these in self._pairs(vector, others)
        ]


def _part(one: RecordedSeries, begin: int, end: int) -> array[float]:
    return one.values[(begin - one.first) // one.step : max(0, end - one.first) // one.step]


def _masked(one: RecordedSeries, others: Vector, wanted: bool) -> Iterator[float]:
    for minute, value in zip(range(one.first, one.end, one.step), one.values, strict=True):
        has_other = any(is_there(other.at(minute)) for other in others)
        yield value if has_other == wanted else ABSENT
