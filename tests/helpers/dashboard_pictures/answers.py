"""Asks a Prometheus what the panels of a dashboard ask, as Grafana does."""

from __future__ import annotations

import json
import math
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
SCRAPE_SECONDS = 60.0
"""How often the pages in the history were scraped: what Grafana calls the scrape interval of the data source."""


@dataclass(frozen=True)
class Series:
    """A line of a panel: a value at every step, None where there is none."""

    name: str
    values: tuple[float | None, ...]

    @property
    def known(self) -> list[float]:
        return [value for value in self.values if value is not None]


@dataclass(frozen=True)
class Asked:
    """A range that a reader looks at, and the choices at the top of the dashboard."""

    url: str
    end: float
    seconds: float
    choices: Mapping[str, str]

    def series(self, panel: Json, points: int) -> list[Series]:
        """All lines of a panel, in the order of its queries."""
        step = self.step(panel, points)
        count = int(self.seconds / step) + 1
        found = []
        for target in panel["targets"]:
            asked = {"start": self.end - (count - 1) * step, "end": self.end, "step": step}
            for one in self._ask("query_range", self.filled(target["expr"], step), asked):
                at = {round((time - asked["start"]) / step): v for time, v in one["values"]}
                values = tuple(finite(at.get(place)) for place in range(count))
                found.append(Series(legend(target["legendFormat"], one["metric"]), values))
        return found

    def rows(self, panel: Json) -> list[list[tuple[dict[str, str], float]]]:
        """What each query of a table has at the end of the range: labels and value."""
        asked = {"time": self.end}
        return [
            [
                (one["metric"], float(one["value"][1]))
                for one in self._ask("query", self.filled(target["expr"], 60.0), asked)
            ]
            for target in panel["targets"]
        ]

    def step(self, panel: Json, points: int) -> float:
        """Seconds between two points: no more points than the panel has room for, in whole minutes."""
        least = 60.0 if panel.get("interval") == "1m" else SCRAPE_SECONDS
        return max(least, math.ceil(self.seconds / points / 60) * 60.0)

    def filled(self, text: str, step: float) -> str:
        """A query, or a title, with what was chosen; nothing chosen is All."""
        ranges = {
            "$__rate_interval": f"{max(step + SCRAPE_SECONDS, 4 * SCRAPE_SECONDS):.0f}s",
            "$__range": f"{self.seconds:.0f}s",
        }
        for name, value in {**ranges, **{f"${k}": v for k, v in self.choices.items()}}.items():
            text = text.replace(name, value)
        return re.sub(r"\$\w+", ".*", text)

    def label_values(self, name: str, match: str) -> list[str]:
        """Every value that a label of some series has, as a variable asks for them."""
        asked = {"match[]": match, "start": self.end - self.seconds, "end": self.end}
        return sorted(self._get(f"label/{name}/values", asked))

    def _ask(self, path: str, query: str, more: Mapping[str, float]) -> list[Json]:
        result: list[Json] = self._get(path, {"query": query, **more})["result"]
        return result

    def _get(self, path: str, asked: Mapping[str, object]) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(url, timeout=300) as answer:
            return json.load(answer)["data"]


def finite(text: str | None) -> float | None:
    value = float(text) if text is not None else math.nan
    return value if math.isfinite(value) else None


def legend(template: str, labels: Mapping[str, str]) -> str:
    """A label that is not there is empty, as Grafana writes it."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), template).strip()
