"""What all GPUs of a model share stands on the page once, and every GPU finds its own there by its labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ofu_exporter.hardware.gpu_models import ROWS, custom_row
from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.serving.collector import once
from ofu_exporter.serving.page import Page
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.snapshot import Snapshot
from tests.helpers.values import FakeClock, gpu, health

KEYS = ("model", "rated_as")
CONFIGURED = custom_row(
    name="NVIDIA Z999", tensor_clock_hz=1.5e9, flops_per_cycle_per_sm={"bf16": 4096}
)
NAMES = [row.names[0] for row in ROWS if row.names] + ["NVIDIA Z999", "NVIDIA Unheard", ""]


def snapshot_of(gpus: list[Gpu]) -> Snapshot:
    return step(State(), Tick(5.0, 5.0, gpus, [], health(), rows=(CONFIGURED,)))[1]


def samples(snapshot: Snapshot, name: str) -> list[tuple[Mapping[str, str], float]]:
    page = Page(FakeClock(snapshot.at), process=False)
    page.publish(snapshot)
    return [
        (sample.labels, sample.value)
        for family in text_string_to_metric_families(page.render().body.decode())
        for sample in family.samples
        if sample.name == name
    ]


def joined(
    snapshot: Snapshot, name: str, label: str
) -> dict[tuple[str, str], dict[str, list[float]]]:
    """What Prometheus finds for each GPU when it joins a metric of models by the labels of `ofu_gpu_info`."""
    of_models = samples(snapshot, name)
    return {
        (info["uuid"], info["gpu_instance"]): {
            one[label]: [
                value
                for labels, value in of_models
                if all(labels[key] == info[key] for key in KEYS) and labels[label] == one[label]
            ]
            for one, _ in of_models
            if all(one[key] == info[key] for key in KEYS)
        }
        for info, _ in samples(snapshot, "ofu_gpu_info")
    }


@given(
    st.lists(
        st.tuples(
            st.sampled_from(NAMES),
            st.sampled_from((None, 100, 132, 148, 152)),
            st.sampled_from(("", "1")),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_every_gpu_finds_its_own_clocks_and_peaks_and_each_once(
    kinds: list[tuple[str, int | None, str]],
) -> None:
    """Models, bins of a model, MIG instances, cards of the user's and unknown ones, on one node."""
    gpus = [
        Gpu(str(number), f"GPU-{number}", instance=part, name=name, sm_count=sms)
        for number, (name, sms, part) in enumerate(kinds)
    ]
    snapshot = snapshot_of(gpus)
    clocks = joined(snapshot, "ofu_model_tensor_clock_hertz", "domain")
    peaks = joined(snapshot, "ofu_model_peak_flops", "precision")
    assert len(snapshot.gpus) == len(gpus)
    for view in snapshot.gpus:
        rating = view.rating
        assert clocks[view.gpu.key] == _each_once(rating.tensor_clock_hz if rating else {})
        assert peaks[view.gpu.key] == _each_once(rating.peak_flops if rating else {})


def _each_once(values: Mapping[str, float]) -> dict[str, list[float]]:
    return {label: [value] for label, value in values.items()}


def test_gpus_that_are_rated_alike_have_one_series_together() -> None:
    snapshot = snapshot_of([gpu(number) for number in range(8)])
    assert len(samples(snapshot, "ofu_model_peak_flops")) == 6
    assert len(samples(snapshot, "ofu_model_tensor_clock_hertz")) == 2


def test_what_two_gpus_contradict_each_other_about_is_left_out() -> None:
    assert once([(("a",), 1.0), (("b",), 2.0), (("a",), 1.0), (("b",), 3.0)]) == [(("a",), 1.0)]
    rated, other = snapshot_of([gpu(0), gpu(1)]).gpus
    assert other.rating is not None
    wrong = other._replace(rating=replace(other.rating, peak_flops={"bf16": 1.0}))
    snapshot = replace(snapshot_of([]), gpus=(rated, wrong))
    shown = {labels["precision"] for labels, _ in samples(snapshot, "ofu_model_peak_flops")}
    assert "fp8" in shown
    assert "bf16" not in shown
