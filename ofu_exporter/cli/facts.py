"""Sends facts of a job, without an MFU or a rate, to the agent of this node."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from contextlib import closing

from ofu_exporter.client.channel import AgentAnswer, Channel
from ofu_exporter.client.identity import Token
from ofu_exporter.errors import ConfigError, OfuError


def post(job: str, facts: Mapping[str, object], agent: str | None = None) -> None:
    """Send one report without MFU to `agent`, or to the address that training loops use, with their token.

    Raises ConfigError when the agent refuses it, OfuError when there is no answer.
    """
    environ = dict(os.environ)
    try:
        with closing(Channel(agent, environ)) as channel:
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
