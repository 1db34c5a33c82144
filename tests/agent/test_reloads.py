"""Reloads come one after the other, however often they are asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ofu_exporter.agent import reloads
from ofu_exporter.agent.reloads import Reloads
from ofu_exporter.support.small_files import Stamp, stamp

MANY = 100


class Slow:
    """Reloads that end when they are told to."""

    def __init__(self, file: Path | None = None) -> None:
        self.begun = 0
        self.may_end = asyncio.Semaphore(0)
        self.reloads = Reloads(file, self._reload)

    async def _reload(self) -> None:
        self.begun += 1
        await self.may_end.acquire()


async def turns() -> None:
    for _ in range(MANY):
        await asyncio.sleep(0)


def test_of_many_that_are_asked_for_during_one_only_one_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reloads, "REST_SECONDS", 0.0)

    async def run() -> tuple[int, int]:
        slow = Slow()
        running = asyncio.create_task(slow.reloads.run())
        for _ in range(MANY):
            slow.reloads.ask()
            await asyncio.sleep(0)
        at_once = slow.begun
        for _ in range(MANY):
            slow.may_end.release()
        await turns()
        running.cancel()
        return at_once, slow.begun

    assert asyncio.run(run()) == (1, 2)


def test_after_one_there_is_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloads, "REST_SECONDS", 3600.0)

    async def run() -> int:
        slow = Slow()
        running = asyncio.create_task(slow.reloads.run())
        for _ in range(MANY):
            slow.may_end.release()
            slow.reloads.ask()
            await asyncio.sleep(0)
        await turns()
        running.cancel()
        return slow.begun

    assert asyncio.run(run()) == 1


def test_a_changed_file_asks_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloads, "FILE_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(reloads, "REST_SECONDS", 0.0)
    file = tmp_path / "ofu.yaml"
    file.write_text("a: 1\n")
    looks = 0

    def counted(path: Path) -> Stamp:
        nonlocal looks
        looks += 1
        return stamp(path)

    monkeypatch.setattr(reloads, "stamp", counted)

    async def look_again(slow: Slow) -> int:
        """The reloads after the file has been looked at some more times."""
        until = looks + 3
        while looks < until:
            await asyncio.sleep(0.001)
        return slow.begun

    async def run() -> tuple[int, int]:
        slow = Slow(file)
        tasks = [asyncio.create_task(slow.reloads.run()), asyncio.create_task(slow.reloads.watch())]
        for _ in range(MANY):
            slow.may_end.release()
        unchanged = await look_again(slow)
        file.write_text("a: 2\nb: 3\n")
        changed = await look_again(slow)
        for task in tasks:
            task.cancel()
        return unchanged, changed

    assert asyncio.run(run()) == (0, 1)
