"""Collects everything known about one GPU, node, job or user, as names and values."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from ofu_exporter.serving.node_json import NodeGpu, NodeJob, NodeJson
from ofu_exporter.support.durations import lasting
from ofu_exporter.support.percent import percent
from ofu_exporter.terminal.scene import SceneAnswer, gpu_label, idle_words
from ofu_exporter.values.clock_limit import known_limits, limit_words

Details = list[tuple[str, str]]


def gpu_details(
    where: str, node: NodeJson, gpu: NodeGpu, jobs: Sequence[NodeJob], idle: float | None
) -> Details:
    rows = [("GPU", f"{gpu_label(gpu)} of {where}"), ("model", gpu.name), ("uuid", gpu.uuid)]
    rows += _if_any(("MIG profile", gpu.profile), ("MIG uuid", gpu.mig_uuid))
    rows += _if_any(("driver", gpu.driver), ("source", gpu.source))
    if gpu.share_ratio != 1.0:
        rows.append(("counts as", f"{gpu.share_ratio:.3f} GPUs, by {gpu.share_basis}"))
    if gpu.unavailable is not None:
        rows.append(("not measured", gpu.unavailable.replace("_", " ")))
        rows += _if_any(("more", gpu.detail), ("what to do", gpu.advice))
    rows += _window(gpu)
    rows += [(f"tensor clock, {name}", _mhz(hz)) for name, hz in gpu.tensor_clock_hz.items()]
    rows += [
        (f"peak, {name}", f"{flops / 1e12:.0f} TFLOP/s") for name, flops in gpu.peak_flops.items()
    ]
    rows.append(("OFU in all", _total(gpu.utilization_seconds, gpu.observed_seconds)))
    rows += [("held by", _job_line(job)) for job in jobs]
    if idle:
        rows.append(("held idle", f"for {idle_words(idle)}, as far as tensor work goes"))
    return [*rows, ("agent", f"{node.node}, ofu-exporter {node.version}")]


def _window(gpu: NodeGpu) -> Iterator[tuple[str, str]]:
    window = gpu.window
    if window is None:
        return
    error = window.stderr_ratio
    error_words = "not known" if error is None else f"\u00b1 {200 * error:.2f} points"
    if window.overstated_ratio:
        error_words += f", {100 * window.overstated_ratio:.1f} lower at most: the clock was read"
    yield "OFU", f"{percent(window.utilization_ratio)} over {window.seconds:.3g} s, {error_words}"
    yield "tensor pipes active", percent(window.tensor_active_ratio)
    for loss, share in window.lost_ratio.items():
        yield "lost of the peak", f"{percent(share)} {loss.words}: {loss.meaning}"
    if window.lost_is_estimate:
        yield "", "estimated: this card counts in turns, so the parts are of other instants"
    if window.clock_limits is not None:
        yield "clock held down by", limit_words(known_limits(window.clock_limits)) or "nothing"
    yield "SM clock", _mhz(window.sm_clock_hz) + f" ({window.clock_method or 'not read'})"


def job_details(on_nodes: Sequence[tuple[str, NodeJob]]) -> Details:
    _, first = on_nodes[0]
    rows = [("job", first.job_id), ("scheduler", first.scheduler)]
    rows += _if_any(("name", first.job_name), ("user", first.user), ("account", first.account))
    rows += _if_any(("partition", first.partition), ("namespace", first.namespace))
    for where, job in on_nodes:
        observed = job.observed_seconds
        rows.append((f"on {where}", f"GPU {', '.join(job.gpus)}"))
        rows.append(("  began", _date(job.began)))
        if job.ended is not None:
            rows.append(("  ended", _date(job.ended)))
        rows.append(
            ("  OFU", f"{percent(job.utilization_ratio)} over {observed / 3600:.2f} GPU-hours")
        )
        rows.append(("  held", f"{job.held_seconds / 3600:.2f} GPU-hours"))
        if job.verdict is not None:
            rows.append(("  verdict", job.verdict.value.replace("_", " ")))
            mfu, ofu = percent(job.mfu_ratio), percent(job.compared_utilization_ratio)
            rows.append(("  last minutes", f"reported MFU {mfu}, OFU {ofu}"))
        rows += [(f"  {cause.cause}", cause.evidence) for cause in job.causes]
    return rows


def user_details(user: str, on_nodes: Sequence[tuple[str, NodeJob]]) -> Details:
    return [("user", user), *((f"on {where}", _job_line(job)) for where, job in on_nodes)]


def node_details(answer: SceneAnswer) -> Details:
    node = answer.node
    if node is None:
        return [("node", answer.name), ("no answer", answer.problem or "none has come yet")]
    rows = [("node", answer.name), ("calls itself", node.node)]
    rows += [("agent", f"ofu-exporter {node.version}"), ("sampled", f"{lasting(answer.age)} ago")]
    if node.paused:
        rows.append(("paused", "the agent was told to let go of the GPUs"))
    for source in node.sources:
        state = (source.reason or "read").replace("_", " ")
        rows.append((f"source {source.source}", state + " (SIMULATED)" * source.simulated))
        rows += _if_any(("  more", source.detail), ("  what to do", source.advice))
    rows.append(("OFU", percent(node.utilization_ratio)))
    return rows + [("job", _job_line(job)) for job in node.jobs]


def _if_any(*rows: tuple[str, str]) -> Details:
    return [row for row in rows if row[1]]


def _job_line(job: NodeJob) -> str:
    who = ", ".join(name for name in (job.job_name, job.user) if name)
    ended = ", ended" if job.ended is not None else ""
    return (
        f"{job.job_id}"
        + (f" ({who})" if who else "")
        + f": OFU {percent(job.utilization_ratio)}{ended}"
    )


def _total(utilization: float, observed: float) -> str:
    if observed <= 0:
        return "nothing was observed"
    return f"{percent(utilization / observed)} over {observed / 3600:.2f} GPU-hours"


def _mhz(hz: float | None) -> str:
    return "not known" if hz is None else f"{hz / 1e6:.0f} MHz"


def _date(unix: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(unix).astimezone().isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        return f"Unix time {unix}"
