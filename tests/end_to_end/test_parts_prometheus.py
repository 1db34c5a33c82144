"""On a real Prometheus the rates of what was used and lost add up to the rate of what was observed.

The counters are an agent's, over an hour in which scrapes fail and the agent starts again.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.ofu.gpu_state import GpuState, take_reading
from ofu_exporter.values.reading import Activity
from ofu_exporter.values.snapshot import GpuView
from tests.deploy.promtool import is_newer
from tests.helpers.stored_fleet import BEGIN, openmetrics, stored_pages
from tests.helpers.values import H100_RATING, gpu, reading

WINDOW, SCRAPE, RESTART, SECONDS = 5, 15, 1800, 3600


def pages() -> str:
    """An hour of scrapes: every fifth fails, and at half past the agent begins anew."""
    chance = random.Random("parts")
    state = GpuState(GpuView(gpu(), H100_RATING))
    rows: dict[str, list[str]] = {}
    for second in range(0, SECONDS, WINDOW):
        if second == RESTART:
            state = GpuState(GpuView(gpu(), H100_RATING))
        tensor = chance.uniform(0.0, 0.7)
        sm = tensor + chance.uniform(0.0, 0.2)
        lacks = chance.random() < 0.2
        activity = Activity(
            engine=sm + chance.uniform(0.0, 0.1), sm=None if lacks else sm, energy_joules=2500.0
        )
        hz = [chance.uniform(1300e6, 1975e6)] * 5
        end = second + WINDOW
        taken = reading(second, end, tensor, hz, activity=activity)
        state, _ = take_reading(state, taken, WINDOW)
        if end % SCRAPE == 0 and chance.random() > 0.2:
            for series, value in counters(state).items():
                rows.setdefault(series, []).append(f"{series} {value!r} {BEGIN + end}")
    families: dict[str, list[str]] = {}
    for series, lines in rows.items():
        families.setdefault(series.partition("{")[0], []).extend(lines)
    return openmetrics(families)


def counters(state: GpuState) -> dict[str, float]:
    lost = {
        f'ofu_gpu_lost_seconds_total{{gpu="0",part="{loss.value}"}}': seconds
        for loss, seconds in state.view.sums.lost.items()
    }
    return {
        'ofu_gpu_utilization_seconds_total{gpu="0"}': state.view.utilization_seconds,
        'ofu_gpu_observed_seconds_total{gpu="0"}': state.view.observed_seconds,
        'ofu_gpu_gained_seconds_total{gpu="0"}': state.view.sums.gained,
        **lost,
    }


@pytest.mark.slow
@pytest.mark.prometheus
def test_rates_add_up_over_failed_scrapes_and_a_restart(tmp_path: Path) -> None:
    with stored_pages(tmp_path, pages()) as running:
        client = PrometheusClient(running.url)
        left = (
            "sum(rate(ofu_gpu_lost_seconds_total[10m])) + sum(rate(ofu_gpu_utilization_seconds_total[10m]))"
            " - sum(rate(ofu_gpu_gained_seconds_total[10m])) - sum(rate(ofu_gpu_observed_seconds_total[10m]))"
        )
        (series,) = client.steps(left, BEGIN + 900, BEGIN + SECONDS, 60.0)
        observed = client.steps(
            "sum(rate(ofu_gpu_observed_seconds_total[10m]))", BEGIN + 900, BEGIN + SECONDS, 60.0
        )[0]
        client.close()
    assert len(series.points) >= 40
    exact = [value for _, value in series.points if abs(value) < 1e-9]
    # Where a range begins right after the restart, Prometheus extends each counter to the time at which it may have
    # been 0, which is not the same for all; since Prometheus 3 also where it begins at the last scrape before.
    assert len(series.points) - len(exact) <= 3
    assert all(abs(value) < (1e-2 if is_newer() else 1e-4) for _, value in series.points)
    assert all(0.5 < value < 1.5 for _, value in observed.points)
