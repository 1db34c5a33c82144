"""Makes a row for each GPU or MIG instance, and for each node a row with one character per GPU."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from ofu_exporter.serving.node_json import NodeGpu, NodeJob, NodeJson, mean_ofu
from ofu_exporter.terminal import pictures
from ofu_exporter.terminal.cells import Segment, fit_line
from ofu_exporter.terminal.details import gpu_details, node_details
from ofu_exporter.terminal.scene import (
    Scene,
    SceneAnswer,
    gpu_label,
    idle_words,
    in_words,
    ofu_of,
    user_of,
)
from ofu_exporter.terminal.table import (
    TableRow,
    TerminalColumn,
    joined,
    name_cell,
    picture,
    text_cell,
)
from ofu_exporter.values.clock_limit import known_limits, limit_words

NONE = "\u2013"
"""The sign for a missing number."""
IDLE_SECONDS = 60.0
"""A shorter time without tensor work counts as a pause between steps."""
MOST_NAME = 42
"""Cells of a node's or a job's name, where there is room."""
NODE = TerminalColumn("node", "NODE", 6, MOST_NAME, sort="n")
GPU_COLUMNS = (
    TerminalColumn("gpu", "GPU", 4, 5, to_the_right=True, sort="g"),
    TerminalColumn("ofu", "OFU", 5, 5, to_the_right=True, sort="o"),
    TerminalColumn("error", "\u00b1", 4, 4, rank=4, to_the_right=True, sort="e"),
    TerminalColumn("bar", "of the peak", 10, 70, is_picture=True),
    TerminalColumn("hour", "last hour", 10, 60, rank=5, is_picture=True),
    TerminalColumn("clock", "MHz", 4, 4, rank=3, to_the_right=True, sort="c"),
    TerminalColumn("limit", "held by", 7, 28, rank=8),
    TerminalColumn("job", "JOB", 8, 28, sort="j"),
    TerminalColumn("user", "USER", 6, 14, rank=6, sort="u"),
    TerminalColumn("note", "", 9, 30, rank=7, sort="i"),
)
NODE_COLUMNS = (
    NODE,
    TerminalColumn("gpus", "GPUS", 16, 80),
    TerminalColumn("ofu", "OFU", 5, 5, to_the_right=True, sort="o"),
    TerminalColumn("measured", "measured", 8, 8, rank=2, to_the_right=True, sort="g"),
    TerminalColumn("jobs", "jobs", 4, 4, rank=3, to_the_right=True, sort="j"),
    TerminalColumn("hour", "last hour", 10, 60, rank=4, is_picture=True),
)


def bare_percent(ratio: float | None) -> str:
    """A ratio in percent without its sign, as the columns have it."""
    return NONE if ratio is None else f"{100 * ratio:.1f}"


def gpu_rows(scene: Scene) -> list[TableRow]:
    return [_gpu(*gpu) for gpu in scene.gpus]


def holders(node: NodeJson, gpu: NodeGpu) -> list[NodeJob]:
    """The jobs that have a GPU now."""
    return [job for job in node.jobs if job.ended is None and job.job_id in gpu.jobs]


def held_idle_seconds(node: NodeJson, gpu: NodeGpu) -> float | None:
    """For how long a job has held a GPU without tensor work; None if there is no such job."""
    jobs = holders(node, gpu)
    if not jobs or gpu.idle_seconds is None:
        return None
    now, began = node.unix, min(job.began for job in jobs)
    idle = min(gpu.idle_seconds, math.inf if now is None else max(now - began, 0.0))
    return idle if idle >= IDLE_SECONDS else None


def _gpu(where: str, node: NodeJson, gpu: NodeGpu) -> TableRow:
    window, ofu, jobs = gpu.window, ofu_of(gpu), holders(node, gpu)
    active = window.tensor_active_ratio if window else None
    clock = window.sm_clock_hz if window else None
    losses = window.lost_ratio if window else {}
    stderr = window.stderr_ratio if window else None
    users = ", ".join(dict.fromkeys(map(user_of, jobs)))
    names = ", ".join(job.job_name or job.job_id for job in jobs) or ", ".join(gpu.jobs)
    idle = held_idle_seconds(node, gpu)
    limits = limit_words(known_limits(window.clock_limits if window else None))
    away = gpu.unavailable is not None
    style = "bad" if away else "soft" if active == 0 else ""
    cells = {
        "node": name_cell(where, style),
        "gpu": text_cell(gpu_label(gpu), style, gpu_place(gpu)),
        "ofu": text_cell(bare_percent(ofu), style or "strong", ofu),
        "error": text_cell("" if stderr is None else f"{200 * stderr:.1f}", "soft", stderr),
        "bar": picture(lambda width: pictures.bar(ofu, losses, width)),
        "hour": picture(lambda width: pictures.spark(gpu.last_hour, width)),
        "clock": text_cell("" if clock is None else f"{clock / 1e6:.0f}", style, clock),
        "limit": text_cell(limits, "soft"),
        "job": text_cell(names, style, names or None),
        "user": text_cell(users, style, users or None),
        "note": text_cell(f"idle {idle_words(idle)}" if idle else "", "warn", idle),
    }
    if away:
        why = f"{in_words(gpu.unavailable, gpu.detail)}: {gpu.advice}"
        cells["bar"] = joined((f"{names}  " if names else "", style), (why, style))
    return TableRow(
        subject=f"gpu {where} {gpu.uuid} {gpu.gpu_instance}",
        cells=cells,
        details=lambda: gpu_details(where, node, gpu, jobs, idle),
        words=" ".join(
            [where, gpu_label(gpu), gpu.name, gpu.uuid, names, users, limits, *gpu.jobs]
        ),
        style=style,
        rest_from="bar" if away else "",
    )


def gpu_place(gpu: NodeGpu) -> str:
    """The GPU's name with padded numbers, so that 10 comes after 9."""
    return "/".join(part.zfill(6) for part in (gpu.gpu, gpu.gpu_instance))


def node_rows(scene: Scene) -> list[TableRow]:
    return [_node(answer) for answer in scene.answers]


def _node(answer: SceneAnswer) -> TableRow:
    node = answer.node
    if node is None:
        words = answer.problem or "no answer yet"
        cells = {"node": name_cell(answer.name, "bad"), "gpus": joined((words, "bad"))}
        return TableRow(
            f"node {answer.name}",
            cells,
            lambda: node_details(answer),
            f"{answer.name} {words}",
            "bad",
            rest_from="gpus",
        )
    ofu = node.utilization_ratio
    measured = sum(gpu.unavailable is None for gpu in node.gpus)
    is_partial = measured < len(node.gpus)
    jobs = sum(job.ended is None for job in node.jobs)
    return TableRow(
        subject=f"node {answer.name}",
        cells={
            "node": name_cell(answer.name),
            "gpus": picture(lambda width: fit_line([*_levels(node)], width)),
            "ofu": text_cell(bare_percent(ofu), "strong", ofu),
            "measured": text_cell(f"{measured}/{len(node.gpus)}", "bad" * is_partial, measured),
            "jobs": text_cell(str(jobs), order=jobs),
            "hour": picture(lambda width: pictures.spark(node_hour([node]), width)),
        },
        details=lambda: node_details(answer),
        words=" ".join([answer.name, node.node, *(job.user for job in node.jobs)]),
    )


def _levels(node: NodeJson) -> Iterator[Segment]:
    for gpu in node.gpus:
        if gpu.unavailable is not None:
            yield Segment(pictures.AWAY, "bad")
        else:
            yield Segment(pictures.level(ofu_of(gpu)), "used" if ofu_of(gpu) else "rest")


def node_hour(nodes: Iterable[NodeJson]) -> list[float | None]:
    """The mean OFU of the GPUs that were measured, minute by minute."""
    return mean_hour([(gpu.last_hour, gpu.share_ratio) for node in nodes for gpu in node.gpus])


def mean_hour(hours: list[tuple[list[float | None], float]]) -> list[float | None]:
    """The mean of several nodes' hours, minute by minute, each weighted by its number of GPUs."""
    length = max((len(hour) for hour, _ in hours), default=0)
    return [
        mean_ofu((hour[-back], gpus) for hour, gpus in hours if len(hour) >= back)
        for back in range(length, 0, -1)
    ]
