"""Bounds of bottlenecks, each by hand: what the counters leave open stays open, and a tie names nobody."""

from __future__ import annotations

import pytest

from ofu_exporter.ofu.bottlenecks import bounds, certain_bottleneck
from ofu_exporter.values.gpu import LinkPeaks
from ofu_exporter.values.losses import Bottleneck, Bounds
from ofu_exporter.values.reading import Activity, Window

WINDOW = Window(0.0, 100.0, 0.3, {}, None)
LINKS = LinkPeaks(pcie=10.0, nvlink=100.0)
ACTIVITY = Activity(
    **{"dram": 0.7, "fp64": 0.0, "fp32": 0.5, "fp16": 0.0, "integer": 0.4},
    **{"pcie_sent": 1.0, "pcie_received": 0.0, "nvlink_sent": 80.0, "nvlink_received": 30.0},
)


def test_each_bottleneck_has_at_least_what_fits_nowhere_else_and_none_what_the_surest_leaves() -> (
    None
):
    """Of 100 s, 40 without tensor work and 30 with: links and arithmetic may overlap in the same 20 s."""
    assert bounds(40.0, WINDOW, ACTIVITY, LINKS) == {
        Bottleneck.MEMORY: pytest.approx((70 - 60, 40)),
        Bottleneck.LINKS: pytest.approx((80 - 60, 40)),
        Bottleneck.ARITHMETIC: pytest.approx((50 - 30, 40)),
        Bottleneck.NONE: pytest.approx((0, 40 - 20)),
    }


def test_what_is_unknown_may_be_all_and_a_model_without_nvlink_has_pcie_alone() -> None:
    quiet = Activity(dram=0.0, fp64=0.0, fp32=0.0, fp16=0.0, integer=0.0, nvlink_sent=90.0)
    pcie = quiet._replace(pcie_sent=1.0, pcie_received=0.5)
    found = bounds(40.0, WINDOW, pcie, LinkPeaks(10.0, 0.0))
    assert found[Bottleneck.LINKS] == pytest.approx((0, 15))
    assert found[Bottleneck.NONE] == pytest.approx((40 - 15, 40))
    for unknown in (None, LINKS):
        assert bounds(40.0, WINDOW, quiet, unknown)[Bottleneck.LINKS] == pytest.approx(
            (0, 40) if not unknown else (30, 40)
        )
    assert not bounds(0.0, WINDOW, ACTIVITY, LINKS)
    assert not bounds(None, WINDOW, ACTIVITY, LINKS)


def test_a_bottleneck_is_named_only_where_it_is_larger_than_every_other_can_be() -> None:
    others = {Bottleneck.LINKS: Bounds(0.0, 5.0), Bottleneck.NONE: Bounds(0.0, 1.0)}
    assert certain_bottleneck({Bottleneck.MEMORY: Bounds(5.1, 9.0), **others}) is Bottleneck.MEMORY
    assert certain_bottleneck({Bottleneck.MEMORY: Bounds(5.0, 9.0), **others}) is None
    assert (
        certain_bottleneck({Bottleneck.MEMORY: Bounds(0.0, 1.0), Bottleneck.NONE: Bounds(2.0, 3.0)})
        is None
    )
