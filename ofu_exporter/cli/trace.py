"""`trace`: have the agent take a trace of a running job, from outside, and print where its time went."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import click

from ofu_exporter.cli.answers import format_option, print_answer, say
from ofu_exporter.cli.job import agent_flag
from ofu_exporter.cli.option_types import flag, option
from ofu_exporter.client.channel import COMMAND_SECONDS, Channel, default_url
from ofu_exporter.client.identity import Token
from ofu_exporter.errors import ConfigError, OfuError
from ofu_exporter.values.text import shown

LOOK_SECONDS = 0.5
LONGEST_SECONDS = 900.0
"""For the answer of an agent, which ends each trace itself before."""


@click.command(short_help="Take a trace of a running job, and say where its time went.")
@click.argument("job_id")
@option("--seconds", "How long to record.", float, default=2.0, show_default=True, metavar="S")
@option("--gpus", "Only processes on these GPUs, as CUDA numbers them in the job.", metavar="N,N")
@flag("--keep", "Leave the files in the agent's folder for a day, and print their names.")
@agent_flag
@format_option
def trace(
    job_id: str, seconds: float, gpus: str | None, keep: bool, agent: str | None, format_: str
) -> None:
    """Have the agent of this node (run --traces) take a trace of a job that runs with KINETO_USE_DAEMON=1.

    Root may trace any job, users their own, through the agent's Unix socket. The job's page shows the answer too.
    """
    order = {"seconds": seconds, "keep": keep, "gpus": _numbers(gpus)}
    answer = _taken(job_id, order, agent)
    if answer["state"] == "failed":
        files = f" (kept: {', '.join(answer['files'])})" if answer["files"] else ""
        raise OfuError(f"no trace of job {job_id}: {shown(answer['detail'] + files)}")
    print_answer(format_, lambda: text(answer), lambda: answer)


def _numbers(gpus: str | None) -> list[int]:
    try:
        return [int(each) for each in gpus.split(",")] if gpus else []
    except ValueError:
        raise ConfigError(f"--gpus: {gpus!r} is not numbers with commas") from None


def _taken(job_id: str, order: Mapping[str, Any], agent: str | None) -> dict[str, Any]:
    """The agent's last answer. Raises OfuError."""
    path = f"/v1/jobs/{job_id}/trace"
    if not job_id.isascii() or not job_id.isprintable() or {*job_id} & {*" ?#%"}:
        raise ConfigError(f"{job_id!r} is not the id of a job that can be traced")
    environ, end, state = dict(os.environ), time.monotonic() + LONGEST_SECONDS, ""
    try:
        where = agent or default_url()  # not where jobs report to
        with closing(Channel(where, environ, path, COMMAND_SECONDS)) as channel:
            token = Token(None, environ, job_id).value
            answer = _asked(channel, order, token)
            while answer["state"] in ("waiting", "recording", "reading") and time.monotonic() < end:
                if state != answer["state"]:
                    state = answer["state"]
                    say(f"{answer['processes']} processes: {state}", err=True)
                time.sleep(LOOK_SECONDS)
                answer = _asked(channel, {"request": answer["request"]}, token)
    except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
        why = str(error) or type(error).__name__
        raise OfuError(f"the agent of this node does not answer: {why}") from error
    return answer


def _asked(channel: Channel, order: Mapping[str, Any], token: str) -> dict[str, Any]:
    answer = channel.post(json.dumps(order).encode(), token)
    data = answer.json_object() or {}
    if answer.status == http.HTTPStatus.OK:
        return data
    detail = data.get("detail") or answer.body[:200].decode(errors="replace")
    if isinstance(detail, list):
        detail = "; ".join(str(each.get("msg")) for each in detail)
    if answer.status in (404, 405) and detail in ("Not Found", "Method Not Allowed"):
        detail = "traces are off there (run --traces)"
    raise ConfigError(f"{channel.where}: {shown(str(detail))}")


def text(answer: Mapping[str, Any]) -> str:
    """The five parts and the findings; or why there are none."""
    lines = [f"{answer['arrived']} of {answer['processes']} processes wrote a trace"]
    if result := answer["trace"]:
        parts = ", ".join(f"{name} {share:.1%}" for name, share in result["parts"].items())
        gpus = f"{result['ranks']} GPU{'s' * (result['ranks'] != 1)}"
        lines.append(f"{gpus}, {result['seconds']:.4g} s: {parts}")
        for each in result["findings"]:
            share = f"{each['share']:6.1%}  {each['finding']}, at most {each['seconds']:.3g} s"
            lines += [f"{share}: {each['evidence']}", f"        {each['remedy']}"]
    if answer["detail"]:
        lines.append(answer["detail"])
    lines += [f"Not read: {name}: {why}" for name, why in answer["unread"].items()]
    lines += [f"Kept: {each}" for each in answer["files"]]
    return "\n".join(map(shown, lines))
