"""The metrics of a snapshot: one broken view costs its own series."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import Metric

from ofu_exporter.serving.collector import filled, of_snapshot
from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.metrics.spec import Metric as OfuMetric
from ofu_exporter.values.snapshot import SourceHealth
from tests.helpers.node import EPOCH, snapshot_of
from tests.helpers.values import gpu, health, reading

SPEC: OfuMetric[[]] = OfuMetric("counter", "ofu_x", "Help.", lambda: (), ("gpu",))


def test_rows_become_samples_under_the_name_of_their_kind() -> None:
    family = filled(SPEC, [(("0",), 1.0), (("1",), 2.0)], Faults())
    assert shown(family) == [("ofu_x_total", {"gpu": "0"}, 1.0), ("ofu_x_total", {"gpu": "1"}, 2.0)]


def shown(family: Metric) -> list[tuple[str, dict[str, str], float]]:
    return [(each.name, each.labels, each.value) for each in family.samples]


@pytest.mark.parametrize(
    "row", [(("\ud800",), 1.0), ((), 1.0), (("0", "1"), 1.0), ((None,), 1.0), (("0",), "much")]
)
def test_a_row_that_no_page_can_hold_costs_itself(row: Any) -> None:
    faults = Faults()
    assert shown(filled(SPEC, [row, (("1",), 2.0)], faults)) == [("ofu_x_total", {"gpu": "1"}, 2.0)]
    assert faults.counts() == {"ofu_x": 1}


def test_every_metric_is_there_once_and_a_gpu_that_cannot_be_shown_costs_its_own_rows() -> None:
    whole = snapshot_of(reading(), reading(device=gpu(1)))
    faults = Faults()
    made = {family.name: family for family in of_snapshot(whole, faults)}
    assert len(made["ofu_gpu_utilization_ratio"].samples) == 2
    assert faults.counts() == {}
    broken = whole.gpus[0]._replace(window=object())  # type: ignore[arg-type]
    some = {
        family.name: family
        for family in of_snapshot(replace(whole, gpus=(broken, whole.gpus[1])), faults)
    }
    assert [each.labels["gpu"] for each in some["ofu_gpu_utilization_ratio"].samples] == ["1"]
    assert some.keys() == made.keys()
    assert faults.counts()["ofu_gpu_utilization_ratio"] == 1


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (health(), 0.0),
        (health("simulate", simulated=True), 1.0),
        (replace(health("replay"), recorded="an H100"), 1.0),
    ],
)
def test_a_page_says_when_no_gpu_of_the_node_is_measured(
    source: SourceHealth, shown: float
) -> None:
    made = of_snapshot(snapshot_of(reading(), source=source), Faults())
    (simulated,) = (each for each in made if each.name == "ofu_exporter_simulated")
    assert simulated.samples[0].value == shown


def test_times_are_unix_times() -> None:
    dated = {family.name: shown(family) for family in of_snapshot(snapshot_of(reading()), Faults())}
    ((_, _, unix),) = dated["ofu_gpu_sample_timestamp_seconds"]
    assert unix == EPOCH + 5.0
    assert dated["ofu_exporter_scheduler_answer_timestamp_seconds"] == []
