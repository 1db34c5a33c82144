"""`tail`: follows a training log, and reports its statements to the agent."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from ofu_exporter.cli.answers import say
from ofu_exporter.cli.help import SubjectCommand
from ofu_exporter.cli.option_types import FILE, NUMBER, TFLOPS, flag, option
from ofu_exporter.cli.step import precision_shares
from ofu_exporter.client import identity
from ofu_exporter.client.channel import Channel
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import readers
from ofu_exporter.flops.readers import JobFacts
from ofu_exporter.reports.tail.lines import LogFile, Pipe, TailLine
from ofu_exporter.reports.tail.poster import Poster
from ofu_exporter.reports.tail.statements import LogTail
from ofu_exporter.support.percent import percent
from ofu_exporter.values.reported import Verdict, too_little

LOOK_SECONDS = 0.25
"""Time between two looks at a file."""


@click.command(
    cls=SubjectCommand,
    short_help="Report the MFU that a training log prints.",
    common="job url framework from_start once gpus peak_tflops flops_per_token precision run",
)
@click.argument("log", type=FILE)
@option(
    "--job", "The job that writes the log. Default: OFU_EXPORTER_JOB_ID, SLURM_JOB_ID, or the pod."
)
@click.option(
    "--agent",
    "--url",
    "url",
    envvar="OFU_AGENT",
    metavar="URL",
    help="The agent. Default: OFU_AGENT, OFU_EXPORTER_URL, or http://127.0.0.1:9846.",
)
@option(
    "--framework",
    f"Whose log it is: auto, or one of {', '.join(readers.log_names())}.",
    default="auto",
    show_default=True,
)
@flag("--from-start", "Read what the file already holds, too.")
@flag("--once", "Read to the end and exit; implies --from-start.")
@option("--gpus", "All GPUs of the job: the world size.", click.IntRange(1))
@option("--data-parallel-size", "With --gpus: corrects VeRL-Omni's MFU.", click.IntRange(1))
@option("--peak-tflops", "Peak of one GPU that the job's own MFU divides by.", TFLOPS)
@option(
    "--flops-per-token",
    "Model FLOPs per token, forward and backward; for logs with tokens alone.",
    NUMBER,
)
@option("--precision", "bf16, or shares of the FLOPs: bf16=0.3,fp8=0.7.")
@option(
    "--run", "An id shared by all jobs that continue one training. Default: OFU_RUN, WANDB_RUN_ID."
)
@option(
    "--recompute",
    "Activations that the job recomputes.",
    click.Choice(("none", "selective", "full")),
)
def tail(log: Path, framework: str, **options: Any) -> None:
    """Report to the agent the MFU and the steps that a training log prints, while it is written.

    LOG is a file, or - for standard input. The file may appear later, be rotated or truncated. The token is read from
    OFU_EXPORTER_TOKEN or OFU_EXPORTER_TOKEN_FILE. For a log with tokens alone OFU_EXPORTER_RECIPE names the model.
    """
    once = options["once"]
    job = JobFacts(options["gpus"], options["data_parallel_size"])
    log_tail = LogTail(framework, job, _print_message)
    poster = _poster(framework, options)
    source = _open(log, once or options["from_start"], once)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with contextlib.suppress(KeyboardInterrupt):  # how a user ends it
            _follow(source, log_tail, poster, once)
        poster.close()
        log_tail.close()
    finally:
        source.close()
    _print_counts(log_tail, poster, source)


def _poster(framework: str, options: Mapping[str, Any]) -> Poster:
    job_id = options["job"] or identity.job_id(os.environ)
    if not job_id:
        raise ConfigError("--job is needed: neither OFU_EXPORTER_JOB_ID nor SLURM_JOB_ID is set")
    try:
        channel = Channel(options["url"], os.environ)
    except (ValueError, OSError) as error:
        raise ConfigError(f"--agent: {error}") from error
    facts = {"job_id": job_id, **_facts(framework, options)}
    return Poster(
        channel, identity.Token(None, os.environ, job_id), facts, _print_answer, _print_message
    )


def _open(log: Path, from_start: bool, once: bool) -> LogFile | Pipe:
    if str(log) == "-":
        return Pipe(sys.stdin.fileno(), is_new=not from_start)
    file = LogFile(log, from_start)
    if not file.is_there:
        if once:
            raise ConfigError(f"cannot read {log}: no such file")
        _print_message(f"waiting for {log}")
    return file


def _facts(framework: str, options: Mapping[str, Any]) -> dict[str, Any]:
    precision = options["precision"]
    try:
        model = {} if options["flops_per_token"] else identity.model_facts(os.environ)
    except (ValueError, OSError) as error:
        raise ConfigError(f"OFU_EXPORTER_RECIPE: {error}") from error
    facts = {
        **identity.run(os.environ),
        **model,
        "gpus": options["gpus"],
        "peak_tflops": options["peak_tflops"],
        "precision": precision_shares(precision) if precision and "=" in precision else precision,
        "recompute": options["recompute"],
        "flops_per_token": options["flops_per_token"],
        **({"run": options["run"]} if options["run"] else {}),
        "framework": None if framework == "auto" else framework,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _follow(source: LogFile | Pipe, log_tail: LogTail, poster: Poster, once: bool) -> None:
    while True:
        _send(source.read(), log_tail, poster)
        if source.ended or (once and source.ends_here):
            break
        source.wait(LOOK_SECONDS)
    _send(source.take_rest(), log_tail, poster)


def _send(lines: Iterable[TailLine], log_tail: LogTail, poster: Poster) -> None:
    for line in lines:
        report = log_tail.take(line)
        if report is not None:
            if log_tail.framework:
                poster.facts.setdefault("framework", log_tail.framework)
            poster.take(report)


def _print_answer(answer: Mapping[str, Any]) -> None:
    interval, horizon = answer.get("interval") or {}, answer.get("horizon") or {}
    mfu = percent(answer.get("mfu"), "not measured")
    text = f"MFU {mfu}, OFU {percent(interval.get('ofu'), 'not measured')}"
    text += f", {_points(interval.get('difference'))}: {_verdict(interval)}"
    start, end = horizon.get("start"), horizon.get("end")
    over = None if start is None or end is None else float(end - start)
    text += f"; {f'over {over:.0f} s ' if over else ''}{_points(horizon.get('difference'))}: "
    causes = [each.get("cause") for each in answer.get("causes") or ()]
    text += f"{_verdict(horizon)}{f', likely {causes[0]}' if causes else ''}"
    say(text)


def _verdict(comparison: Mapping[str, Any]) -> str:
    """The verdict; where there is none, why, by the time that could be compared at most."""
    verdict = str(comparison.get("verdict"))
    if verdict != Verdict.INSUFFICIENT_DATA:
        return verdict
    return too_little(float(comparison.get("end") or 0.0) - float(comparison.get("start") or 0.0))


def _points(difference: float | None) -> str:
    return "no difference known" if difference is None else f"{100 * difference:+.1f} points"


def _print_counts(log_tail: LogTail, poster: Poster, source: LogFile | Pipe) -> None:
    counts = {
        **{f"reports {name}": count for name, count in sorted(poster.counts.items())},
        **{f"statements {why.value}": count for why, count in sorted(log_tail.drops.items())},
        **({"lines too long": source.dropped} if source.dropped else {}),
    }
    counted = ", ".join(f"{name} {count}" for name, count in counts.items())
    _print_message(f"{log_tail.framework or 'no statement seen'}: {counted or 'no report'}")


def _print_message(text: str) -> None:
    say(f"ofu-exporter tail: {text}", err=True)
