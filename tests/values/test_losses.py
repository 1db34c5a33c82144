"""Sums of losses add up exactly, in any order."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.ofu.peak_split import losses, split
from ofu_exporter.values.losses import NO_LOSSES, Loss, LossSums
from ofu_exporter.values.reading import NO_ACTIVITY, Activity, Window
from tests.ofu.test_peak_split import windows

MERGED = {
    Loss.ENGINE_WITHOUT_TENSOR: (Loss.NO_TENSOR, Loss.EMPTY_SMS),
    Loss.EMPTY_OR_IDLE: (Loss.EMPTY_SMS, Loss.IDLE),
    Loss.WITHOUT_TENSOR: (Loss.NO_TENSOR, Loss.EMPTY_SMS, Loss.IDLE),
}
"""The parts that another one stands for."""


@given(st.lists(windows, min_size=1, max_size=30))
def test_sums_of_windows_add_up_to_the_last_digit(added: list[Window]) -> None:
    sums, used, observed = NO_LOSSES, 0.0, 0.0
    for window in added:
        sums = sums.plus(window.sums)
        used += window.used_seconds
        observed += window.observed_seconds
    assert used + math.fsum(sums.lost.values()) - sums.gained == observed
    assert observed == pytest.approx(math.fsum(w.gpu_seconds for w in added), abs=1e-7)


@given(st.lists(windows, max_size=20), st.integers(0, 20))
def test_the_order_in_which_windows_are_added_changes_nothing(
    added: list[Window], turn: int
) -> None:
    turned = [*added[turn:], *added[:turn]]
    one, other = NO_LOSSES, NO_LOSSES
    for first, second in zip(added, turned, strict=True):
        one, other = one.plus(first.sums), other.plus(second.sums)
    assert (one.lost, one.gained) == (other.lost, other.gained)


@given(st.floats(0, 1), st.floats(0.1, 1.2), st.floats(0, 1), st.floats(0, 1))
def test_a_merge_is_the_sum_of_what_it_merges(
    tensor: float, ratio: float, sm_rest: float, engine_rest: float
) -> None:
    sm = tensor + (1 - tensor) * sm_rest
    whole = Activity(engine=sm + (1 - sm) * engine_rest, sm=sm)
    every = losses(tensor * ratio, tensor, whole)
    for lacking in (whole._replace(sm=None), whole._replace(engine=None), NO_ACTIVITY):
        merged = losses(tensor * ratio, tensor, lacking)
        for loss, lost in merged.items():
            parts = MERGED.get(loss, (loss,))
            assert lost == pytest.approx(math.fsum(every[part] for part in parts), abs=1e-12)
        covered = [part for loss in merged for part in MERGED.get(loss, (loss,))]
        assert sorted(covered) == sorted(every)


def test_memory_weighs_by_gpu_seconds_and_only_where_it_was_counted() -> None:
    def sums(seconds: float, dram: float | None, share: float = 1.0) -> LossSums:
        window = Window(0.0, seconds, 0.1, {}, 1e9, 0.1, share=share, activity=Activity(dram=dram))
        return split(window, None, 2e12)[0].sums

    several = [sums(10.0, 0.8), sums(30.0, 0.4, 0.5), sums(50.0, None), sums(5.0, 0.0)]
    total = NO_LOSSES
    for each in several:
        total = total.plus(each)
    assert total.memory == pytest.approx((8.0 + 6.0, 10.0 + 15.0 + 5.0, 14.0 * 2e12))
    assert sums(50.0, None).memory is None
