"""A loss is a ratio that is worse by more than 15 % and by more than the noise of its own rounds."""

from __future__ import annotations

import json

import pytest

from tests.bench.ratios import KEPT, Ratio, losses, ratio


def test_the_median_and_half_the_distance_of_the_quartiles() -> None:
    found = ratio([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    assert found.value == 4.0
    assert found.noise == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("now", "noise", "is_lost"),
    [
        (1.0, 0.0, False),
        (1.14, 0.0, False),
        (1.16, 0.0, True),
        (1.2, 0.1, False),
        (1.5, 0.14, True),
        (9.0, 0.91, False),
    ],
)
def test_a_loss_is_beyond_the_limit_and_the_noise_of_a_machine_that_is_quiet_enough(
    now: float, noise: float, is_lost: bool
) -> None:
    assert losses({"scrape": Ratio(now, noise)}, {"scrape": 1.0}) == ["scrape"] * is_lost


def test_what_the_last_release_did_not_measure_is_no_loss() -> None:
    assert losses({"new": Ratio(9.0, 0.0)}, {"scrape": 1.0}) == []


def test_the_ratios_of_the_last_release_are_kept() -> None:
    kept = json.loads(KEPT.read_text())
    assert set(kept) == {"scrape", "packed scrape", "memory", "page", "start"}
    assert all(value > 0 for value in kept.values())
