"""Defines who answers the queries of reports, and what that costs; by itself it knows nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from ofu_exporter.errors import QueryError
from ofu_exporter.fleet.series import Series
from ofu_exporter.values.reasons import QueryReason


@dataclass
class QueryCost:
    queries: int = 0
    seconds: float = 0.0
    samples: int = 0
    """Samples that the server read, as far as it says."""
    warnings: list[str] = field(default_factory=list)
    """What the server said of the queries, beside its answers, each once."""


class HistoryServer:
    """Whoever answers queries. This one stands where a report has its server, and knows nothing."""

    def __init__(self, shown_url: str, tenant: str = "", queries: int = 0) -> None:
        self.cost = QueryCost(queries)
        self.shown_url, self.tenant = shown_url, tenant

    def instant(self, expression: str, at: float | None = None) -> list[Series]:  # noqa: ARG002 - as it is asked
        """The value of an expression at a time, by default the server's own. Raises QueryError."""
        raise QueryError(QueryReason.REFUSED, f"{self.shown_url} know no {expression}")

    def recorded(self, selector: str, start: float, end: float) -> list[Series]:
        """The samples of a series themselves, those after `start` and not after `end`. Raises QueryError."""
        return self.steps(selector, start, end, 0.0)

    def steps(self, expression: str, start: float, end: float, step: float) -> list[Series]:  # noqa: ARG002
        """The values of an expression at start + step, start + 2 step, ... end. Raises QueryError."""
        return self.instant(expression)

    def take_partial_answer(self) -> str:
        """Why an answer since the last call of this had only a part of the data; empty where none was so."""
        return ""

    def close(self) -> None:
        """Let go of what is open."""
