"""Reads what every GPU of a job did in every hour, beside the others of the same job."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from ofu_exporter.fleet.changes.peers import PeerGroup, PeerHours, Place
from ofu_exporter.fleet.changes.point import OfuPoint
from ofu_exporter.fleet.changes.series import HourReader
from ofu_exporter.fleet.changes.survey import OfuSeries
from ofu_exporter.fleet.chunks import ChunkReader
from ofu_exporter.fleet.history.fleet_history import FleetHistory
from ofu_exporter.fleet.history.queries import GPU, Quantity
from ofu_exporter.fleet.hours import HOUR, ServerClock, TimeSpan
from ofu_exporter.fleet.series import Series as Answer

_OF_JOB = 'ofu_gpu_info{job_id!="",CLUSTER}'
_HOLDS = f"max by ({GPU}, gpu, model, job_id) ({_OF_JOB} and {_OF_JOB} offset 55m)"
_ALONE = f"({_HOLDS}) * on ({GPU}) group_left () (count by ({GPU}) ({_HOLDS}) == 1)"
"""1 for every GPU that one job alone had for the whole hour."""


def _raw(value: str) -> str:
    return f"({_ALONE}) * on ({GPU}) group_left () max by ({GPU}) ({value})"


WORK = Quantity(
    "OFU of GPUs",
    "avg_over_time(job_gpu:ofu:ratio_rate5m[59m59s999ms]) and job_gpu:ofu:ratio_rate5m offset 30m",
    _raw(
        "increase(ofu_gpu_utilization_seconds_total{CLUSTER}[1h])"
        " / (increase(ofu_gpu_observed_seconds_total{CLUSTER}[1h]) > 0)"
    ),
)
"""The work of every GPU: OFU over the hour, of jobs that had it half an hour before the end."""
CLOCK = Quantity(
    "clocks of GPUs",
    "job_gpu:ofu_gpu_sm_clock_hertz:avg30m and (job_gpu:ofu_gpu_tensor_active:avg30m > 0.05)",
    _raw(
        "avg_over_time(ofu_gpu_sm_clock_hertz{CLUSTER}[30m])"
        " and (avg_over_time(ofu_gpu_tensor_active_ratio{CLUSTER}[30m]) > 0.05)"
    ),
)
"""The clock of every GPU while it works: an idle one may rest."""
MODELS = (
    "max by (cluster, instance, model) (last_over_time(node:ofu_gpu_info:topk1[6h])"
    " or last_over_time(ofu_gpu_info[6h]))"
)
NODE_HOURS = 6
"""Hours of one point of a node's series."""


@dataclass(slots=True)
class NodeHours:
    """How far nodes were from their peers, as series."""

    sums: dict[Place, dict[int, list[float]]] = field(default_factory=dict)

    def add(self, hour: int, deviations: Mapping[Place, float]) -> None:
        for place, value in deviations.items():
            self.sums.setdefault(place, {}).setdefault(hour // NODE_HOURS, []).append(value)

    def series(self, clock: ServerClock) -> list[OfuSeries]:
        """One series of every node: its OFU / that of its peers in the same jobs."""
        return [
            OfuSeries(
                "node",
                (("cluster", place.cluster), ("node", place.node)),
                tuple(
                    OfuPoint(
                        at_unix=clock.end_of(NODE_HOURS * block - 1),
                        value=math.exp(sum(values) / len(values)),
                        gpu_hours=len(values),
                    )
                    for block, values in sorted(blocks.items())
                ),
            )
            for place, blocks in sorted(self.sums.items())
        ]


class PeerReader(HourReader):
    def __init__(self, reader: ChunkReader, history: FleetHistory) -> None:
        super().__init__(reader, history)
        self._models: dict[tuple[str, str], str] = {}

    def read(self, quantity: Quantity, nodes: NodeHours | None = None) -> PeerHours:
        """Every hour of a comparison; those of nodes are kept as series as well."""
        peer_hours = PeerHours()
        for answer in self.parts(quantity, partial(self._stepped, quantity.recorded)):
            for (hour, group), values in sorted(self._by_job(answer).items()):
                deviations = peer_hours.add(group, values)
                if nodes is not None:
                    nodes.add(hour, deviations)
        return peer_hours

    def _stepped(self, expression: str, part: TimeSpan) -> list[Answer]:
        for one in self._reader.client.instant(MODELS, part.end):
            place = (one.labels.get("cluster", ""), one.labels.get("instance", ""))
            self._models[place] = one.labels.get("model", "")
        series = self._reader.client.steps(expression, *part, HOUR)
        for one in series:  # while these are added up, the models of the next part are read
            one.labels["model"] = self._model_of(one.labels)
        return series

    def _model_of(self, labels: Mapping[str, str]) -> str:
        return self._models.get((labels.get("cluster", ""), labels.get("instance", "")), "")

    def _by_job(self, answer: Iterable[Answer]) -> dict[tuple[int, PeerGroup], dict[Place, float]]:
        by_group: dict[tuple[int, PeerGroup], dict[Place, float]] = defaultdict(dict)
        for one in answer:
            labels = one.labels
            if labels.get("gpu_instance"):
                continue  # a part of a GPU shares it with strangers
            cluster, node = labels.get("cluster", ""), labels.get("instance", "")
            model = labels["model"] if "model" in labels else self._model_of(labels)
            group = PeerGroup(cluster, labels.get("job_id", ""), model)
            place = Place(cluster, node, labels.get("gpu", ""), labels.get("uuid", ""))
            for time, value in one.points:
                by_group[self._history.clock.hour_of(time), group][place] = value
        return by_group
