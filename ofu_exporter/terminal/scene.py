"""What is shown at one moment: the answer of every node, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from ofu_exporter.ofu.track import HISTORY_SECONDS
from ofu_exporter.serving.node_json import NodeGpu, NodeJob, NodeJson, mean_ofu
from ofu_exporter.support.durations import lasting
from ofu_exporter.values.losses import Loss, Losses

LATE_SECONDS = 30.0
"""The longest window: of an hour without work the end may not have been read yet."""
NOT_IN_A_ROW = {"tensor_clock_hz", "peak_flops", "last_hour"}
"""What a GPU has several values of."""


class SceneAnswer(NamedTuple):
    name: str
    """The name that the user gave; the node's own name is in its answer."""
    node: NodeJson | None
    problem: str = ""
    """Why there is no answer; "" if none has come yet."""
    age: float = 0.0
    """Seconds since its snapshot was made."""


class Scene(NamedTuple):
    answers: tuple[SceneAnswer, ...]
    origin: str
    """Where this is from, in words."""

    @property
    def answered(self) -> list[tuple[str, NodeJson]]:
        return [(answer.name, answer.node) for answer in self.answers if answer.node is not None]

    @property
    def nodes(self) -> list[NodeJson]:
        return [node for _, node in self.answered]

    @property
    def gpus(self) -> Iterator[tuple[str, NodeJson, NodeGpu]]:
        for name, node in self.answered:
            yield from ((name, node, gpu) for gpu in node.gpus)

    @property
    def ofu(self) -> float | None:
        """The mean OFU of all GPUs that are measured now."""
        return mean_ofu((ofu_of(gpu), gpu.share_ratio) for _, _, gpu in self.gpus)

    @property
    def missing(self) -> list[SceneAnswer]:
        return [answer for answer in self.answers if answer.node is None]

    def as_data(self) -> dict[str, Any]:
        return {
            "origin": self.origin,
            "partial_coverage": bool(self.missing),
            "unanswered": {
                answer.name: answer.problem or "no answer yet" for answer in self.missing
            },
            "nodes": {name: node.model_dump(mode="json") for name, node in self.answered},
        }

    def gpu_rows(self) -> list[dict[str, Any]]:
        """Every GPU or instance of the nodes that answer, as plain data: what has one value, and its window's."""
        rows = []
        for name, _, gpu in self.gpus:
            data = gpu.model_dump(mode="json", exclude=NOT_IN_A_ROW)
            window = data.pop("window") or {}
            seconds = window.pop("seconds", None)
            rows.append({"node": name, **data, **window, "window_seconds": seconds})
        return rows


class Feed(Protocol):
    def start(self) -> None:
        """Begin to read."""

    def scene(self) -> Scene:
        """The current scene, at once from memory."""

    def complete(self, seconds: float) -> Scene:
        """Wait until every node has answered or failed, and no longer than these seconds."""

    def stop(self) -> None:
        """Let go of everything."""


def ofu_of(gpu: NodeGpu) -> float | None:
    """The OFU of a GPU now; None where it is not measured."""
    return gpu.window.utilization_ratio if gpu.window else None


def mean_losses(gpus: Iterable[NodeGpu]) -> Losses:
    """Where the rest of the peak of several GPUs goes now: with their mean OFU it adds up to 1."""
    split = [(gpu.window.lost_ratio, gpu.share_ratio) for gpu in gpus if gpu.window]
    split = [(losses, share) for losses, share in split if losses]
    whole = math.fsum(share for _, share in split)
    if not whole:
        return {}
    parts = {loss for losses, _ in split for loss in losses}
    return {
        loss: math.fsum(losses.get(loss, 0.0) * share for losses, share in split) / whole
        for loss in Loss
        if loss in parts
    }


def gpu_label(gpu: NodeGpu) -> str:
    return gpu.gpu + (f"/{gpu.gpu_instance}" if gpu.gpu_instance else "")


def user_of(job: NodeJob) -> str:
    """Who a job is of: its user, or its namespace."""
    return job.user or job.namespace


def in_words(reason: str | None, detail: str) -> str:
    more = f" ({detail})" if detail else ""
    return f"{(reason or '').replace('_', ' ')}{more}"


def idle_words(idle: float) -> str:
    """How long a GPU has done no tensor work, of which agents remember an hour."""
    return "1 h+" if idle >= HISTORY_SECONDS - LATE_SECONDS else lasting(idle)
