"""The share of a GPU that each MIG instance has: a divided GPU is never more than one GPU."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.hardware.mig_shares import shares
from ofu_exporter.values.gpu import Gpu, Share
from tests.helpers.values import gpu

A30 = replace(gpu(name="NVIDIA A30"), pci_device_id="20b7", compute_capability=(8, 0))
RTX_6000 = gpu(name="NVIDIA RTX PRO 6000 Blackwell Server Edition")
RTX_5000 = gpu(name="NVIDIA RTX PRO 5000 Blackwell")
NEW = replace(gpu(name="NVIDIA H301"), pci_device_id="", compute_capability=(9, 0))
UNKNOWN = gpu(name="NVIDIA Z999")

LAYOUTS = {
    "seven of H100": (gpu(), ["1g.10gb"] * 7, [1 / 7] * 7),
    "A100 by its name alone": (
        gpu(name="NVIDIA A100-SXM4-40GB"),
        ["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"],
        [3 / 7, 2 / 7, 1 / 7, 1 / 7],
    ),
    "media extensions and double memory": (gpu(), ["1g.10gb+me", "1g.20gb"], [1 / 7, 1 / 7]),
    "all of it": (gpu(), ["7g.80gb"], [1.0]),
    "A30": (A30, ["2g.12gb", "1g.6gb", "1g.6gb"], [0.5, 0.25, 0.25]),
    "RTX PRO 6000": (RTX_6000, ["2g.48gb", "1g.24gb", "1g.24gb"], [0.5, 0.25, 0.25]),
    "RTX PRO 5000": (RTX_5000, ["1g.24gb", "1g.24gb"], [0.5, 0.5]),
    "a new model of a known chip": (NEW, ["3g.40gb", "4g.40gb"], [3 / 7, 4 / 7]),
}
"""What the column "Fraction of SMs" of NVIDIA's MIG User Guide says: a GPU, its profiles, their fractions."""


def divided(whole: Gpu, profiles: list[str]) -> list[Gpu]:
    return [
        replace(whole, instance=str(number), profile=profile)
        for number, profile in enumerate(profiles, start=1)
    ]


@pytest.mark.parametrize(("whole", "profiles", "fractions"), LAYOUTS.values(), ids=LAYOUTS)
def test_an_instance_has_the_fraction_that_the_guide_gives_its_profile(
    whole: Gpu, profiles: list[str], fractions: list[float]
) -> None:
    found = [*shares(divided(whole, profiles)).values()]
    assert [share.ratio for share in found] == pytest.approx(fractions)
    assert {share.basis for share in found} == {"slices"}


def test_a_whole_gpu_is_one_gpu() -> None:
    assert shares([gpu()]) == {gpu().key: Share(1.0, "whole")}


@pytest.mark.parametrize(
    ("whole", "profiles"),
    [
        (gpu(), ["1g.10gb", "", "1g.10gb"]),
        (gpu(), ["1g.10gb", "custom", "1g.10gb"]),
        (gpu(), ["4g.40gb", "4g.40gb", "1g.10gb"]),
        (A30, ["3g.20gb", "1g.6gb", "1g.6gb"]),
        (UNKNOWN, ["1g.10gb"] * 3),
    ],
    ids=["no profile", "no known profile", "more than there is", "another GPU's", "unknown GPU"],
)
def test_where_slices_are_not_known_the_instances_are_parts_of_one_gpu(
    whole: Gpu, profiles: list[str]
) -> None:
    found = shares(divided(whole, profiles)).values()
    assert set(found) == {Share(1 / 3, "instances")}


@given(
    st.sampled_from([gpu(), A30, RTX_6000, UNKNOWN]),
    st.lists(st.sampled_from(["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb", "", "x"]), min_size=1),
)
def test_no_division_makes_more_of_a_gpu_than_one(whole: Gpu, profiles: list[str]) -> None:
    found = shares([*divided(whole, profiles), gpu(9)])
    total = math.fsum(share.ratio for share in found.values())
    assert total <= 2 + 1e-9
    assert all(share.ratio > 0 for share in found.values())
    if any(share.basis == "instances" for share in found.values()):
        assert total == pytest.approx(2)


@given(st.lists(st.sampled_from([1, 2, 3, 4, 7]), min_size=1, max_size=7))
def test_slices_that_fill_a_gpu_are_one_gpu(slices: list[int]) -> None:
    filled = slices[: next((n for n in range(len(slices)) if sum(slices[: n + 1]) > 7), None)]
    filled += [1] * (7 - sum(filled))
    found = shares(divided(gpu(), [f"{each}g.{each}0gb" for each in filled]))
    assert math.fsum(share.ratio for share in found.values()) == pytest.approx(1)
