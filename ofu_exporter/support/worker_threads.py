"""Runs calls of an event loop on daemon threads. A call that hangs blocks one thread, and the process can still end."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

ResultT = TypeVar("ResultT")

MOST_THREADS = 16
IDLE_SECONDS = 10.0
"""A thread that has had nothing to do for this long ends."""


class _Call(NamedTuple):
    """A call that waits for a thread, and where its result goes."""

    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    result: asyncio.Future[Any]


class WorkerThreads:
    """Threads that start when they are needed, and end when they are not."""

    def __init__(self, most: int = MOST_THREADS, idle_seconds: float = IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._waiting: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._unserved = 0
        """Number of waiting calls minus number of waiting threads: above 0 another thread is needed."""

    async def run(self, work: Callable[[], ResultT]) -> ResultT:
        """The result of a call on one of the threads. Raises what the call raises."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[ResultT] = loop.create_future()
        self._waiting.put(_Call(work, loop, result))
        with self._lock:
            self._unserved += 1
            begins = self._unserved > 0 and self._count < self._most
            if begins:
                self._count += 1
                self._unserved -= 1
        if begins:
            threading.Thread(target=self._run, name="ofu-worker", daemon=True).start()
        try:
            return await result
        finally:
            del result  # the future and its error's frames hold each other, and all that was sent

    def _run(self) -> None:
        while (call := self._next()) is not None:
            outcome: Any = None
            error: Exception | None = None
            try:
                outcome = call.work()
            except Exception as raised:  # noqa: BLE001 - it is raised where the result is awaited
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop has ended
                call.loop.call_soon_threadsafe(_tell, call.result, outcome, error)
            call = outcome = error = None  # the waiting thread keeps no reference to the last call
            with self._lock:
                self._unserved -= 1

    def _next(self) -> _Call | None:
        """The next call; None after a while without one, and then this thread is no longer counted."""
        while True:
            try:
                return self._waiting.get(timeout=self._idle_seconds)
            except queue.Empty:
                with self._lock:
                    if self._unserved < 0:  # otherwise a call was queued for this thread just now
                        self._unserved += 1
                        self._count -= 1
                        return None


def _tell(result: asyncio.Future[Any], outcome: Any, error: Exception | None) -> None:
    if result.done():  # the request was given up
        return
    if error is None:
        result.set_result(outcome)
    else:
        result.set_exception(error)
