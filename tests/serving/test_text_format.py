"""The text formats: to the byte what Prometheus' own library writes, whatever the labels and values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from ofu_exporter.serving.metrics.spec import MetricSpec
from ofu_exporter.serving.text_format import (
    END,
    OPENMETRICS,
    TEXT,
    MetricFamily,
    chosen_format,
    number,
    written,
)

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.floats() | st.integers(-(1 << 60), 1 << 60) | st.booleans()
NAMES = ("uuid", "gpu", "a", "reason")
PROMETHEUS = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*"


class Registry:
    """Some metrics in the shape that the library's encoders take."""

    def __init__(self, *metrics: Metric) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


def never(where: str, error: Exception) -> None:
    raise AssertionError(where) from error


ROWS = st.integers(0, 4).flatmap(
    lambda count: st.tuples(
        st.permutations(NAMES[:count]),
        st.lists(st.tuples(st.lists(WORDS, min_size=count, max_size=count), NUMBERS), min_size=1),
    )
)


@given(st.sampled_from(["gauge", "counter"]), ROWS, WORDS)
def test_the_librarys_own_encoders_write_the_same(
    kind: str, rows: tuple[list[str], list[tuple[list[str], float]]], help_: str
) -> None:
    names, samples = rows
    ours = MetricFamily(MetricSpec("ofu_x_seconds", kind, tuple(names), help_))
    make = GaugeMetricFamily if kind == "gauge" else CounterMetricFamily
    theirs = make("ofu_x_seconds", help_, labels=names)
    for labels, value in samples:
        ours.add_metric(tuple(labels), value)
        theirs.add_metric(labels, value)
    assert written(ours, TEXT, never) == generate_latest(Registry(theirs))
    openmetrics: bytes = generate_openmetrics(Registry(theirs))
    assert written(ours, OPENMETRICS, never) + END == openmetrics


@given(NUMBERS, NUMBERS)
def test_a_summary_has_a_count_and_a_sum(count: float, total: float) -> None:
    ours = MetricFamily(MetricSpec("ofu_x_seconds", "summary", ("source",), "Help."))
    ours.add_summary(("nvml",), count, total)
    theirs = SummaryMetricFamily("ofu_x_seconds", "Help.", labels=("source",))
    theirs.add_metric(("nvml",), count_value=count, sum_value=total)  # type: ignore[arg-type]
    assert written(ours, TEXT, never) == generate_latest(Registry(theirs))


@given(NUMBERS)
def test_a_number_is_read_back_as_it_was(value: float) -> None:
    assert float(number(value)) == pytest.approx(float(value), rel=0, abs=0, nan_ok=True)


def test_a_metric_without_a_sample_is_not_there() -> None:
    assert written(MetricFamily(MetricSpec("ofu_x", "gauge", (), "Help.")), TEXT, never) == b""


def test_a_sample_that_cannot_be_written_costs_itself() -> None:
    refused: list[str] = []
    family = MetricFamily(MetricSpec("ofu_x", "gauge", ("gpu",), "Help."))
    for name, value in (("0", 1.0), ("\ud800", 2.0), ("2", "no number"), ("3", 4.0)):
        family.add_metric((name,), value)  # type: ignore[arg-type]
    text = written(family, TEXT, lambda where, _: refused.append(where)).decode()
    assert text.splitlines()[2:] == ['ofu_x{gpu="0"} 1.0', 'ofu_x{gpu="3"} 4.0']
    assert refused == ["ofu_x", "ofu_x"]
    family.samples = family.samples[1:2]
    assert written(family, TEXT, lambda *_: None) == b""


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "text/html",
        "text/plain; version=0.0.4",
        "application/openmetrics-text",
        "application/openmetrics-text; version=1.0.0",
        "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3",
        "application/openmetrics-text;version=0.0.1,application/openmetrics-text;version=1.0.0",
        PROMETHEUS,
    ],
)
def test_the_format_is_the_one_that_the_library_would_choose(accept: str) -> None:
    kind = choose_encoder(accept)[1].partition(";")[0]
    assert chosen_format(accept).content_type.startswith(kind)


@pytest.mark.parametrize(
    "accept", ["application/openmetrics-text;version=", ";;,,==", "text/plain;version=1.0.0"]
)
def test_an_odd_wish_is_answered_all_the_same(accept: str) -> None:
    assert chosen_format(accept) in (TEXT, OPENMETRICS)
