"""Reads a long stretch of time in chunks that the server accepts, goes on after an error, and notes what is missing.

A chunk is cut where hours end, and all queries of one chunk stand or fall together, so that no ratio has a numerator
from other hours than its denominator. The sums are the same however the time is cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import partial
from threading import Thread
from typing import NamedTuple, TypeVar

from ofu_exporter.errors import QueryError
from ofu_exporter.fleet.history_server import HistoryServer
from ofu_exporter.fleet.hours import HOUR, TimeSpan
from ofu_exporter.fleet.series import Series
from ofu_exporter.values.reasons import QueryReason

AnswerT = TypeVar("AnswerT")
Answers = Sequence[list[Series]]

HOURS_AT_ONCE = 24
"""Hours that are asked for at once, until the server says that this is too much."""
_AT_ONCE = 2
"""Queries that the server has at once."""
_LOST_IN_A_ROW = 3
"""After this many chunks in a row without an answer the server is taken to be away, and no further one is asked for."""
_SMALLER = (QueryReason.TOO_MUCH, QueryReason.SILENT)
"""After these the server may answer for fewer hours."""

SOME_SERIES = "some series"
"""What is missing where a server answers with only some of its data."""


class MissingChunk(NamedTuple):
    what: str
    span: TimeSpan
    why: str


OnProgress = Callable[[str, int, int], object]
"""Is told what is read, and how many of how many hours are done."""


def _begun(ask: Callable[[], AnswerT]) -> Future[AnswerT]:
    """An answer that comes from a thread that does not hold up the end of the process."""
    coming: Future[AnswerT] = Future()

    def run() -> None:
        try:
            coming.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is waited for
            coming.set_exception(error)

    Thread(target=run, name="query", daemon=True).start()
    return coming


def _next_of(answers: Iterator[AnswerT]) -> Future[AnswerT | None]:
    """The next answer, or None after the last."""
    return _begun(lambda: next(answers, None))


def _answers_to(ask: Callable[[str], AnswerT], expressions: Sequence[str]) -> list[AnswerT]:
    """The answers in order. The server works on the next one while the last is read; no query outlives an error."""
    coming, answers = deque[Future[AnswerT]](), []
    try:
        for each in expressions:
            coming.append(_begun(partial(ask, each)))
            if len(coming) == _AT_ONCE:
                answers.append(coming.popleft().result())
        return answers + [each.result() for each in coming]
    finally:
        wait(coming)


class ChunkReader:
    """Reads from a server, chunk after chunk in the order of time."""

    def __init__(
        self,
        client: HistoryServer,
        progress: OnProgress = lambda *_: None,
        hours_at_once: int = HOURS_AT_ONCE,
    ) -> None:
        self.client = client
        self.missing: list[MissingChunk] = []
        self._progress = progress
        self.hours_at_once = hours_at_once
        self._lost = 0

    def recorded(self, what: str, names: Sequence[str], span: TimeSpan) -> Iterator[Answers]:
        client = self.client
        return self.read(
            what, span, lambda chunk: _answers_to(lambda name: client.recorded(name, *chunk), names)
        )

    def stepped(
        self, what: str, expressions: Sequence[str], span: TimeSpan, step: float = HOUR
    ) -> Iterator[Answers]:
        """Expressions at the end of every step of a time."""
        client = self.client
        return self.read(
            what,
            span,
            lambda chunk: _answers_to(lambda each: client.steps(each, *chunk, step), expressions),
        )

    def series(
        self, what: str, expression: str, span: TimeSpan, step: float = HOUR
    ) -> Iterator[Series]:
        """The series of one expression, chunk by chunk."""
        for (series,) in self.stepped(what, [expression], span, step):
            yield from series

    def read(
        self, what: str, span: TimeSpan, fetch: Callable[[TimeSpan], AnswerT]
    ) -> Iterator[AnswerT]:
        """The answers about every chunk that can be had; the next is asked for while somebody works on the last.

        `fetch` runs in another thread. Raises QueryError where the server lets nobody in.
        """
        answers = self._answers(what, span, fetch)
        coming = _next_of(answers)
        while (answer := coming.result()) is not None:
            coming = _next_of(answers)
            yield answer

    def _answers(
        self, what: str, span: TimeSpan, fetch: Callable[[TimeSpan], AnswerT]
    ) -> Iterator[AnswerT]:
        waiting = [*span.pieces(self.hours_at_once)][::-1]
        hours, done = self.hours_at_once, 0
        while waiting:
            chunk = waiting.pop()
            if chunk.hours > hours:  # what was too much once is not asked for again
                waiting.extend([*chunk.pieces(hours)][::-1])
                continue
            self._progress(what, done, span.hours)
            answer, why = self._fetched(fetch, chunk)
            if answer is not None:
                if partial := self.client.take_partial_answer():
                    self._note_partial(chunk, partial)
                yield answer
            elif why is not None and why.reason in _SMALLER and chunk.hours > 1:
                hours = max(1, chunk.hours // 2)
                waiting.append(chunk)
                continue
            elif why is not None:
                self._note(what, chunk, why.detail)
            done += chunk.hours
        self._progress(what, span.hours, span.hours)

    def _fetched(
        self, fetch: Callable[[TimeSpan], AnswerT], chunk: TimeSpan
    ) -> tuple[AnswerT | None, QueryError | None]:
        if self._lost >= _LOST_IN_A_ROW:
            away = QueryError(QueryReason.UNREACHABLE, "not asked for: the server is away")
            return None, away
        try:
            answer = fetch(chunk)
        except QueryError as error:
            if error.reason is QueryReason.DENIED:
                raise
            is_silent = error.reason is QueryReason.SILENT and chunk.hours <= 1
            is_lost = is_silent or error.reason in (QueryReason.UNREACHABLE, QueryReason.BUSY)
            self._lost = self._lost + 1 if is_lost else 0
            return None, error
        self._lost = 0
        return answer, None

    def _note_partial(self, chunk: TimeSpan, why: str) -> None:
        """One entry for all answers that lack series, since a store that is away is missing in each."""
        noted = next((each for each in self.missing if each.what == SOME_SERIES), None)
        if noted is None:
            self.missing.append(MissingChunk(SOME_SERIES, chunk, why))
            return
        whole = TimeSpan(min(noted.span.start, chunk.start), max(noted.span.end, chunk.end))
        self.missing[self.missing.index(noted)] = noted._replace(span=whole)

    def _note(self, what: str, chunk: TimeSpan, why: str) -> None:
        """One entry for chunks that follow each other and are missing for the same reason."""
        before = self.missing[-1] if self.missing else None
        if before and (before.what, before.span.end, before.why) == (what, chunk.start, why):
            self.missing[-1] = MissingChunk(what, TimeSpan(before.span.start, chunk.end), why)
        else:
            self.missing.append(MissingChunk(what, chunk, why))
