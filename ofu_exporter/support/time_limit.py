"""Bounds how long a coroutine may take, without an extra task if this Python version can do that."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


async def limited(seconds: float, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of the work. Raises asyncio.TimeoutError where that takes longer."""
    if sys.version_info < (3, 11):
        return await asyncio.wait_for(work, seconds)
    async with asyncio.timeout(seconds):
        return await work
