"""Makes a row for each job, each user, and each GPU that a job holds without tensor work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ofu_exporter.serving.node_json import NodeGpu, NodeJob, NodeJson, mean_ofu
from ofu_exporter.terminal import pictures
from ofu_exporter.terminal.details import gpu_details, job_details, user_details
from ofu_exporter.terminal.gpu_rows import (
    MOST_NAME,
    NODE,
    bare_percent,
    gpu_place,
    held_idle_seconds,
    holders,
    mean_hour,
)
from ofu_exporter.terminal.scene import Scene, gpu_label, idle_words, mean_losses, ofu_of, user_of
from ofu_exporter.terminal.table import TableRow, TerminalColumn, name_cell, picture, text_cell
from ofu_exporter.values.reported import LikelyCause, Verdict
from ofu_exporter.values.text import first_names

OnNodes = list[tuple[str, NodeJob]]
"""A job as several nodes know it, with their names."""
JOB_COLUMNS = (
    TerminalColumn("job", "JOB", 8, MOST_NAME, sort="j"),
    TerminalColumn("name", "NAME", 8, 28, rank=5),
    TerminalColumn("user", "USER", 6, 14, rank=2, sort="u"),
    TerminalColumn("node", "NODE", 6, 24, rank=6, sort="n"),
    TerminalColumn("gpus", "GPUS", 4, 4, rank=4, to_the_right=True, sort="g"),
    TerminalColumn("ofu", "OFU", 5, 5, to_the_right=True, sort="o"),
    TerminalColumn("mfu", "MFU", 5, 5, rank=1, to_the_right=True, sort="m"),
    TerminalColumn("verdict", "VERDICT", 25, 42, sort="d"),
    TerminalColumn("hour", "last hour", 10, 40, rank=7, is_picture=True, sort="h"),
    TerminalColumn("cause", "LIKELIEST CAUSE", 16, 60, rank=8),
)
USER_COLUMNS = (
    TerminalColumn("user", "USER", 8, 20, sort="u"),
    TerminalColumn("jobs", "jobs", 5, 5, to_the_right=True, sort="j"),
    TerminalColumn("gpus", "GPUS", 6, 6, to_the_right=True, sort="g"),
    TerminalColumn("ofu", "OFU", 5, 5, to_the_right=True, sort="o"),
    TerminalColumn("bar", "now", 10, 70, is_picture=True),
    TerminalColumn("idle", "idle", 6, 6, rank=1, to_the_right=True, sort="i"),
    TerminalColumn("hours", "GPU-hours", 9, 9, rank=2, to_the_right=True, sort="h"),
    TerminalColumn("apart", "jobs that disagree", 8, 18, rank=3, to_the_right=True),
)
IDLE_COLUMNS = (
    NODE,
    TerminalColumn("gpu", "GPU", 4, 5, to_the_right=True, sort="g"),
    TerminalColumn("idle", "no tensor work for", 9, 18, sort="i"),
    TerminalColumn("job", "JOB", 8, MOST_NAME, sort="j"),
    TerminalColumn("user", "USER", 6, 14, sort="u"),
    TerminalColumn("name", "NAME", 8, 30, rank=1),
)
WORDS = {
    Verdict.AGREE: ("agrees", "good"),
    Verdict.MFU_ABOVE_OFU: ("MFU above OFU", "bad"),
    Verdict.MFU_BELOW_OFU: ("MFU below OFU", "bad"),
    Verdict.INSUFFICIENT_DATA: ("too little data", "soft"),
}
WORST = (Verdict.MFU_ABOVE_OFU, Verdict.MFU_BELOW_OFU, Verdict.AGREE, Verdict.INSUFFICIENT_DATA)


def jobs_of(scene: Scene) -> list[OnNodes]:
    """Every job once, with all the nodes that know it. Those of two clusters may have one id."""
    by_job: dict[tuple[str, str, str], OnNodes] = {}
    for name, node in scene.answered:
        for job in node.jobs:
            by_job.setdefault((job.scheduler, job.job_id, user_of(job)), []).append((name, job))
    return list(by_job.values())


def total_ofu(jobs: Iterable[NodeJob]) -> float | None:
    """The OFU of jobs over all their observed time: a quotient of sums, not a mean of ratios."""
    return mean_ofu((job.utilization_ratio, job.observed_seconds) for job in jobs)


def job_rows(scene: Scene) -> list[TableRow]:
    return [_job(job) for job in jobs_of(scene)]


def worst_verdict(on_nodes: OnNodes) -> Verdict | None:
    """The verdict of the node that disagrees most; None if the job reports nothing."""
    verdicts = {job.verdict for _, job in on_nodes}
    return next((verdict for verdict in WORST if verdict in verdicts), None)


def styled_verdict(on_nodes: OnNodes) -> tuple[str, str]:
    verdict = worst_verdict(on_nodes)
    if verdict is None:
        return "reports nothing", "soft"
    words, style = WORDS[verdict]
    alike = [each for each in on_nodes if each[1].verdict is verdict]
    difference = _difference(alike)
    if verdict.diverged and difference is not None:
        points = f"{100 * abs(difference):.0f} points"
        too_high = verdict is Verdict.MFU_ABOVE_OFU
        words = f"MFU {points} above OFU" if too_high else f"MFU {points} below OFU"
    if verdict.diverged and len(alike) < len(on_nodes):
        words += f", on {len(alike)} of {len(on_nodes)} nodes"
    return words, style


def likeliest_cause(on_nodes: OnNodes) -> LikelyCause | None:
    """That of the first node with the verdict of the job; None where none is known."""
    verdict = worst_verdict(on_nodes)
    alike = (job for _, job in on_nodes if job.verdict is verdict)
    return next((job.causes[0] for job in alike if job.causes), None)


def _compared(on_nodes: OnNodes) -> tuple[float | None, float | None]:
    """Reported MFU and OFU of the last minutes, over all nodes."""
    both = [
        (job.mfu_ratio, job.compared_utilization_ratio, job.compared_seconds)
        for _, job in on_nodes
        if job.mfu_ratio is not None and job.compared_utilization_ratio is not None
    ]
    mfu = mean_ofu((mfu, seconds) for mfu, _, seconds in both)
    return mfu, mean_ofu((ofu, seconds) for _, ofu, seconds in both)


def _job(on_nodes: OnNodes) -> TableRow:
    jobs = [job for _, job in on_nodes]
    first, ofu, (mfu, _) = jobs[0], total_ofu(jobs), _compared(on_nodes)
    gpus = math.fsum(job.gpu_count for job in jobs)
    hours = [(job.last_hour, job.gpu_count) for job in jobs]
    observed = math.fsum(job.observed_seconds for job in jobs)
    words, style = styled_verdict(on_nodes)
    cause = likeliest_cause(on_nodes)
    has_ended = all(job.ended is not None for job in jobs)
    look = "soft" if has_ended else ""
    user = user_of(first)
    nodes = [where for where, _ in on_nodes]
    return TableRow(
        subject=f"job {first.scheduler} {first.job_id} {user}",
        cells={
            "job": text_cell(first.job_id, look, first.job_id.zfill(24)),
            "name": text_cell(first.job_name + " (ended)" * has_ended, look),
            "user": text_cell(user, look, user or None),
            "node": text_cell(first_names(nodes, 3), look, nodes[0]),
            "gpus": text_cell(f"{gpus:.3g}", look, gpus),
            "ofu": text_cell(bare_percent(ofu), look or "strong", ofu),
            "mfu": text_cell(bare_percent(mfu), look, mfu),
            "verdict": text_cell(words, style, _difference(on_nodes)),
            "hour": picture(lambda width: pictures.spark(mean_hour(hours), width), observed),
            "cause": text_cell(cause.cause if cause else "", look),
        },
        details=lambda: job_details(on_nodes),
        words=" ".join([first.job_id, first.job_name, user, first.account, *nodes, words]),
        style=look,
    )


def _difference(on_nodes: OnNodes) -> float | None:
    mfu, ofu = _compared(on_nodes)
    return None if mfu is None or ofu is None else mfu - ofu


def user_rows(scene: Scene) -> list[TableRow]:
    users: dict[str, OnNodes] = {}
    for on_nodes in jobs_of(scene):
        for where, job in on_nodes:
            if job.ended is None:
                users.setdefault(user_of(job) or "unknown", []).append((where, job))
    gpus = _gpus_of_users(scene)
    return [_user(user, on_nodes, gpus.get(user, [])) for user, on_nodes in users.items()]


def _gpus_of_users(scene: Scene) -> dict[str, list[tuple[NodeJson, NodeGpu]]]:
    """The GPUs of each user; a GPU of several users counts for each of them."""
    gpus: dict[str, list[tuple[NodeJson, NodeGpu]]] = {}
    for _, node, gpu in scene.gpus:
        for user in {user_of(job) or "unknown" for job in holders(node, gpu)}:
            gpus.setdefault(user, []).append((node, gpu))
    return gpus


def _user(user: str, on_nodes: OnNodes, gpus_held: Sequence[tuple[NodeJson, NodeGpu]]) -> TableRow:
    gpus = math.fsum(gpu.share_ratio for _, gpu in gpus_held)
    ofu = mean_ofu((ofu_of(gpu), gpu.share_ratio) for _, gpu in gpus_held)
    losses = mean_losses(gpu for _, gpu in gpus_held)
    idle = sum(held_idle_seconds(node, gpu) is not None for node, gpu in gpus_held)
    hours = math.fsum(job.observed_seconds for _, job in on_nodes) / 3600
    jobs = {(job.scheduler, job.job_id) for _, job in on_nodes}
    apart = {
        (job.scheduler, job.job_id) for _, job in on_nodes if job.verdict and job.verdict.diverged
    }
    return TableRow(
        subject=f"user {user}",
        cells={
            "user": text_cell(user, order=user),
            "jobs": text_cell(str(len(jobs)), order=len(jobs)),
            "gpus": text_cell(f"{gpus:.4g}", order=gpus),
            "ofu": text_cell(bare_percent(ofu), "strong", ofu),
            "bar": picture(lambda width: pictures.bar(ofu, losses, width)),
            "idle": text_cell(str(idle or ""), "warn", idle),
            "hours": text_cell(f"{hours:.1f}", order=hours),
            "apart": text_cell(str(len(apart) or ""), "bad"),
        },
        details=lambda: user_details(user, on_nodes),
        words=" ".join([user, *(job.job_id for _, job in on_nodes)]),
    )


def idle_rows(scene: Scene) -> list[TableRow]:
    """The GPUs that a job holds and that did no tensor work, the longest first."""
    rows = [
        (idle, _idle(name, node, gpu, idle))
        for name, node, gpu in scene.gpus
        if (idle := held_idle_seconds(node, gpu)) is not None
    ]
    return [row for _, row in sorted(rows, key=lambda each: -each[0])]


def _idle(where: str, node: NodeJson, gpu: NodeGpu, idle: float) -> TableRow:
    jobs = holders(node, gpu)
    users = ", ".join(dict.fromkeys(map(user_of, jobs)))
    ids = ", ".join(job.job_id for job in jobs)
    names = ", ".join(job.job_name for job in jobs)
    return TableRow(
        subject=f"idle {where} {gpu.uuid} {gpu.gpu_instance}",
        cells={
            "node": name_cell(where),
            "gpu": text_cell(gpu_label(gpu), order=gpu_place(gpu)),
            "idle": text_cell(idle_words(idle), "warn", idle),
            "job": text_cell(ids, order=ids),
            "user": text_cell(users, order=users),
            "name": text_cell(names),
        },
        details=lambda: gpu_details(where, node, gpu, jobs, idle),
        words=" ".join([where, gpu_label(gpu), ids, users, names]),
    )
