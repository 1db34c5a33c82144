"""Runs calls that may never return, such as those of a file system whose server is away, and waits for a limited time.

Each call has a daemon thread of its own, so the process can end without it. While a call has not returned, no other
call of the same name begins. So each name costs one thread at most.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import Any, TypeVar

from ofu_exporter.errors import HungError

ResultT = TypeVar("ResultT")

_running: dict[str, threading.Thread] = {}
_lock = threading.Lock()


def within(seconds: float, name: str, work: Callable[[], ResultT]) -> ResultT:
    """The result of a call. Raises what that raises, and HungError where the call takes longer."""
    earlier = _running.get(name)
    if earlier is not None:
        earlier.join(seconds)
    try:
        return begun(name, work).result(seconds)
    except FutureTimeoutError as error:
        raise HungError(name, seconds) from error


async def soon(seconds: float, name: str, work: Callable[[], ResultT]) -> ResultT:
    """The same on an event loop, which is not blocked. If an earlier call of this name still runs, it does not wait."""
    coming = asyncio.wrap_future(begun(name, work))
    try:
        # Before Python 3.12, asyncio.wait_for() forgets that it was cancelled where the result comes at that instant.
        await asyncio.wait({coming}, timeout=seconds)
        if not coming.done():
            raise HungError(name, seconds)
        return coming.result()
    except (asyncio.TimeoutError, FutureTimeoutError) as error:
        raise HungError(name, seconds) from error
    finally:
        coming.cancel()


def begun(name: str, work: Callable[[], ResultT]) -> Future[ResultT]:
    """A call that has begun. Raises HungError while an earlier one of its name runs."""
    future: Future[ResultT] = Future()
    future.set_running_or_notify_cancel()  # from now on a caller that gives up does not cancel it

    def run() -> None:
        try:
            tell = partial(future.set_result, work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            tell = partial(future.set_exception, error)
        with _lock:
            del _running[name]
        tell()

    with _lock:
        if name in _running:
            raise HungError(name, 0.0)
        thread = threading.Thread(target=run, name="ofu-patience", daemon=True)
        thread.start()
        _running[name] = thread
    return future


async def limited(seconds: float, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of a coroutine, in the same task if this Python can do that.

    Raises asyncio.TimeoutError where it takes longer, and ends it.
    """
    if sys.version_info < (3, 11):
        return await asyncio.wait_for(work, seconds)
    async with asyncio.timeout(seconds):
        return await work
