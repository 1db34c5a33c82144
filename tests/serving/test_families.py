"""The metrics of a snapshot: one broken view costs its own series."""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.serving.families import counted, families, filled, timestamps
from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.metrics.spec import MetricSpec
from tests.helpers.node import EPOCH, snapshot_of
from tests.helpers.values import gpu, reading

SPEC = MetricSpec("ofu_x", "counter", ("gpu",), "Help.")


def test_rows_become_samples_under_the_name_of_their_kind() -> None:
    family = filled(SPEC, [(("0",), 1.0), (("1",), 2.0)])
    assert family.samples == [("_total", ("0",), 1.0), ("_total", ("1",), 2.0)]
    assert counted(SPEC, {("0",): 3}).samples == [("_total", ("0",), 3)]


def test_every_metric_is_there_once_and_a_gpu_that_cannot_be_shown_costs_its_own_rows() -> None:
    whole = snapshot_of(reading(), reading(device=gpu(1)))
    faults = Faults()
    made = {family.spec.name: family for family in families(whole, faults)}
    assert len(made["ofu_gpu_utilization_ratio"].samples) == 2
    assert faults.counts() == {}
    broken = whole.gpus[0]._replace(window=object())  # type: ignore[arg-type]
    some = {
        family.spec.name: family
        for family in families(replace(whole, gpus=(broken, whole.gpus[1])), faults)
    }
    assert [labels[0] for _, labels, _ in some["ofu_gpu_utilization_ratio"].samples] == ["1"]
    assert some.keys() == made.keys()
    assert faults.counts()["ofu_gpu_utilization_ratio"] == 1


def test_times_are_unix_times() -> None:
    snapshot = snapshot_of(reading())
    dated = {family.spec.name: family.samples for family in timestamps(snapshot)}
    ((_, _, unix),) = dated["ofu_gpu_sample_timestamp_seconds"]
    assert unix == EPOCH + 5.0
    assert dated["ofu_exporter_scheduler_answer_timestamp_seconds"] == []
