"""The rules that look at a job's minutes say, by promtool, what stood idle, through starts, ends and missed scrapes.

A job has a GPU on each of two nodes, and each page is scraped by two scrape jobs, ten seconds after each half minute. A
busy GPU is 5 % idle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.promtool import run

pytestmark = [pytest.mark.slow, pytest.mark.prometheus]

BUSY = 0.05
HELD = {"job_id": "7"}
Minutes = Sequence[tuple[float, float]]
"""How long, and the share of that time."""


def page(
    node: str,
    idle: Minutes,
    starting: float = 0,
    end: float = 60,
    missed: Collection[int] = (),
    failed: Collection[int] = (),
) -> Iterator[dict[str, str]]:
    """The series of a node whose job starts for some minutes, and ends; a scrape is missed, or ends all series, by its
    number."""
    count = 120
    gpu = {"instance": node, "gpu": "0", "uuid": f"GPU-{node}"}
    share = [each for minutes, each in idle for _ in range(round(2 * minutes))]
    starts = [float(n < 2 * starting) for n in range(count)]
    has = [n <= 2 * end for n in range(count)]

    def series(name: str, labels: dict[str, str], values: Sequence[object]) -> Iterator[Any]:
        shown = "_ " + " _ _ ".join(
            "stale" if n in failed else "_" if n in missed else str(each)
            for n, each in enumerate(values)
        )
        for scrape_job in "ab":
            both = ",".join(
                f'{key}="{value}"' for key, value in {"job": scrape_job, **labels}.items()
            )
            yield {"series": f"{name}{{{both}}}", "values": shown}

    def grown(shares: Sequence[float]) -> list[float]:
        return [30.0 * each for each in accumulate(shares[: count - 1], initial=0.0)]

    def held(values: Sequence[object]) -> list[object]:
        return [value if is_held else "stale" for value, is_held in zip(values, has, strict=True)]

    free = ["stale" if is_held else 1 for is_held in has]
    yield from series("ofu_gpu_info", {**gpu, **HELD}, held([1] * count))
    yield from series("ofu_gpu_info", gpu, free)
    yield from series("ofu_gpu_observed_seconds_total", gpu, grown([1.0] * count))
    yield from series("ofu_gpu_lost_seconds_total", {**gpu, "part": "idle"}, grown(share))
    job = {"instance": node, **HELD}
    yield from series("ofu_job_info", job, held([1] * count))
    yield from series("ofu_job_held_gpu_seconds_total", job, held(grown([1.0] * count)))
    lost = {**job, "reason": "starting"}
    yield from series("ofu_job_lost_progress_gpu_seconds_total", lost, held(grown(starts)))


def check(
    folder: Path, pages: Sequence[Iterator[dict[str, str]]], within: float = 0.2, **wanted: float
) -> None:
    """The GPU-minutes of the hour."""
    checks = []
    for reason, minutes in wanted.items():
        found = f'60 * job:lost_progress_gpu_hours:sum1h{{reason="{reason}"}}'
        wrong = f"({found} unless abs({found} - {minutes}) <= {within}) or absent({found})"
        checks.append({"expr": wrong, "eval_time": "1h", "exp_samples": []})
    test = {
        "interval": "10s",
        "input_series": [each for page in pages for each in page],
        "promql_expr_test": checks,
    }
    assert run([test], folder) == "SUCCESS"


def test_one_node_stands_idle_while_the_other_waits_for_it(tmp_path: Path) -> None:
    both = page("n1", [(60, BUSY)]), page("n2", [(20, BUSY), (10, 1.0), (30, BUSY)])
    check(tmp_path, both, starting=0, held_idle=10, alone=10)


def test_a_start_is_neither_idle_nor_alone_though_one_node_begins_earlier(tmp_path: Path) -> None:
    both = (
        page("n1", [(6, 1.0), (54, BUSY)], starting=8),
        page("n2", [(8, 1.0), (52, BUSY)], starting=8),
    )
    check(tmp_path, both, starting=16, held_idle=0, alone=0)


def test_what_stands_after_a_job_ended_is_not_the_jobs(tmp_path: Path) -> None:
    both = (page(node, [(30, BUSY), (30, 1.0)], end=30) for node in ("n1", "n2"))
    check(tmp_path, [*both], held_idle=0, alone=0)


@pytest.mark.parametrize("missed", range(38, 48))
def test_a_missed_scrape_makes_no_short_pause_a_minute(missed: int, tmp_path: Path) -> None:
    pause = [(20.5, BUSY), (0.5, 1.0), (39, BUSY)]
    both = (page(node, pause, missed=[missed]) for node in ("n1", "n2"))
    check(tmp_path, [*both], held_idle=0, alone=0)


@pytest.mark.parametrize("first", range(36, 44, 2))
@pytest.mark.parametrize("count", [2, 5, 10])
def test_a_node_that_fails_for_minutes_makes_no_pause(
    first: int, count: int, tmp_path: Path
) -> None:
    """A pause of half a minute lies before, within or behind them; the other node goes on."""
    pause = [(21, BUSY), (0.5, 1.0), (38.5, BUSY)]
    gone = range(first, first + count)
    check(tmp_path, [page("n1", pause, failed=gone), page("n2", pause)], held_idle=0, alone=0)


@pytest.mark.parametrize("missed", [[38], [41], [45, 50], [45, 46], [59], [61, 62]])
def test_missed_scrapes_take_nothing_from_ten_idle_minutes(
    missed: Sequence[int], tmp_path: Path
) -> None:
    both = page("n1", [(60, BUSY)]), page("n2", [(20, BUSY), (10, 1.0), (30, BUSY)], missed=missed)
    check(tmp_path, both, within=1.0, held_idle=10, alone=10)
