"""Calls what a shared disk may never answer, and waits for it for a limited time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

WAIT_SECONDS = 0.5
"""Shorter than a job waits at its end for its last report."""


class SlowDisk:
    """Makes one call at a time, on a daemon thread of its own."""

    def __init__(self) -> None:
        self._last: Future[Any] | None = None

    def ask(self, work: Callable[[], ResultT], seconds: float = WAIT_SECONDS) -> ResultT:
        """What the call returns. Raises what it raises, and TimeoutError while it or the one before it runs."""
        if self._last is not None and not self._last.done():
            raise TimeoutError("the disk does not answer")
        self._last = future = Future[ResultT]()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
                future.set_exception(error)

        try:
            threading.Thread(target=run, name="ofu-disk", daemon=True).start()
        except RuntimeError:  # the interpreter ends, and waits for no thread that asks here
            run()
        try:
            return future.result(seconds)
        except FutureTimeoutError:
            raise TimeoutError("the disk does not answer") from None
