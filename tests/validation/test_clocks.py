"""Clock domains: found as they were put in, compared with the table, proposed for a card that it lacks."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
import yaml

from ofu_exporter.hardware import gpu_models, gpu_rows
from ofu_exporter.settings import Settings
from ofu_exporter.validation import Trial, clocks, session
from ofu_exporter.validation.clocks import Domain
from ofu_exporter.validation.results import result
from ofu_exporter.values.gpu import Gpu, Rating
from tests.helpers.every import every
from tests.validation.simulation import bench

PRECISIONS = ("bf16", "fp8", "int8", "fp64")
PUBLISHED = {"bf16": 989.4e12, "fp64": 66.9e12}


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> list[Trial]:
    made = bench(tmp_path_factory.mktemp("clocks"))
    return made.trials(session.clock_products(PRECISIONS, 5.0))


def found(trials: list[Trial], gpu: Gpu, published: dict[str, float]) -> dict[str, Domain]:
    rating = gpu_models.rate(gpu) or gpu_models.estimate(gpu)
    assert rating is not None
    results = [each for trial in trials if (each := result(trial, rating))]
    domains = clocks.domains(trials, results, gpu, rating, published)
    return {each.precision: each for each in domains}


def card(trials: list[Trial]) -> Gpu:
    return trials[0].readings[0].gpu


def unknown(trials: list[Trial]) -> Gpu:
    """The same chip, which no row knows."""
    return replace(card(trials), name="NVIDIA Z999", pci_device_id="1234")


def test_flops_per_cycle_come_out(trials: list[Trial]) -> None:
    domains = found(trials, card(trials), {})
    assert {name: each.whole for name, each in domains.items()} == {
        "bf16": 4096,
        "fp8": 8192,
        "int8": 8192,
        "fp64": 256,
    }
    for each in domains.values():
        assert each.flops_per_cycle_per_sm == pytest.approx(each.whole, rel=0.01)
        assert each.row_flops_per_cycle_per_sm == each.whole


def test_without_sms_or_a_busy_window_there_is_no_domain(trials: list[Trial]) -> None:
    assert found(trials, replace(card(trials), sm_count=None), {}) == {}
    for active, is_busy in ((0.29, False), (0.31, True)):
        some = [
            replace(
                trial,
                readings=tuple(replace(each, tensor_active=active) for each in trial.readings),
            )
            if trial.product.precision == "fp8"
            else trial
            for trial in trials
        ]
        assert ("fp8" in found(some, card(trials), {})) == is_busy


def test_the_two_domains_run_to_different_clocks(trials: list[Trial]) -> None:
    domains = found(trials, card(trials), {})
    assert domains["bf16"].highest_clock_hz == pytest.approx(1830e6, rel=0.002)
    assert domains["fp64"].highest_clock_hz == pytest.approx(1980e6, rel=0.002)
    assert domains["bf16"].row_clock_hz == 1830e6
    assert not [note for each in domains.values() for note in each.notes]


def test_the_tensor_clock_is_what_the_published_peak_implies(trials: list[Trial]) -> None:
    domains = found(trials, unknown(trials), PUBLISHED)
    assert domains["bf16"].implied_clock_hz == pytest.approx(1830e6, rel=0.001)
    assert domains["fp64"].implied_clock_hz == pytest.approx(1980e6, rel=0.001)
    assert domains["fp8"].implied_clock_hz is None
    assert domains["bf16"].row_clock_hz is None


def test_what_the_table_has_otherwise_is_said(trials: list[Trial]) -> None:
    """As if the table had half the clock, and the card half the rate."""
    domains = found(trials, card(trials), {"bf16": 989.4e12 / 2})
    assert "implies 915 MHz, the table has 1830" in domains["bf16"].notes[0]
    for off, is_told in ((0.981, False), (0.979, True)):
        near = found(trials, card(trials), {"bf16": 989.4e12 * off})
        assert bool(near["bf16"].notes) == is_told
    slow = [
        replace(
            trial, marks=tuple(mark._replace(launches=mark.launches / 2) for mark in trial.marks)
        )
        for trial in trials
    ]
    domains = found(slow, card(trials), {})
    assert domains["bf16"].whole == 2048
    assert "-50.0% from the table's 4096" in domains["bf16"].notes[0]


def test_the_proposed_setting_is_one_that_the_agent_takes(trials: list[Trial]) -> None:
    gpu = unknown(trials)
    row, setting = clocks.proposal(gpu, list(found(trials, gpu, PUBLISHED).values()))
    (read,) = Settings.model_validate(yaml.safe_load(setting)).gpus
    assert read.tensor_clock_hz == 1830e6
    assert read.fp64_clock_hz == 1980e6
    custom = gpu_models.custom_row(
        name=read.name,
        sm_count=read.sm_count,
        tensor_clock_hz=read.tensor_clock_hz,
        flops_per_cycle_per_sm=read.flops_per_cycle_per_sm,
    )
    rating = gpu_models.rate(gpu, [custom])
    assert isinstance(rating, Rating)
    assert rating.peak_flops["bf16"] == pytest.approx(989.4e12, rel=0.001)
    assert "_rates(bf16=4096, fp8=8192, int8=8192, fp64=256)" in row
    header = gpu_rows.FILE.read_text().splitlines()[0]
    (cells,) = csv.DictReader([header, row.splitlines()[1]])
    assert list(cells) == header.split(",")
    in_mhz = [cells[f"{which}_mhz"] for which in ("tensor", "fp64", "max_sm")]
    assert (cells["pci_device_ids"], cells["sms"], *in_mhz) == (
        "1234",
        "132",
        "1830",
        "1980",
        "1980",
    )
    assert (cells["memory_gib"], cells["confidence"], cells["relabelled"]) == ("80", "low", "")


def test_without_a_published_peak_the_highest_clock_stands_in(trials: list[Trial]) -> None:
    gpu = unknown(trials)
    _, setting = clocks.proposal(gpu, list(found(trials, gpu, {}).values()))
    (read,) = Settings.model_validate(yaml.safe_load(setting)).gpus
    assert read.tensor_clock_hz == pytest.approx(1830e6, rel=0.002)


@every(
    [
        *[(4096.0, 4096), (4000.0, 4096), (8300.0, 8192), (49152.0, 49152), (250.0, 256)],
        *[(0.951 * 4096, 4096), (0.949 * 4096, None), (1.049 * 4096, 4096), (1.051 * 4096, None)],
    ]
)
def test_a_rate_is_one_that_a_chip_can_have(rate: float, whole: int | None) -> None:
    assert clocks.whole_rate(rate) == whole
