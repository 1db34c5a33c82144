"""The parts that dashboards are made of: panels, queries, variables, and where they stand.

What is returned is Grafana's dashboard JSON. Panels come in rows of 24 columns; a panel says how wide it is, and stands
to the right of the one before it where there is room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

ONLY_FAULTS = "Empty while all is well."
"""A panel whose description begins so shows faults, and nothing else."""
GPU_HOURS = "suffix:GPU-h"
"""A unit without a scale. Grafana's own `h` makes days and weeks of hours: 300 GPU-hours would read "1.79 weeks"."""
NO_HOUR = (
    "Nothing yet: the first whole hour with the recording rules is not over, or no job held a GPU."
)
"""What stands in an empty panel that reads what rules record once an hour."""
COLUMNS = 24
_SOURCE = {"type": "prometheus", "uid": "$datasource"}


def query(expression: str, legend: str = "", *, instant: bool = False) -> Json:
    """One query of a panel; `legend` is a template such as {{user}}."""
    return {
        "datasource": _SOURCE,
        "expr": expression,
        "legendFormat": legend or "__auto",
        "instant": instant,
        "range": not instant,
        "format": "table" if instant else "time_series",
    }


def panel(
    kind: str,
    title: str,
    unit: str,
    queries: Sequence[Json],
    *,
    description: str,
    size: tuple[int, int] = (12, 8),
    **field: Any,
) -> Json:
    """A panel of any kind; `field` are its options, and Grafana's field defaults (min, max, custom, ...)."""
    width, height = size
    overrides, options = field.pop("overrides", []), field.pop("options", {})
    if any(hours in each["expr"] for each in queries for hours in (":increase1h", ":sum1h")):
        field.setdefault("noValue", NO_HOUR)
    own = ("transformations", "repeat", "repeatDirection", "maxPerRow")
    rest = {key: field.pop(key) for key in own if key in field}
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": _SOURCE,
        "gridPos": {"x": 0, "y": 0, "w": width, "h": height},
        "targets": [{**one, "refId": chr(ord("A") + at)} for at, one in enumerate(queries)],
        "fieldConfig": {"defaults": {"unit": unit, **field}, "overrides": overrides},
        "options": options,
        **rest,
    }


def lines(
    title: str, unit: str, queries: Sequence[Json], *, stacked: bool = False, **more: Any
) -> Json:
    """Lines over time; stacked ones are filled areas that add up. `legend=False`: the title says what they are."""
    custom: Json = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 40 if stacked else 0}
    custom["spanNulls"] = False  # a gap is what was not measured
    if stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    custom |= more.pop("custom", {})
    if stacked and custom["drawStyle"] == "line":
        more.setdefault("min", 0)  # an area that begins elsewhere shows a wrong part of the whole
    options = {
        "legend": {
            "displayMode": "table",
            "placement": "right",
            "showLegend": more.pop("legend", True),
            "calcs": ["mean"],
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel("timeseries", title, unit, queries, options=options, custom=custom, **more)


PART_COLOURS = {
    "used": "#0f7b55",
    "clock": "#b97700",
    "no_tensor": "#2f6fb3",
    "empty_sms": "#8fbde6",
    "idle": "#9aa2ad",
    "engine_without_tensor": "#2f6fb3",
    "empty_or_idle": "#8fbde6",
    "without_tensor": "#2f6fb3",
    "unsplit": "#9aa2ad",
}
"""Of the parts of the peak, the same everywhere: they differ in lightness too, for readers who see few colours."""


def areas_of_parts(title: str, used: str, lost: str, **more: Any) -> Json:
    """Stacked areas of what was used of the peak and of what was lost, by the label `part`."""
    colours = [
        column(part, color={"mode": "fixed", "fixedColor": colour})
        for part, colour in PART_COLOURS.items()
    ]
    queries = [query(used, "used"), query(lost, "{{part}}")]
    return lines(
        title,
        "percentunit",
        queries,
        stacked=True,
        overrides=colours,
        custom={"fillOpacity": 80, "lineWidth": 0},
        **more,
    )


def bars(title: str, unit: str, queries: Sequence[Json], **more: Any) -> Json:
    """Stacked bars over time, of values that stand for a stretch of time each."""
    custom = {"drawStyle": "bars", "fillOpacity": 80, "lineWidth": 0}
    return lines(title, unit, queries, stacked=True, custom=custom, **more)


def number(title: str, unit: str, expression: str, **more: Any) -> Json:
    """One number, the latest."""
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "none",
        "graphMode": "area",
    }
    more.setdefault("size", (4, 4))
    return panel("stat", title, unit, [query(expression, title)], options=options, **more)


def table(
    title: str, unit: str, columns: Mapping[str, Json], *, hidden: Sequence[str] = (), **more: Any
) -> Json:
    """A table of one row per label set, one column per query. `columns`: its heading and its query."""
    queries = list(columns.values())
    one = len(queries) == 1
    headings = {
        "Value" if one else f"Value #{chr(ord('A') + at)}": name for at, name in enumerate(columns)
    }
    transformations = [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "renameByName": headings,
                "excludeByName": dict.fromkeys(("Time", "__name__", *hidden), True),
            },
        },
    ]
    options = {"showHeader": True, "sortBy": [{"displayName": next(iter(columns)), "desc": True}]}
    return panel(
        "table", title, unit, queries, options=options, transformations=transformations, **more
    )


def cells(title: str, unit: str, queries: Sequence[Json], **more: Any) -> Json:
    """A row of coloured cells over time for every series: a heat map whose rows have names."""
    options = {
        "showValue": "never",
        "rowHeight": 0.9,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    more.setdefault("color", {"mode": "continuous-RdYlGr"})
    return panel("status-history", title, unit, queries, options=options, **more)


def states(title: str, queries: Sequence[Json], **more: Any) -> Json:
    """A bar over time for every series that is there; its value is a count."""
    options = {
        "showValue": "auto",
        "mergeValues": True,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    return panel("state-timeline", title, "short", queries, options=options, **more)


def column(name: str, **properties: Any) -> Json:
    """What one column of a table, or one series, has of its own: a unit, decimals, a link."""
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties.items()],
    }


def row(title: str) -> Json:
    """A heading over the panels that follow."""
    return {
        "type": "row",
        "title": title,
        "collapsed": False,
        "panels": [],
        "gridPos": {"x": 0, "y": 0, "w": COLUMNS, "h": 1},
    }


def choice(name: str, label: str, values: str, *, many: bool = True) -> Json:
    """A variable filled from the labels in Prometheus. With `many`, All is one of the choices.

    All is `.*`, which a series without the label matches as well: there may be no cluster label at all.
    """
    chosen: Json = {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": _SOURCE,
        "query": {"query": values, "refId": name},
        "definition": values,
        "refresh": 2,
        "sort": 3,
        "multi": many,
        "includeAll": many,
    }
    if many:
        chosen |= {"allValue": ".*", "current": {"text": "All", "value": "$__all"}}
    return chosen


def mark(name: str, expression: str, text: str) -> Json:
    """A line through all panels for as long as an expression has a value; `text` is a template as a legend is."""
    return {
        "name": name,
        "datasource": _SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": "blue",
        "expr": expression,
        "step": "60s",
        "titleFormat": name,
        "textFormat": text,
    }


DATASOURCE: Json = {
    "type": "datasource",
    "name": "datasource",
    "label": "Data source",
    "query": "prometheus",
    "refresh": 1,
}
CLUSTER = choice("cluster", "Cluster", "label_values(gpu:ofu_gpu_info:topk1, cluster)")
_VERSIONS = 'cluster:ofu_exporter_build_info:count{cluster=~"$cluster"}'
NEW_VERSION = mark(
    "New version of the agent",
    f"{_VERSIONS} unless {_VERSIONS} offset 10m and on (cluster) {_VERSIONS} offset 10m",
    "{{version}} {{cluster}}",
)
"""For ten minutes from its first agent on. Where nothing is known of a cluster then, no version is new."""
USER = choice("user", "User", 'label_values(job:ofu_job_info:topk1{cluster=~"$cluster"}, user)')


EVALUATED = "1m"
"""How often the rules record what now is: a shorter step asks for every point several times."""


def dashboard(
    name: str,
    title: str,
    description: str,
    variables: Sequence[Json],
    panels: Sequence[Json],
    *,
    step: str = "",
) -> Json:
    """The whole; `name` is the last part of its uid and of its file, `step` the shortest time between two points."""
    if step:
        panels = [{**one, "interval": step} if one["type"] != "row" else one for one in panels]
    return {
        "uid": f"ofu-{name}",
        "title": title,
        "description": description,
        "tags": ["ofu"],
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": 39,
        "version": 1,
        "refresh": "1m",
        "timezone": "browser",
        "time": {"from": "now-6h", "to": "now"},
        "links": [
            {
                "type": "dashboards",
                "title": "OFU",
                "tags": ["ofu"],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
                "targetBlank": False,
                "icon": "dashboard",
                "tooltip": "",
                "url": "",
            }
        ],
        "templating": {"list": [DATASOURCE, *variables]},
        "annotations": {"list": [NEW_VERSION]},
        "panels": placed(panels),
    }


def placed(panels: Sequence[Json]) -> list[Json]:
    """Panels with a number and a place each, from left to right and top to bottom."""
    found: list[Json] = []
    left = top = height = 0
    for number_, one in enumerate(panels, start=1):
        size = one["gridPos"]
        if left + size["w"] > COLUMNS:
            left, top, height = 0, top + height, 0
        found.append({**one, "id": number_, "gridPos": {**size, "x": left, "y": top}})
        left, height = left + size["w"], max(height, size["h"])
    return found
