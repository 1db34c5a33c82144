"""`profile`: says where the time of a profiled job went, what tiles add to its FLOPs, and its precisions."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ofu_exporter.cli.answers import format_option, print_answer, say
from ofu_exporter.cli.option_types import FILE, RATIO, flag, option
from ofu_exporter.client.channel import COMMAND_SECONDS, AgentAnswer, Channel
from ofu_exporter.client.identity import Token
from ofu_exporter.errors import ConfigError, OfuError
from ofu_exporter.support import tables
from ofu_exporter.support.tables import LEFT, RIGHT, Column
from ofu_exporter.values import quantities, trace

if TYPE_CHECKING:
    from ofu_exporter.traces.tile_overhead import Overhead, OverheadRow
    from ofu_exporter.values.trace import TraceResult

LEAST_ATTRIBUTED = 0.5
"""Smallest share of the time in tensor kernels that an overhead must cover before it is sent as the job's."""
MOST_SENT = 10
"""An overhead this large, or below 0, means that the shapes do not belong to the kernels."""
MOST_SHOWN = 10
"""Most unattributed kernels that the table shows; JSON has all."""
NOTHING_TO_POST = (
    "--post: the profile says neither where the time went, nor what tiles add, nor which "
    "precisions the job computes in"
)
NO_KERNELS = "The profile has no kernels: was the GPU profiled?"


@click.command(short_help="Where the time of a profiled job went, and its tiles.")
@click.argument("files", nargs=-1, required=True, type=FILE)
@option(
    "--shapes",
    "CSV file for a profile without shapes: columns kernel,m,n,k, optionally batch and launches.",
    FILE,
)
@option("--gpu", "GPU whose effective peak to use; default: the one that the profile names.")
@option("--ofu", "OFU of the GPUs, 0.41 or 41%; the adjusted OFU is printed.", RATIO)
@flag("--post", "Send the result to the agent of this node; needs --job.")
@option("--job", "The job's id: SLURM_JOB_ID, or namespace/name.")
@option(
    "--agent",
    "The agent, with --post. Default: OFU_AGENT, OFU_EXPORTER_URL, or its socket.",
    envvar="OFU_AGENT",
    metavar="URL",
)
@format_option
def profile(files: tuple[Path, ...], shapes: Path | None, post: bool, **options: Any) -> None:
    """Where the time of a job's GPUs went, what tiles add to its FLOPs, and the precisions it computes in.

    FILES are its profiles, of one or many ranks, or folders of them. A PyTorch trace with shapes has everything.
    Files of Nsight Systems and Nsight Compute need --shapes for tiles; of these only the SQLite export tells the time.
    """
    from ofu_exporter.cli import profile_time
    from ofu_exporter.traces import gemm_csv, job, tile_overhead

    job_id = options["job"]
    if post != (job_id is not None):
        raise ConfigError("--post needs --job" if post else "--job is for --post")
    products = gemm_csv.read(shapes) if shapes else ()
    result, profiles = job.read(files)
    overhead = tile_overhead.overhead(profiles, products)
    data = {**result.as_data(), **as_data(overhead, options["gpu"], options["ofu"])}
    texts = [profile_time.text(result), table(overhead, data)]
    print_answer(
        options["format_"],
        lambda: "\n\n".join(filter(None, texts)),
        lambda: data,
        lambda: data["kernels"],
    )
    if job_id is not None:
        _post(job_id, overhead, result, options["agent"])
        say(f"Told the agent of this node what the profile says of job {job_id}", err=True)


def _post(job: str, overhead: Overhead, result: TraceResult, agent: str | None) -> None:
    """Send the facts to the agent. Raises ConfigError when there are none."""
    to_send: dict[str, object] = trace.reported(result)
    why_no_tiles = _why_no_tiles(overhead)
    if overhead.overhead_ratio is not None and not why_no_tiles:
        to_send["tile_overhead"] = quantities.written(overhead.overhead_ratio, quantities.OVERHEAD)
        to_send["tile_overhead_bound"] = overhead.bound
    if overhead.precision_shares and not why_no_tiles:
        to_send["precision"] = overhead.precision_shares
    if not to_send:
        raise ConfigError(why_no_tiles or NOTHING_TO_POST)
    if why_no_tiles:
        say(f"Tiles are left out: {why_no_tiles.removeprefix('--post: ')}", err=True)
    _send(job, to_send, agent)


def _why_no_tiles(overhead: Overhead) -> str:
    """Why what the profile says of tiles and precisions is not the job's; "" where it is."""
    if overhead.overhead_ratio is None:
        return ""
    share = overhead.attributed_share or 0.0
    if share < LEAST_ATTRIBUTED:
        return (
            f"--post: the overhead is of {share:.1%} of the time in tensor kernels, "
            f"less than {LEAST_ATTRIBUTED:.0%}"
        )
    if not 0 <= overhead.overhead_ratio < MOST_SENT:
        return f"--post: no job has an overhead of {overhead.overhead_ratio:.1%}: are the shapes right?"
    return ""


def _send(job: str, facts: Mapping[str, object], agent: str | None = None) -> None:
    """Send a report without MFU to `agent`, or to the address that training loops use, with their token.

    Raises ConfigError when the agent refuses it, OfuError when there is no answer.
    """
    environ = dict(os.environ)
    try:
        with closing(Channel(agent, environ, timeout=COMMAND_SECONDS)) as channel:
            where = channel.where
            body = json.dumps({"job_id": job, **facts}, allow_nan=False).encode()
            answer = channel.post(body, Token(None, environ, job).value)
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = str(error) or type(error).__name__
        raise OfuError(f"the agent of this node does not answer: {why}") from error
    if answer.status != http.HTTPStatus.OK:
        raise ConfigError(f"{where} refused it with status {answer.status}: {_reasons(answer)}")


def _reasons(answer: AgentAnswer) -> str:
    """The agent's own words on a refusal, or the beginning of another program's answer."""
    text = answer.body.decode(errors="replace")
    try:
        return "; ".join(str(each["msg"]) for each in json.loads(text)["detail"])
    except (ValueError, LookupError, TypeError):
        return text[:200].strip() or "it gives no reason"


def as_data(overhead: Overhead, gpu: str | None = None, ofu: float | None = None) -> dict[str, Any]:
    """The overhead as plain data; None for what is not known."""
    from dataclasses import asdict

    from ofu_exporter.hardware.tiles import adjusted_utilization

    ratio = overhead.overhead_ratio
    name, peak = _peak(overhead, gpu)
    return {
        "overhead_ratio": ratio,
        "bound": None if ratio is None else overhead.bound,
        "executed_flops": overhead.executed_flops,
        "theoretical_flops": overhead.theoretical_flops,
        "attributed_share": overhead.attributed_share,
        "precision": overhead.precision_shares,
        "gpu": name,
        "effective_peak_tflops": None if peak is None else peak / 1e12,
        "adjusted_ofu": (
            None if ofu is None or ratio is None else adjusted_utilization(ofu, ratio)
        ),
        "kernels": [{**asdict(row), "overhead_ratio": row.overhead_ratio} for row in overhead.rows],
        "unattributed": [asdict(each) for each in overhead.unattributed],
        "other_seconds": overhead.other_seconds,
    }


def _peak(overhead: Overhead, gpu: str | None) -> tuple[str | None, float | None]:
    """The GPU, and its effective peak in FLOP/s. Raises ConfigError when the user named a GPU that is not known."""
    from ofu_exporter.flops import dense_peak, effective_peak

    only = next(iter(overhead.gpus)) if len(overhead.gpus) == 1 else None
    name, shares = gpu or only, overhead.precision_shares
    if name is None or not shares:
        return name, None
    try:
        return name, effective_peak(shares, {each: dense_peak(name, each) for each in shares})
    except ConfigError:
        if gpu is not None:
            raise
        return name, None


def table(overhead: Overhead, data: dict[str, Any]) -> str:
    kernels = tables.table(COLUMNS, overhead.rows)
    return tables.text([kernels, "", *_summary(overhead, data), *_unattributed(overhead)])


def _theoretical(row: OverheadRow) -> str:
    return "-" if row.theoretical_flops is None else f"{row.theoretical_flops:.4g}"


def _overhead(row: OverheadRow) -> str:
    least = ">= " if row.bound == "lower" else ""
    return "-" if row.overhead_ratio is None else f"{least}{row.overhead_ratio:.3%}"


COLUMNS: tuple[Column[OverheadRow], ...] = (
    ("FAMILY", LEFT, lambda row: row.family),
    ("PRECISION", LEFT, lambda row: row.precision),
    ("LAUNCHES", RIGHT, lambda row: f"{row.launches:,}"),
    ("SECONDS", RIGHT, lambda row: f"{row.seconds:.4g}"),
    ("THEORETICAL", RIGHT, _theoretical),
    ("EXECUTED", RIGHT, lambda row: f"{row.executed_flops:.4g}"),
    ("OVERHEAD", RIGHT, _overhead),
)


def _summary(overhead: Overhead, data: dict[str, Any]) -> list[str]:
    lines = []
    if not overhead.rows and not overhead.unattributed:
        lines.append(
            "No kernel of it runs on a tensor pipe" if overhead.other_seconds else NO_KERNELS
        )
    elif overhead.overhead_ratio is None:
        lines.append("Overhead not known: no kernel has both known sides and known tiles")
    else:
        share = overhead.attributed_share or 0.0
        least = "at least " if overhead.bound == "lower" else ""
        lines.append(
            f"Overhead {least}{overhead.overhead_ratio:.3%} ({overhead.bound}), "
            f"of {share:.1%} of the time in tensor kernels"
        )
    if shares := overhead.precision_shares:
        by_precision = ", ".join(f"{name} {share:.2%}" for name, share in shares.items())
        lines.append(f"Executed FLOPs by precision: {by_precision}")
    if data["effective_peak_tflops"] is not None:
        lines.append(
            f"Effective peak {data['effective_peak_tflops']:.1f} TFLOP/s per {data['gpu']}"
        )
    if data["adjusted_ofu"] is not None:
        most = "at most " if overhead.bound == "lower" else ""
        lines.append(f"Adjusted OFU {most}{data['adjusted_ofu']:.2%}")
    return lines


def _unattributed(overhead: Overhead) -> list[str]:
    if not overhead.unattributed:
        return []
    shown = overhead.unattributed[:MOST_SHOWN]
    lines = [
        f"  {each.seconds:.4g} s in {each.launches:,} launches of {_short(each.kernel)}: {each.why}"
        for each in shown
    ]
    if left := len(overhead.unattributed) - len(shown):
        lines.append(f"  and {left} more kernels")
    return ["Tensor kernels that the overhead leaves out:", *lines]


def _short(kernel: str, most: int = 80) -> str:
    return kernel if len(kernel) <= most else kernel[: most - 3] + "..."
