"""Bounds how long a coroutine may take, without an extra task if this Python version can do that."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Generic, TypeVar

ResultT = TypeVar("ResultT")


async def limited(seconds: float, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of the work. Raises asyncio.TimeoutError where that takes longer.

    The time begins when the work has to wait for the first time. What need not wait costs no timer.
    """
    try:
        awaited = work.send(None)
    except StopIteration as done:
        result: ResultT = done.value
        return result
    return await _within(seconds, _Rest(work, awaited))


class _Rest(Generic[ResultT]):
    """The rest of a coroutine that has begun: it waits for `awaited`."""

    def __init__(self, work: Coroutine[Any, Any, ResultT], awaited: object) -> None:
        self._work = work
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, ResultT]:
        work, awaited = self._work, self._awaited
        try:
            while True:
                try:
                    sent = yield awaited
                except BaseException as error:  # noqa: BLE001 - the work decides about it
                    awaited = work.throw(error)
                else:
                    awaited = work.send(sent)
        except StopIteration as done:
            result: ResultT = done.value
            return result


if sys.version_info >= (3, 11):

    async def _within(seconds: float, work: Awaitable[ResultT]) -> ResultT:
        async with asyncio.timeout(seconds):
            return await work

else:

    async def _within(seconds: float, work: Awaitable[ResultT]) -> ResultT:
        """The same with an extra task, for older versions."""
        return await asyncio.wait_for(work, seconds)
