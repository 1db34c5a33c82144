"""A limit on how long a coroutine may take: it ends the work, and passes on what comes in time."""

from __future__ import annotations

import asyncio

import pytest

from ofu_exporter.support.time_limit import limited
from tests.helpers.agent import SOON


def test_what_comes_in_time_is_passed_on() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert asyncio.run(limited(SOON, work())) == 7


def test_what_takes_longer_is_cancelled() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(SOON)
        finally:
            ended.append("cancelled")

    async def run() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await limited(0.01, work())
        assert ended == ["cancelled"]

    asyncio.run(run())


def test_an_error_of_the_work_is_its_own() -> None:
    async def work() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        asyncio.run(limited(SOON, work()))
