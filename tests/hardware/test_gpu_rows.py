"""The rated speeds of links and memory are plausible, and what a row of the table says is read as it is written."""

from __future__ import annotations

import csv

import pytest

from ofu_exporter.hardware import gpu_rows
from ofu_exporter.hardware.gpu_models import ROWS, rate
from ofu_exporter.hardware.gpu_spec import GpuModel
from tests.helpers.every import every
from tests.helpers.values import gpu


def row(key: str) -> GpuModel:
    return next(row for row in ROWS if row.key == key)


def test_an_h100_has_450_gb_per_second_and_direction_and_its_instances_are_not_rated() -> None:
    rating, of_instance = rate(gpu()), rate(gpu(instance="1"))
    assert rating is not None
    assert rating.links is not None
    assert (rating.links.nvlink, round(rating.links.pcie / 1e9)) == (450e9, 63)
    assert rating.memory_bytes_per_second == 3.35e12
    assert of_instance is not None
    assert of_instance.links is None
    assert of_instance.memory_bytes_per_second is None


@every([row.key for row in ROWS if row.links])
def test_nvlink_is_faster_than_pcie_where_there_is_any(key: str) -> None:
    links = row(key).links
    assert links is not None
    assert links.nvlink == 0.0 or links.nvlink > links.pcie


@every([row.key for row in ROWS if row.memory_bytes_per_second])
def test_a_peak_is_from_50_to_600_flops_a_byte(key: str) -> None:
    """The balance of every tensor GPU of one device: a bandwidth per board or in another unit is outside."""
    model = row(key)
    peak = model.peak_flops("bf16") or model.peak_flops("fp16")
    assert peak is not None
    assert model.memory_bytes_per_second is not None
    assert 50 < peak / model.memory_bytes_per_second < 600


def test_slices_stand_in_a_row_only_where_they_are_not_its_chips() -> None:
    with gpu_rows.FILE.open(encoding="utf-8", newline="") as file:
        stated = {each["key"]: each["mig_slices"] for each in csv.DictReader(file)}
    assert stated["A30"] == "4"
    assert [key for key, slices in stated.items() if slices == str(row(key).chip.mig_slices)] == []


def test_doubts_name_their_precisions_or_all_of_the_chips() -> None:
    b300, gb10, leonardo = row("B300"), row("GB10"), row("A100-SXM-64GB")
    assert b300.disputed.keys() == {"fp64", "fp4"}
    assert b300.disputed["fp64"] != b300.disputed["fp4"]
    assert gb10.disputed.keys() == {"bf16", "fp16", "fp8", "fp4"}
    assert leonardo.disputed.keys() == leonardo.chip.flops_per_cycle_per_sm.keys()


def test_a_row_has_the_figures_of_its_publications() -> None:
    h100, b200 = row("H100-SXM5-80GB"), row("B200")
    assert (h100.sm_count, h100.tensor_clock_hz, h100.fp64_clock_hz) == (132, 1830e6, 1980e6)
    assert h100.published_peak_flops["fp16"] == h100.published_peak_flops["bf16"] == 989.4e12
    assert (b200.links and b200.links.nvlink, b200.memory_bytes_per_second) == (900e9, 8e12)
    assert row("H200-as-L20X").relabelled
    assert not h100.relabelled
    assert row("B100").names == ()


def test_a_row_that_cannot_be_read_is_named_with_what_is_unknown_in_it() -> None:
    first = next(csv.DictReader(gpu_rows.FILE.read_text().splitlines()))
    for change, said in (({"chip": "NEW"}, "NEW"), ({"pcie_generation": "9"}, "9")):
        with pytest.raises(ValueError, match=f"gpu_models.csv: {first['key']}: KeyError.'{said}'"):
            gpu_rows._read({**first, **change})


def test_an_sm_executes_a_power_of_two_of_flops_in_a_cycle_or_three() -> None:
    """Three of FP4 on Blackwell Ultra."""
    rates = {each for row in ROWS for each in row.chip.flops_per_cycle_per_sm.values()}
    assert {each // (each & -each) for each in rates} == {1, 3}
