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


def test_an_error_after_a_wait_is_its_own() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        asyncio.run(limited(SOON, work()))


def test_work_may_go_on_after_an_error_that_it_waited_for() -> None:
    async def work() -> int:
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(KeyError("gone"))
        await asyncio.sleep(0)
        with pytest.raises(KeyError):
            await failed
        await asyncio.sleep(0)
        return 7

    assert asyncio.run(limited(SOON, work())) == 7


def test_whoever_waits_for_the_work_can_end_it() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(SOON)
        finally:
            ended.append("cancelled")

    async def run() -> None:
        waiting = asyncio.ensure_future(limited(SOON, work()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(run())
    assert ended == ["cancelled"]
