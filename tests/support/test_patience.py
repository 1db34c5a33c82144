"""Calls that may never return: the caller goes on, and no more than one thread is lost to each."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from ofu_exporter.errors import HungError
from ofu_exporter.support.patience import limited, soon, within
from tests.helpers.agent import SOON

LONG = 20.0


class Hanging:
    """A call that returns when it is let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.began = 0

    def __call__(self) -> str:
        self.began += 1
        self.go_on.wait()
        return "done"


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.go_on.set()


def fail() -> None:
    raise KeyError("why")


def test_a_call_that_returns_is_what_it_would_be_without_patience() -> None:
    assert within(LONG, "a", lambda: 7) == 7
    assert asyncio.run(soon(LONG, "a", lambda: 7)) == 7
    with pytest.raises(KeyError, match="why"):
        within(LONG, "a", fail)
    with pytest.raises(KeyError, match="why"):
        asyncio.run(soon(LONG, "a", fail))


def test_a_call_that_hangs_is_left_and_no_other_of_its_name_begins(
    hanging: Hanging, request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    for _ in range(5):
        with pytest.raises(HungError, match=name):
            within(0.01, name, hanging)
        with pytest.raises(HungError, match=name):
            asyncio.run(soon(0.01, name, hanging))
    assert hanging.began == 1
    assert within(LONG, "another name", lambda: 7) == 7
    hanging.go_on.set()
    assert within(LONG, name, lambda: 7) == 7


def test_the_thread_of_a_call_that_hangs_holds_up_no_end_of_the_process(hanging: Hanging) -> None:
    with pytest.raises(HungError):
        within(0.01, "daemon", hanging)
    threads = [each for each in threading.enumerate() if each.name == "ofu-patience"]
    assert threads
    assert all(each.daemon for each in threads)


def test_the_event_loop_goes_on_while_a_call_hangs(hanging: Hanging) -> None:
    async def beside() -> str:
        waiting = asyncio.create_task(soon(LONG, "loop", hanging))
        while not hanging.began:
            await asyncio.sleep(0)
        hanging.go_on.set()
        return await waiting

    assert asyncio.run(beside()) == "done"


def test_a_task_that_is_cancelled_at_the_instant_of_the_answer_ends(hanging: Hanging) -> None:
    async def main() -> None:
        task = asyncio.create_task(soon(LONG, "answers as it is cancelled", hanging))
        while not hanging.began:
            await asyncio.sleep(0.001)
        hanging.go_on.set()
        for thread in threading.enumerate():
            if thread.name == "ofu-patience":
                thread.join()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_coroutine_in_time_is_passed_on() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert asyncio.run(limited(SOON, work())) == 7


def test_a_coroutine_that_takes_longer_is_cancelled() -> None:
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


def test_an_error_of_a_coroutine_is_its_own() -> None:
    async def work() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        asyncio.run(limited(SOON, work()))


def test_calls_that_have_returned_are_forgotten() -> None:
    for number in range(50):
        within(LONG, f"file {number}", lambda: 7)
    threads = [each for each in gc.get_objects() if type(each) is threading.Thread]
    assert sum(each.name == "ofu-patience" and not each.is_alive() for each in threads) < 5
