"""Makes a row for each problem, with what to do about it: the worst first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ofu_exporter.serving.node_json import NodeJson
from ofu_exporter.support.durations import lasting
from ofu_exporter.terminal.gpu_rows import held_idle_seconds, holders
from ofu_exporter.terminal.job_rows import jobs_of, verdict_words, worst_verdict
from ofu_exporter.terminal.scene import Scene, SceneAnswer, gpu_name, in_words, named
from ofu_exporter.terminal.table import TableRow, TerminalColumn, text
from ofu_exporter.values.clock_limit import known_limits, limit_words
from ofu_exporter.values.reasons import Reason

STUCK_SECONDS = 60.0
"""A snapshot older than this means that the agent does not sample: the longest window has 30 s."""
LONG_IDLE_SECONDS = 600.0
"""A GPU that is held without tensor work for longer than this is listed."""
COLUMNS = (
    TerminalColumn("where", "WHERE", 10, 26, sort="n"),
    TerminalColumn("what", "WHAT", 20, 60, sort="d"),
    TerminalColumn("advice", "WHAT TO DO", 24, 200, rank=1),
)
BAD, WORTH_A_LOOK = "bad", "warn"


class _Problem(NamedTuple):
    where: str
    what: str
    advice: str
    style: str = BAD


def problem_rows(scene: Scene) -> list[TableRow]:
    problems = [*_of_nodes(scene), *_of_jobs(scene)]
    return [_row(each) for each in sorted(problems, key=lambda each: each.style != BAD)]


def _row(problem: _Problem) -> TableRow:
    where, what, advice, style = problem
    return TableRow(
        subject=f"problem {where} {what}",
        cells={
            "where": text(where, style, where),
            "what": text(what, style, what),
            "advice": text(advice),
        },
        details=lambda: [("where", where), ("what", what), ("what to do", advice)],
        words=f"{where} {what}",
        style=style,
    )


def _of_nodes(scene: Scene) -> Iterator[_Problem]:
    for answer in scene.answers:
        if answer.node is None:
            what = answer.problem or "no answer yet"
            yield _Problem(
                answer.name, what, "See whether its agent runs and can be reached from here."
            )
        else:
            yield from _of_node(answer, answer.node)
            yield from _of_gpus(answer.name, answer.node)


def _of_node(answer: SceneAnswer, node: NodeJson) -> Iterator[_Problem]:
    if node.paused:
        yield _Problem(answer.name, "the agent is paused", Reason.PAUSED.advice, WORTH_A_LOOK)
    if answer.age > STUCK_SECONDS:
        what = f"its newest sample is {lasting(answer.age)} old"
        yield _Problem(answer.name, what, "The agent answers but does not sample: see its log.")
    source = node.sources[0] if node.sources else None
    if source and source.reason not in (None, Reason.STARTING.value, Reason.PAUSED.value):
        what = f"source {source.source}: {in_words(source.reason, source.detail)}"
        yield _Problem(answer.name, what, source.advice)


def _of_gpus(where: str, node: NodeJson) -> Iterator[_Problem]:
    for gpu in node.gpus:
        place = f"{where} GPU {gpu_name(gpu)}"
        quiet = (Reason.STARTING.value, Reason.PAUSED.value)
        if gpu.unavailable is not None and gpu.unavailable not in quiet:
            what = f"not measured: {in_words(gpu.unavailable, gpu.detail)}"
            yield _Problem(place, what, gpu.advice)
        limits = known_limits(gpu.window.clock_limits if gpu.window else None) or ()
        advice = next((limit.advice for limit in reversed(limits) if limit.advice), "")
        if advice:
            what = f"its clock is held down: {limit_words(limits)}"
            yield _Problem(place, what, advice, WORTH_A_LOOK)
        idle = held_idle_seconds(node, gpu)
        if idle is not None and idle >= LONG_IDLE_SECONDS:
            jobs = ", ".join(f"{job.job_id} of {job.user}" for job in holders(node, gpu))
            what = f"held by job {jobs} without tensor work for {lasting(idle)}"
            advice = "Ask its user whether the job still needs the GPU."
            yield _Problem(place, what, advice, WORTH_A_LOOK)


def _of_jobs(scene: Scene) -> Iterator[_Problem]:
    for on_nodes in jobs_of(scene):
        verdict = worst_verdict(on_nodes)
        if verdict is None or not verdict.diverged:
            continue
        job = on_nodes[0][1]
        words, style = verdict_words(on_nodes)
        cause = next((each.causes[0] for _, each in on_nodes if each.causes), None)
        likely = f"Likeliest: {cause.cause}, {cause.evidence}" if cause else "No known cause fits."
        where = f"job {job.job_id} on {named([name for name, _ in on_nodes], 2)}"
        yield _Problem(where, words, likely, style)
