"""Makes the page of the node: its OFU, every GPU or MIG instance, and its jobs."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence

from ofu_exporter.serving.node_json import NodeGpu, NodeJson
from ofu_exporter.serving.pages.pictures import bar, spark
from ofu_exporter.support.durations import lasting
from ofu_exporter.support.logs import LastLine
from ofu_exporter.support.percent import percent
from ofu_exporter.support.templates import render
from ofu_exporter.values.clock_limit import known_limits, limit_words
from ofu_exporter.values.reasons import Reason


def node_page(node: NodeJson, lines: Sequence[LastLine] = ()) -> str:
    """The page in HTML, with the last lines of the log of changes, newest first."""
    running = [job for job in node.jobs if job.ended is None]
    verdicts = [job.verdict for job in running if job.verdict is not None]
    return render(
        "node.html",
        node=node,
        source=node.sources[0] if node.sources else None,
        title=f"OFU {percent(node.utilization_ratio, 'not measured')}" if node.unix else "starting",
        seen=_seen(node),
        about=" · ".join(_about(node)),
        note=_note(node),
        measured=sum(gpu.unavailable is None for gpu in node.gpus),
        running=len(running),
        reporting=len(verdicts),
        apart=sum(verdict.diverged for verdict in verdicts),
        whose={job.job_id: job.user or job.namespace for job in node.jobs},
        lines=lines,
        bar=bar,
        spark=spark,
        why=_why,
        clock_about=_clock_about,
        time=_time,
    )


def _seen(node: NodeJson) -> str:
    newest = max((gpu.sampled for gpu in node.gpus if gpu.sampled), default=None)
    if node.unix is None or newest is None:
        return "no sample yet"
    return f"sampled {lasting(node.unix - newest + node.age_seconds)} ago"


def _about(node: NodeJson) -> Iterator[str]:
    models = Counter(gpu.name.removeprefix("NVIDIA ") or "unknown" for gpu in node.gpus)
    yield from (f"{count} \u00d7 {name}" for name, count in models.items())
    sources = [*(first.source for first in node.sources[:1]), *(gpu.source for gpu in node.gpus)]
    yield f"source {', '.join(dict.fromkeys(sources))}"
    yield from (f"driver {each}" for each in sorted({gpu.driver for gpu in node.gpus} - {""}))
    yield f"ofu-exporter {node.version}"


def _note(node: NodeJson) -> str:
    """What a reader must know before any number."""
    if not node.sources:
        return _reason(Reason.STARTING)
    first = node.sources[0]
    if first.reason is None or node.gpus:
        return ""
    why = _reason(Reason(first.reason), first.detail)
    return f"Nothing is measured here. Source {first.source}: {why}"


def _why(gpu: NodeGpu) -> str:
    """Why it is not measured; empty where it is."""
    if gpu.unavailable is None:
        return ""
    active = gpu.window.tensor_active_ratio if gpu.window else None
    tensor = "" if active is None else f"Tensor pipes active {percent(active)}. "
    return tensor + _reason(Reason(gpu.unavailable), gpu.detail)


def _reason(why: Reason, detail: str = "") -> str:
    """Why something is not measured, and what to do about it."""
    more = f" ({detail})" if detail else ""
    return f"{why.value.replace('_', ' ')}{more}: {why.advice}"


def _clock_about(gpu: NodeGpu) -> str:
    """What the clock is of the tensor clock, and what holds it down."""
    if gpu.window is None or not gpu.window.sm_clock_hz:
        return ""
    clocks = gpu.tensor_clock_hz
    low = clocks.get("low_precision", max(clocks.values(), default=0.0))
    part = f" {gpu.window.sm_clock_hz / low:.0%} of {low / 1e6:.0f}" if low else ""
    limits = limit_words(known_limits(gpu.window.clock_limits))
    return part + (f" · {limits}" if limits else "")


def _time(unix: float) -> str:
    return datetime.datetime.fromtimestamp(unix).astimezone().isoformat(" ", "seconds")
