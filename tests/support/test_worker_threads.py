"""Threads beside an event loop: begun when needed, ended when not, and a call that hangs costs one of them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
from functools import partial

import pytest

from ofu_exporter.support.worker_threads import WorkerThreads
from tests.helpers.agent import SOON, until


def workers() -> int:
    return sum(thread.name == "ofu-worker" for thread in threading.enumerate())


def test_the_result_of_a_call_and_what_it_raises() -> None:
    def fails() -> int:
        raise KeyError("gone")

    async def both() -> int:
        threads = WorkerThreads(idle_seconds=0.01)
        with pytest.raises(KeyError, match="gone"):
            await threads.run(fails)
        return await threads.run(lambda: 7)

    assert asyncio.run(both()) == 7


def test_a_call_runs_beside_the_loop_on_a_daemon_thread() -> None:
    async def ran_on() -> threading.Thread:
        return await WorkerThreads(idle_seconds=0.01).run(threading.current_thread)

    thread = asyncio.run(ran_on())
    assert thread is not threading.current_thread()
    assert thread.daemon


def test_calls_that_hang_hold_up_no_other_until_all_threads_hang() -> None:
    async def run() -> None:
        threads, go_on = WorkerThreads(most=3, idle_seconds=0.01), threading.Event()
        hung = [asyncio.ensure_future(threads.run(lambda: go_on.wait(SOON))) for _ in range(2)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(threads.run(lambda: "third"), SOON) == "third"
        hung.append(asyncio.ensure_future(threads.run(lambda: go_on.wait(SOON))))
        late = asyncio.ensure_future(threads.run(lambda: "late"))
        done, _ = await asyncio.wait([late], timeout=0.05)
        assert not done
        go_on.set()
        assert await asyncio.gather(*hung) == [True] * 3
        assert await late == "late"

    asyncio.run(run())


def test_one_thread_serves_call_after_call_and_idle_threads_end() -> None:
    until(lambda: workers() == 0)

    async def run() -> None:
        threads = WorkerThreads(idle_seconds=0.2)
        first = await threads.run(threading.get_ident)
        assert workers() == 1
        for _ in range(20):
            await threads.run(threading.get_ident)
        assert first

    asyncio.run(run())
    until(lambda: workers() == 0)


def test_many_calls_at_once_all_come_back_on_few_threads() -> None:
    lock, at_work = threading.Lock(), [0, 0]  # now, and at most

    def work(number: int) -> int:
        with lock:
            at_work[0] += 1
            at_work[1] = max(at_work)
        with lock:
            at_work[0] -= 1
        return number

    async def run() -> list[int]:
        threads = WorkerThreads(most=4, idle_seconds=0.001)
        found: list[int] = []
        for _ in range(50):
            found += await asyncio.gather(
                *(threads.run(lambda number=number: work(number)) for number in range(20))  # type: ignore[misc]
            )
        return found

    assert asyncio.run(run()) == [*range(20)] * 50
    assert 1 <= at_work[1] <= 4  # a thread that ends may still be listed beside the one that begins


def test_a_result_that_nobody_awaits_any_more_is_dropped() -> None:
    async def run() -> str:
        threads, go_on = WorkerThreads(most=1, idle_seconds=0.01), threading.Event()
        given_up = asyncio.ensure_future(threads.run(lambda: go_on.wait(SOON)))
        await asyncio.sleep(0)
        given_up.cancel()
        go_on.set()
        return await threads.run(lambda: "next")

    assert asyncio.run(run()) == "next"


def test_a_loop_that_has_ended_costs_the_thread_nothing() -> None:
    go_on = threading.Event()
    threads = WorkerThreads(most=1, idle_seconds=SOON)

    async def begin() -> None:
        task = asyncio.ensure_future(threads.run(lambda: go_on.wait(SOON)))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(begin())
    go_on.set()

    async def again() -> str:
        return await asyncio.wait_for(threads.run(lambda: "the same thread"), SOON)

    assert asyncio.run(again()) == "the same thread"


def test_what_a_call_that_fails_was_given_goes_without_the_garbage_collector() -> None:
    """A circle around each refused report would grow by hundreds of MiB before it is looked for."""

    class Sent:
        """What a client sent."""

    def refuse(_: Sent) -> None:
        raise ValueError

    async def run() -> weakref.ref[Sent]:
        sent = Sent()
        with contextlib.suppress(ValueError):
            await WorkerThreads().run(partial(refuse, sent))
        return weakref.ref(sent)

    gc.disable()
    try:
        seen = asyncio.run(run())
        until(lambda: seen() is None)
    finally:
        gc.enable()
