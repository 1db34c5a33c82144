"""Probabilities of steps in noise, against tables and noise whose long-run variance is known."""

from __future__ import annotations

import math
import random

import pytest

from ofu_exporter.fleet.changes.split import Step, change_search, layout
from ofu_exporter.fleet.changes.tails import (
    REACH,
    long_run_inflation,
    long_tail,
    pilot,
    skewed_tail,
    supported,
    sure_tail,
    t_tail,
    unequal_step,
    whitened,
    whitened_step,
)


def alike_noise(count: int, alike: float, seed: int) -> list[float]:
    rng = random.Random(seed)
    values = [rng.gauss(0, 1)]
    while len(values) < count:
        values.append(alike * values[-1] + math.sqrt(1 - alike**2) * rng.gauss(0, 1))
    return values


@pytest.mark.parametrize(
    ("t", "freedom", "chance"),
    [  # two-sided critical values of Student's t, as printed in every table of it
        (2.571, 5, 0.05),
        (4.032, 5, 0.01),
        (2.086, 20, 0.05),
        (3.850, 20, 0.001),
        (1.984, 100, 0.05),
        (3.390, 100, 0.001),
    ],
)
def test_the_tail_of_t_is_that_of_the_tables(t: float, freedom: int, chance: float) -> None:
    assert t_tail(t, freedom) == pytest.approx(chance, rel=0.04)


@pytest.mark.parametrize("points", [2, 3, 6, 20])
@pytest.mark.parametrize("errors", [2.0, 4.0, 8.0])
def test_the_tail_of_skewed_noise_is_that_of_a_sum_of_waiting_times(
    points: int, errors: float
) -> None:
    """Both sides of the gamma distribution of a whole number of points, whose tail is that of Poisson's."""
    until = points + errors * math.sqrt(points)
    exact = 2 * sum(math.exp(-until) * until**n / math.factorial(n) for n in range(points))
    assert 0.8 * exact < skewed_tail(errors, [1.0] * points) < 3 * exact


def test_many_points_hide_the_skewness_and_unequal_weights_show_it() -> None:
    assert skewed_tail(3.0, [1.0] * 100_000) == pytest.approx(math.erfc(3 / math.sqrt(2)), rel=0.1)
    assert skewed_tail(6.0, [1.0, 0.5, 0.5]) > skewed_tail(6.0, [1.0] * 3)
    assert skewed_tail(6.0, [1.0, 0.0, 0.0]) == pytest.approx(skewed_tail(6.0, [1.0]))


def test_whitening_undoes_alike_noise() -> None:
    values = [1.0, 0.5, 0.25, 1.125]
    assert whitened(values, 0.5) == pytest.approx([math.sqrt(0.75), 0.0, 0.0, 1.0])


def test_a_whitened_step_has_its_height_and_the_error_of_least_squares() -> None:
    values = [0.1, -0.1, 0.1, -0.1, 1.1, 0.9, 1.1, 0.9]
    found = whitened_step(values, layout(8), Step(4, 8, 0.0), 0.0)
    scatter = math.sqrt(8 * 0.01 / 6)
    assert (found.height, found.error) == pytest.approx((1.0, scatter * math.sqrt(2 / 4)))
    assert found.freedom == 6
    assert found.chance == pytest.approx(t_tail(found.height / found.error, 6))
    assert t_tail(found.reach / found.error, 6) == pytest.approx(math.erfc(REACH / math.sqrt(2)))


def test_scatter_that_grows_makes_a_step_less_sure() -> None:
    """The second level scatters ten times as much: where all scatter the same, half of that is the first one's."""
    quiet = [0.01 * (-1) ** index for index in range(12)]
    loud = [1.0 + 0.1 * (-1) ** index for index in range(4)]
    plan, step = layout(16), Step(12, 16, 0.0)
    equal, unequal = (
        make([*quiet, *loud], plan, step, 0.0) for make in (whitened_step, unequal_step)
    )
    assert unequal.height == pytest.approx(equal.height)
    assert unequal.freedom <= equal.freedom
    assert unequal.error > 1.3 * equal.error
    assert sure_tail([*quiet, *loud], plan, step, 0.0) >= unequal.chance > equal.chance


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.8])
def test_long_run_variance_is_that_of_the_noise(alike: float) -> None:
    found = [long_run_inflation(alike_noise(400, alike, seed)) for seed in range(20)]
    truth = (1 + alike) / (1 - alike)
    assert sum(found) / 20 == pytest.approx(truth, rel=0.25)
    assert min(found) > 0.5 * truth


def test_a_wave_is_not_taken_for_independent_noise() -> None:
    wave = [math.sin(index / 8) for index in range(336)]
    assert long_run_inflation(wave) > 30


def test_the_pilot_sees_clear_steps_only() -> None:
    noise = [0.1 * value for value in alike_noise(120, 0.3, 4)]
    stairs = [value + (index >= 40) + (index >= 80) for index, value in enumerate(noise)]
    assert pilot([value - sum(noise) / 120 for value in noise]) == []
    middle = sum(stairs) / 120
    assert pilot([value - middle for value in stairs]) == [40, 80]


def test_a_single_odd_point_of_a_long_series_is_no_step() -> None:
    noise = [0.1 * value for value in alike_noise(200, 0.0, 6)]
    odd = [value - 6.0 * (index == 100) for index, value in enumerate(noise)]
    search = change_search(layout(200))
    assert search is not None
    assert long_tail(odd, odd, search, Step(99, 102, 11.0)) == 1.0


@pytest.mark.parametrize(("height", "is_supported"), [(0.9, False), (1.0, True)])
def test_a_step_is_supported_by_three_points_that_are_off_as_noise_is_in_5_percent(
    height: float, is_supported: bool
) -> None:
    """Their sum is 1.65 standard errors of three where each is off by 0.953 of the noise; a fourth may be anywhere."""
    noise = [1.0, -1.0] * 2
    residuals = [*noise, height, height, height, 50.0]
    assert supported(residuals, noise, Step(4, 8, 0.0), 0.0) is is_supported
