"""Instance types of clouds have one model each, by their own pages; other vendors' names have none."""

from __future__ import annotations

import re

from ofu_exporter.hardware.cloud_names import MODELS, model_key, other_vendor
from ofu_exporter.hardware.gpu_models import ROWS, by_short_name
from tests.helpers.every import every


@every(
    [
        ("p5.48xlarge", "H100-SXM5-80GB"),
        ("p5.4xlarge", "H100-SXM5-80GB"),
        ("p5e.48xlarge", "H200-SXM"),
        ("p5en.48xlarge", "H200-SXM"),
        ("p4d.24xlarge", "A100-SXM4-40GB"),
        ("p4de.24xlarge", "A100-SXM4-80GB"),
        ("p6-b200.48xlarge", "B200"),
        ("g6.12xlarge", "L4"),
        ("g6e.12xlarge", "L40S"),
        ("a3-highgpu-8g", "H100-SXM5-80GB"),
        ("a3-megagpu-8g", "H100-SXM5-80GB"),
        ("a3-ultragpu-8g", "H200-SXM"),
        ("a2-ultragpu-1g", "A100-SXM4-80GB"),
        ("Standard_ND96isr_H100_v5", "H100-SXM5-80GB"),
        ("Standard_NC80adis_H100_v5", "H100-NVL"),
        ("Standard_ND96asr_v4", "A100-SXM4-40GB"),
        ("nvidia-h100-80gb", "H100-SXM5-80GB"),
        ("nvidia-h100-mega-80gb", "H100-SXM5-80GB"),
        ("nvidia-tesla-a100", "A100-SXM4-40GB"),
        ("BM.GPU.H100.8", "H100-SXM5-80GB"),
        ("H100 80GB", "H100-SXM5-80GB"),
        ("H100 SXM", "H100-SXM5-80GB"),
        ("p5", None),
        ("p9.48xlarge", None),
        ("NVIDIA H100 PCIe", None),
        ("", None),
    ]
)
def test_a_machine_of_a_cloud_has_one_model(name: str, key: str | None) -> None:
    assert model_key(name) == key


def test_every_machine_has_a_row_and_a_name_for_it() -> None:
    named = {row.key for row in ROWS if row.names}
    assert {*MODELS.values()} <= named
    assert all(re.compile(form) for form in MODELS)
    assert by_short_name("p5.48xlarge") == ("NVIDIA H100 80GB HBM3", ())


@every(
    [
        ("MI300X", "AMD"),
        ("AMD Instinct MI250X", "AMD"),
        ("Gaudi3", "Intel"),
        ("TPU v5p", "Google"),
        ("trn2.48xlarge", "AWS"),
        ("Ascend 910B", "Huawei"),
        ("NVIDIA H100 80GB HBM3", None),
        ("H100", None),
        ("V100", None),
        ("", None),
    ]
)
def test_the_accelerators_of_other_vendors_are_told_apart(name: str, vendor: str | None) -> None:
    assert other_vendor(name) == vendor


def test_no_model_of_the_table_is_another_vendors() -> None:
    assert [name for row in ROWS for name in row.names if other_vendor(name)] == []


def test_a_card_that_passes_for_another_is_not_meant_by_the_others_name() -> None:
    assert any("-as-" in row.key for row in ROWS)
    assert by_short_name("h200") == ("NVIDIA H200", ("H200-NVL",))


@every([("rtx 3080", "NVIDIA GeForce RTX 3080"), ("rtx 5070", "NVIDIA GeForce RTX 5070")])
def test_the_whole_name_of_a_model_means_no_other_that_begins_with_it(key: str, name: str) -> None:
    keys = [row.key for row in ROWS if row.key.casefold().startswith(key.replace(" ", "-"))]
    assert len(keys) > 1
    assert by_short_name(key) == (name, ())


def test_a_model_that_has_no_name_of_its_own_has_no_short_one() -> None:
    assert not next(row for row in ROWS if row.key == "RTX-3080-12GB").names
    assert by_short_name("rtx-3080-12gb") is None


def test_a_name_of_no_model_stands_for_none() -> None:
    assert [by_short_name(text) for text in ("", "NVIDIA", "H900", "H")] == [None] * 4
