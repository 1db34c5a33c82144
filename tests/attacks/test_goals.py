"""Every attack made for two seconds: what the machine's speed does not decide is held."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.attacks.__main__ import SHORT_SECONDS
from tests.attacks.catalogue import ATTACKS
from tests.attacks.goals import SIZES, missed, missed_sizes
from tests.attacks.measure import Seen, measured

SIDE_BY_SIDE = 4
Attacked = Mapping[str, Future[Seen]]
GOOD = Seen(60.0, 100, 0, 0.02, 1.0, 1000.0, 0, 0, 0.5, "")


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Attacked:
    """What was seen of each attack that is tested here, several made side by side: they wait most of the time."""
    names = [
        str(item.callspec.params["attack"])
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.originalname == test_every_attack_is_stood.__name__
    ]

    def made(name: str, folder: Path) -> Seen:
        return measured(ATTACKS[name], SHORT_SECONDS, folder, may_be_warm=True)

    folders = [tmp_path_factory.mktemp("attack") for _ in names]  # no two threads may do this
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        pairs = zip(names, folders, strict=True)
        return {name: pool.submit(made, name, folder) for name, folder in pairs}


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_every_attack_is_stood(attack: str, seen: Attacked) -> None:
    limits = missed_sizes(seen[attack].result())
    assert {goal: why for goal, why in limits.items() if why} == {}


def test_what_was_seen_within_every_limit_misses_nothing() -> None:
    assert not any(missed(GOOD).values())
    assert set(SIZES) == missed_sizes(GOOD).keys()


@pytest.mark.parametrize(
    ("goal", "change"),
    [
        ("answers", {"failed_scrapes": 100}),
        ("measured", {"coverage": 0.0}),
        ("measured", {"coverage": math.nan}),
        ("coverage", {"coverage": math.nan}),
        ("coverage", {"coverage": 0.98}),
        ("memory", {"rss_mib": 111.0}),
        ("log", {"log_bytes_per_minute": 1.1e6}),
        ("server errors", {"server_errors": 1}),
        ("tracebacks", {"tracebacks": 1}),
        ("stop", {"stop_seconds": math.inf}),
        ("stop in time", {"stop_seconds": 2.1}),
        ("scrapes", {"p99_seconds": 0.26}),
        ("let in", {"let_in": "a stranger (1)"}),
    ],
)
def test_what_is_beyond_a_limit_is_missed(goal: str, change: dict[str, float]) -> None:
    assert missed(GOOD._replace(**change))[goal]  # type: ignore[arg-type]


def test_no_counters_are_no_missing_coverage() -> None:
    assert not any(missed(GOOD._replace(coverage=None)).values())
