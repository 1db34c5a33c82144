"""What has something to show only after a minute begins before the first test that waits for any of it.

Tests marked `early(begin=...)` are of one xdist group. What they begin stands side by side: the minute passes once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
Begin = Callable[[Any], contextlib.AbstractContextManager[T]]
"""Given something of its own, such as a folder: what runs until the last test that asks for it."""

APART = 2.0
"""Seconds between two of them: each starts several programs."""


class Early:
    """What has begun and nobody has asked for yet."""

    def __init__(self, begins: Iterable[Begin[Any]], given: Callable[[], Any]) -> None:
        self._given = given
        self._begun: dict[Begin[Any], _Begun] = {
            each: _Begun(each, given(), number * APART) for number, each in enumerate(begins)
        }

    @contextlib.contextmanager
    def of(self, begin: Begin[T]) -> Iterator[T]:
        """What this has begun, or begins now; it ends with the block."""
        begun = self._begun.pop(begin, None) or _Begun(begin, self._given())
        with contextlib.closing(begun):
            yield begun.result()

    def close(self) -> None:
        """End what nobody has asked for."""
        for begun in self._begun.values():
            begun.close()


class _Begun:
    """Something that begins in a thread; what goes wrong there is told to who asks for it."""

    def __init__(self, begin: Begin[Any], given: Any, delay: float = 0.0) -> None:
        self._stack = contextlib.ExitStack()
        thread = ThreadPoolExecutor(1)
        self._value: Future[Any] = thread.submit(self._begin, begin, given, delay)
        thread.shutdown(wait=False)

    def _begin(self, begin: Begin[Any], given: Any, delay: float) -> Any:
        threading.Event().wait(delay)
        return self._stack.enter_context(begin(given))

    def result(self) -> Any:
        return self._value.result()

    def close(self) -> None:
        self._value.exception()
        self._stack.close()
