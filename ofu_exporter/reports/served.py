"""Adds up what the counters of a serving engine's page grew by, pull after pull, over restarts of the engine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from ofu_exporter.reports import engine_pages
from ofu_exporter.reports.engine_pages import EnginePage, Series
from ofu_exporter.values.served import CACHED, PROMPT, RECOMPUTED, Served, add_to


class Tally:
    """The totals of one page. It begins at 0: what an engine served before it was first read is not known to be the
    job's."""

    def __init__(self) -> None:
        self.served = Served()
        self._before: EnginePage | None = None

    def take(self, page: EnginePage) -> None:
        before, self._before = self._before, page
        if before is not None:
            self._add(grown(before, page))
        for each, measure in ((self.served.running, "running"), (self.served.waiting, "waiting")):
            each.clear()
            for series, value in page.gauges.items():
                if series.measure == measure:
                    each[series.model] += value

    def lose(self) -> None:
        """There was no page: what runs now is not known."""
        self.served.running.clear()
        self.served.waiting.clear()

    def _add(self, growth: Mapping[Series, float]) -> None:
        ranks = Counter((series.measure, series.kind, series.model) for series in growth)
        tokens: dict[tuple[str, str], float] = defaultdict(float)
        for series, value in growth.items():
            key = series.model, series.kind
            if series.measure == engine_pages.TOKENS:
                tokens[key] += value
            elif series.measure == engine_pages.REQUESTS:
                self.served.requests[series.model] += value
            elif series.measure == engine_pages.SECONDS:
                self.served.forward_seconds[key] += value
            else:  # of one GPU each: engines side by side are averaged
                self.served.moved_bytes[key] += (
                    value / ranks[series.measure, series.kind, series.model]
                )
        add_to(self.served.tokens, _disjoint(tokens))


def grown(before: EnginePage, now: EnginePage) -> dict[Series, float]:
    """What each counter grew by between two pages. After a restart it is what the counter shows: the engine began at 0,
    and what it served between the last page and its end was never seen."""
    restarted = bool(before.started) and before.started != now.started
    growth = {}
    for series, value in now.counters.items():
        earlier = 0.0 if restarted else before.counters.get(series, 0.0)
        growth[series] = value - earlier if value >= earlier else value
    return growth


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
