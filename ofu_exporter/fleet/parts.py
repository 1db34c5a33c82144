"""Reads a long stretch of time in parts that the server accepts, goes on after an error, and notes what is missing.

A part is cut where hours end, and all queries of one part stand or fall together, so that no ratio has a numerator
from other hours than its denominator. The sums are the same however the time is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import NamedTuple, TypeVar

from ofu_exporter.errors import QueryError
from ofu_exporter.fleet.hours import TimeSpan
from ofu_exporter.values.reasons import QueryReason

AnswerT = TypeVar("AnswerT")
PartT = TypeVar("PartT")

HOURS_AT_ONCE = 24
"""Hours that are asked for at once, until the server says that this is too much."""
_LOST_IN_A_ROW = 3
"""After this many parts in a row without an answer the server is taken to be away, and no further part is asked for."""

SOME_SERIES = "some series"
"""What is missing where a server answers with a part of its data."""


class MissingPart(NamedTuple):
    """A stretch of time of which something could not be read."""

    what: str
    span: TimeSpan
    why: str


Progress = Callable[[str, int, int], object]
"""Is told what is read, and how many of how many hours are done."""


def silent(what: str, done: int, total: int) -> None:
    """Tells nobody."""


def complete() -> str:
    """Says of every answer that it has all data."""
    return ""


def _next_of(parts: Iterator[PartT]) -> Future[PartT | None]:
    """The next part, or None after the last, from a thread that does not hold up the end of the process."""
    coming: Future[PartT | None] = Future()

    def ask() -> None:
        try:
            coming.set_result(next(parts, None))
        except BaseException as error:  # noqa: BLE001 - it is raised where the part is waited for
            coming.set_exception(error)

    Thread(target=ask, name="next-part", daemon=True).start()
    return coming


class PartReader:
    """Reads parts one after the other, in the order of time."""

    def __init__(
        self,
        progress: Progress = silent,
        hours_at_once: int = HOURS_AT_ONCE,
        partial: Callable[[], str] = complete,
    ) -> None:
        """`partial`: why an answer since it was last asked had only a part of the data, or an empty text."""
        self.missing: list[MissingPart] = []
        self._progress = progress
        self._partial = partial
        self._hours_at_once = hours_at_once
        self._lost = 0

    def read(
        self, what: str, span: TimeSpan, fetch: Callable[[TimeSpan], AnswerT]
    ) -> Iterator[tuple[TimeSpan, AnswerT]]:
        """Every part that can be had; the next is asked for while somebody works on the last.

        `fetch` runs in another thread. Raises QueryError where the server lets nobody in.
        """
        parts = self._parts(what, span, fetch)
        coming = _next_of(parts)
        while (part := coming.result()) is not None:
            coming = _next_of(parts)
            yield part

    def _parts(
        self, what: str, span: TimeSpan, fetch: Callable[[TimeSpan], AnswerT]
    ) -> Iterator[tuple[TimeSpan, AnswerT]]:
        waiting = [*span.pieces(self._hours_at_once)][::-1]
        hours, done = self._hours_at_once, 0
        while waiting:
            part = waiting.pop()
            if part.hours > hours:  # what was too much once is not asked for again
                waiting.extend([*part.pieces(hours)][::-1])
                continue
            self._progress(what, done, span.hours)
            answer, why = self._fetched(fetch, part)
            if answer is not None:
                if partial := self._partial():
                    self._note_partial(part, partial)
                yield part, answer
            elif why is not None and why.reason is QueryReason.TOO_MUCH and part.hours > 1:
                hours = max(1, part.hours // 2)
                waiting.append(part)
                continue
            elif why is not None:
                self._note(what, part, why.detail)
            done += part.hours
        self._progress(what, span.hours, span.hours)

    def _fetched(
        self, fetch: Callable[[TimeSpan], AnswerT], part: TimeSpan
    ) -> tuple[AnswerT | None, QueryError | None]:
        if self._lost >= _LOST_IN_A_ROW:
            away = QueryError(QueryReason.UNREACHABLE, "not asked for: the server is away")
            return None, away
        try:
            answer = fetch(part)
        except QueryError as error:
            if error.reason is QueryReason.DENIED:
                raise
            is_lost = error.reason in (QueryReason.UNREACHABLE, QueryReason.BUSY)
            self._lost = self._lost + 1 if is_lost else 0
            return None, error
        self._lost = 0
        return answer, None

    def _note_partial(self, part: TimeSpan, why: str) -> None:
        """One entry for all answers that lack series, since a store that is away is missing in each."""
        noted = next((each for each in self.missing if each.what == SOME_SERIES), None)
        if noted is None:
            self.missing.append(MissingPart(SOME_SERIES, part, why))
            return
        whole = TimeSpan(min(noted.span.start, part.start), max(noted.span.end, part.end))
        self.missing[self.missing.index(noted)] = noted._replace(span=whole)

    def _note(self, what: str, part: TimeSpan, why: str) -> None:
        """One entry for parts that follow each other and are missing for the same reason."""
        before = self.missing[-1] if self.missing else None
        if before and (before.what, before.span.end, before.why) == (what, part.start, why):
            self.missing[-1] = MissingPart(what, TimeSpan(before.span.start, part.end), why)
        else:
            self.missing.append(MissingPart(what, part, why))
