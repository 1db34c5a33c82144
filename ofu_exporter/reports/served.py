"""Adds up what the counters of a serving engine's page grew by, pull after pull, over restarts of the engine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from ofu_exporter.jobs.kept_served import KeptCounters
from ofu_exporter.reports import engine_pages
from ofu_exporter.reports.engine_pages import EnginePage, EngineSeries
from ofu_exporter.values.served import CACHED, PROMPT, RECOMPUTED, Served, add_to

MAX_NAMES = 16
"""Names of models, and of phases, of one engine, over all pages: each is a series. The rest are one, without a name."""
MAX_PROCESSES, MAX_KEPT = 32, 4 * engine_pages.MAX_SERIES
"""Engines behind one address whose pages are told apart by when their processes started, and series of them all."""
SKEW_SECONDS = 60.0
"""By how much the clocks of two nodes may differ."""


class ServedTally:
    """The totals of one page. It begins at 0: what an engine served before it was first read is not known to be the
    job's."""

    def __init__(self, kept: Iterable[KeptCounters] = ()) -> None:
        """`kept` are the pages up to which an earlier one counted."""
        self.served = Served()
        self.is_read = False
        """Whether the last pull had a page."""
        self._pages: dict[tuple[str, ...], tuple[EnginePage, float]] = {}
        """The last page of each engine that answered and when it was read, by the starts of its processes; the one
        read last stands last."""
        self._names: tuple[set[str], set[str]] = set(), set()
        """Models, and phases."""
        for each in kept:
            for names, earlier in zip(self._names, (each.models, each.phases), strict=True):
                names.update(earlier[:MAX_NAMES])
            counters = {EngineSeries(*row[:4]): row[4] for row in each.counters}
            self._pages[each.started] = self._named(EnginePage(counters, {}, each.started)), each.at

    def kept(self) -> tuple[KeptCounters, ...]:
        """The pages up to which this one has counted."""
        models, phases = (tuple(sorted(names)) for names in self._names)
        return tuple(
            KeptCounters.model_construct(
                started=page.started,
                at=at,
                counters=tuple((*series, value) for series, value in page.counters.items()),
                models=models,
                phases=phases,
            )
            for page, at in self._pages.values()
        )

    def take(self, page: EnginePage, at: float = 0.0) -> None:
        """Add a page that was read at a Unix time."""
        self.is_read = True
        page = self._named(page)
        last, last_at = next(reversed(self._pages.values()), (None, 0.0))
        before, before_at = self._pop(page)
        self._pages[page.started] = _with_gone(page, before), at
        self._forget_oldest()
        if before is not None:
            self._add(grown(before, page), at - before_at)
        elif last is None:  # what it served before is not counted, but that it counts is known
            self._add(dict.fromkeys(page.counters, 0.0), 0.0)
        elif _is_after(page, last, last_at):
            # it began at 0; what was served before the end is not seen
            self._add(page.counters, at - last_at)
        for each, measure in ((self.served.running, "running"), (self.served.waiting, "waiting")):
            each.clear()
            for series, value in page.gauges.items():
                if series.measure == measure:
                    each[series.model] += value

    def _pop(self, page: EnginePage) -> tuple[EnginePage | None, float]:
        """The last page with any of the same processes, and when it was read: one of several may be a new one."""
        started = set(page.started)
        shared = [key for key in self._pages if key == page.started or started & set(key)]
        return [(None, 0.0), *(self._pages.pop(key) for key in shared)][-1]

    def _forget_oldest(self) -> None:
        series = sum(len(page.counters) for page, _ in self._pages.values())
        while len(self._pages) > MAX_PROCESSES or series > MAX_KEPT:
            oldest, _ = self._pages.pop(next(iter(self._pages)))
            series -= len(oldest.counters)

    def _named(self, page: EnginePage) -> EnginePage:
        """The page with no more names than are kept, always the same ones."""
        models, phases = self._names

        def named(series: EngineSeries) -> EngineSeries:
            is_phase = series.measure == engine_pages.SECONDS
            kind = _kept(series.kind, phases) if is_phase else series.kind
            return series._replace(model=_kept(series.model, models), kind=kind)

        counters, gauges = (
            {named(series): value for series, value in values.items()}
            for values in (page.counters, page.gauges)
        )
        return page._replace(counters=counters, gauges=gauges)

    def lose(self) -> None:
        """There was no page: what runs now is not known."""
        self.is_read = False
        self.served.running.clear()
        self.served.waiting.clear()

    def _add(self, growth: Mapping[EngineSeries, float], seconds: float) -> None:
        ranks = Counter((series.measure, series.kind, series.model) for series in growth)
        tokens: dict[tuple[str, str], float] = defaultdict(float)
        for model in {series.model for series in growth}:
            self.served.seconds[model] += max(0.0, seconds)  # below 0 where somebody set the clock
        for series, value in growth.items():
            key = series.model, series.kind
            if series.measure == engine_pages.TOKENS:
                tokens[key] += value
            elif series.measure == engine_pages.REQUESTS:
                self.served.requests[series.model] += value
            elif series.measure == engine_pages.SECONDS:
                self.served.forward_seconds[key] += value
            else:  # of one GPU each: engines side by side are averaged
                mean = value / ranks[series.measure, series.kind, series.model]
                if series.measure == engine_pages.FLOPS:
                    self.served.flops[series.model] += mean
                else:
                    self.served.moved_bytes[key] += mean
        add_to(self.served.tokens, _disjoint(tokens))


def _with_gone(page: EnginePage, before: EnginePage | None) -> EnginePage:
    """The page with what only the one before it had: a gateway leaves out an engine that is late, which then goes on
    from where it was."""
    gone = [
        each for each in (before.counters.items() if before else ()) if each[0] not in page.counters
    ]
    counters = [*gone, *page.counters.items()][-engine_pages.MAX_SERIES :]
    return page._replace(counters=dict(counters))


def grown(before: EnginePage, now: EnginePage) -> dict[EngineSeries, float]:
    """What each counter grew by between two pages of one engine. One that went back is of an engine that was restarted
    and began at 0; what it served between the last page and its end was never seen."""
    growth = {}
    for series, value in now.counters.items():
        earlier = before.counters.get(series, 0.0)
        growth[series] = value - earlier if value >= earlier else value
    return growth


def _kept(name: str, names: set[str]) -> str:
    if len(names) < MAX_NAMES:
        names.add(name)
    return name if name in names else ""


def _is_after(now: EnginePage, last: EnginePage, at: float) -> bool:
    """Whether a page is of a process that followed that of the last page, which was read at a Unix time. Else an
    address leads to several engines by turns, and this one had served before it was first read."""
    start, last_start = _latest(now), _latest(last)
    if start is None or last_start is None:
        return True
    return start > max(last_start, at - SKEW_SECONDS)


def _latest(page: EnginePage) -> float | None:
    """When the last of its processes started, Unix time; None where it does not say."""
    try:
        return max(map(float, page.started), default=None)
    except ValueError:
        return None


def _disjoint(tokens: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Tokens by model and kind, each once: an engine's count of prompts has those from its cache in it, and those that
    were in the cache and were computed again."""
    kinds: dict[tuple[str, str], float] = defaultdict(float)
    for (model, kind), value in tokens.items():
        if kind == engine_pages.ALL_PROMPT:
            others = tokens.get((model, CACHED), 0.0) + tokens.get((model, RECOMPUTED), 0.0)
            kinds[model, PROMPT] += max(0.0, value - others)
        else:
            kinds[model, kind] += value
    return kinds
