"""Finds GPUs of which only the other exporter tells, so that a report over one of both is silent about none.

A fleet that changes from dcgm-exporter to agents has both in one store. Looked at once an hour.
"""

from __future__ import annotations

from typing import Literal

from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.dcgm_queries import SM_CLOCK_HZ, labelled
from ofu_exporter.fleet.hours import HOUR, TimeSpan
from ofu_exporter.fleet.reports.words import MOST_NAMES
from ofu_exporter.fleet.series import Series
from ofu_exporter.values.text import first_names

Exporter = Literal["agents", "dcgm-exporter"]
_NODE = "cluster, node_name"
_PAGES = {
    "agents": "(gpu:ofu_gpu_info:topk1 or ofu_gpu_info)",
    "dcgm-exporter": labelled(SM_CLOCK_HZ, "uuid", "UUID"),
}
_GPUS = {
    exporter: f"group by ({_NODE}, uuid) "
    f"({labelled(pages, 'node_name', 'instance', 'hostname', 'Hostname')})"
    for exporter, pages in _PAGES.items()
}
"""Each GPU of a node once, however many addresses the node is scraped at."""
_OTHER: dict[Exporter, Exporter] = {"agents": "dcgm-exporter", "dcgm-exporter": "agents"}
_WORDS = {
    "agents": ("agents tell", "without --from"),
    "dcgm-exporter": ("dcgm-exporter tells", "with --from dcgm-exporter"),
}


def gpus_elsewhere(reader: ChunkReader, span: TimeSpan, source: Exporter) -> str:
    """A note on GPUs that the other exporter alone tells of; empty where there are none."""
    client, other = reader.client, _OTHER[source]
    alone = f"count by ({_NODE}) ({_GPUS[other]} unless on (uuid) {_GPUS[source]})"

    def fetch(part: TimeSpan) -> list[Series]:
        has_any = client.steps(f"count({_GPUS[other]})", *part, HOUR)
        return client.steps(alone, *part, HOUR) if has_any else []

    nodes: dict[str, list[float]] = {}
    for answer in reader.read(f"GPUs of {other}", span, fetch):
        for one in answer:
            nodes.setdefault(_node_of(one), []).extend(one.values)
    if not nodes:
        return ""
    gpus, hours = sum(map(max, nodes.values())), sum(map(sum, nodes.values()))
    tells, flags = _WORDS[other]
    return (
        f"Not in these numbers: {gpus:,.0f} GPUs, about {hours:,.0f} GPU-hours, of which only {tells}, on "
        f"{first_names(sorted(nodes), MOST_NAMES)}. The same report {flags} has them; of a job that ran on both this "
        "has a part."
    )


def _node_of(series: Series) -> str:
    cluster, name = (series.labels.get(label, "") for label in ("cluster", "node_name"))
    return f"{cluster}/{name}" if cluster else name
