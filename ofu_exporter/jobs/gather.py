"""Gets a job's totals from the agents of all its nodes."""

from __future__ import annotations

import http.client
import time
import urllib.parse
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from ofu_exporter.jobs.totals import JobTotals
from ofu_exporter.support.bounded_body import TooLargeError
from ofu_exporter.support.bounded_get import (
    NO_ANSWER,
    OPEN,
    PROBLEMS,
    Answer,
    Limits,
    ServerAccess,
    get,
    no_answer,
)
from ofu_exporter.support.measured_json import measured_json

MOST_AT_ONCE = 64
MAX_ANSWER_BYTES = 4 << 20
ANSWER_SECONDS = 2.0
AGAIN_SECONDS = 0.5
"""Pause before the nodes are asked again on which the job has not ended yet, or whose agents were away."""
_OF_ALL = Limits(5.0, 32 << 20)
NO_TOTALS = "answers with something other than a job's totals"
_NO_JOBS = "answers with something other than jobs"


class NodeAnswer(NamedTuple):
    totals: JobTotals | None
    problem: str = ""
    """Why there are no totals; "" when the agent knows nothing of the job."""

    @property
    def may_come_to_more(self) -> bool:
        """Whether the job has not ended there, or the agent was away, perhaps for a restart."""
        if self.totals is None:
            return self.problem.startswith(NO_ANSWER)
        return self.totals.ended is None


class NodeAgents(NamedTuple):
    """Where the agents of nodes are, and how one is let in."""

    port: int
    scheme: str = "http"
    access: ServerAccess = OPEN

    def url(self, node: str) -> str:
        return f"{self.scheme}://{f'[{node}]' if ':' in node else node}:{self.port}"


class Gathered(NamedTuple):
    totals: tuple[JobTotals, ...]
    problems: dict[str, str]
    """Why a node has no part in the totals, by node."""


def ask_agent(
    agent: str, job_id: str, seconds: float = ANSWER_SECONDS, access: ServerAccess = OPEN
) -> NodeAnswer:
    """Ask one agent, `http://host:port`, `https://host:port` or `unix:/path`, for a job.

    Raises ConfigError where `access` cannot be used.
    """
    path = f"/v1/jobs/{urllib.parse.quote(job_id)}"
    try:
        answer = get(agent, path, "application/json", Limits(seconds, MAX_ANSWER_BYTES), access)
    except TooLargeError:
        return NodeAnswer(None, NO_TOTALS)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return NodeAnswer(None, no_answer(error))
    if answer.status != 200:
        return NodeAnswer(None, _problem(answer))
    try:
        totals = JobTotals.model_validate_json(answer.body)
    except ValidationError:
        return NodeAnswer(None, NO_TOTALS)
    return NodeAnswer(totals)


def ask_for_all(
    agent: str, access: ServerAccess, *, ended: bool = False
) -> tuple[JobTotals, ...] | str:
    """The jobs that an agent has now, with `ended` those that its file remembers too; or why they are not known.

    Raises ConfigError where `access` cannot be used.
    """
    path = "/v1/jobs?ended=true" if ended else "/v1/jobs"
    try:
        answer = get(agent, path, "application/json", _OF_ALL, access)
        if answer.status != 200:
            return _problem(answer)
    except TooLargeError:
        return _NO_JOBS
    except (OSError, ValueError, http.client.HTTPException) as error:
        return no_answer(error)
    try:
        return TypeAdapter(tuple[JobTotals, ...]).validate_python(measured_json(answer.body))
    except (ValueError, RecursionError):  # a ValidationError is a ValueError
        return _NO_JOBS


def _problem(answer: Answer) -> str:
    if answer.status == 404 and b"is known on this node" in answer.body[:4096]:
        return ""
    return PROBLEMS[401] if answer.status == 401 else f"answers {answer.status}"


def gather(nodes: Sequence[str], agents: NodeAgents, job_id: str, wait: float) -> Gathered:
    """Ask every node until the job has ended there, at most for `wait` seconds; of a job that none knows, once.

    Raises ConfigError.
    """

    def answer(node: str) -> NodeAnswer:
        return ask_agent(agents.url(node), job_id, access=agents.access)

    deadline = time.monotonic() + wait
    answers: dict[str, NodeAnswer] = {}
    with ThreadPoolExecutor(min(MOST_AT_ONCE, max(1, len(nodes)))) as pool:
        waiting = list(dict.fromkeys(nodes))
        while waiting:
            answers.update(zip(waiting, pool.map(answer, waiting), strict=True))
            # A job without a GPU is on nodes that may have no agent, and Slurm's epilog asks for it as well.
            is_known = any(each.totals is not None for each in answers.values())
            waiting = [node for node in waiting if is_known and answers[node].may_come_to_more]
            if not waiting or time.monotonic() + AGAIN_SECONDS > deadline:
                break
            time.sleep(AGAIN_SECONDS)
    user = _last_user(answers.values())
    answers = {node: _of(answer, user) for node, answer in answers.items()}
    return Gathered(
        totals=tuple(answer.totals for answer in answers.values() if answer.totals is not None),
        problems={
            node: answer.problem or "knows nothing of the job"
            for node, answer in answers.items()
            if answer.totals is None
        },
    )


def _last_user(answers: Iterable[NodeAnswer]) -> str:
    """Whose job it is: that of the node that saw it last. A Slurm that was set up anew gives old ids again."""
    totals = [each.totals for each in answers if each.totals is not None and each.totals.user]
    return max(totals, key=lambda each: each.updated).user if totals else ""


def _of(answer: NodeAnswer, user: str) -> NodeAnswer:
    """The answer, unless it is about a job of somebody else."""
    is_other = answer.totals is not None and answer.totals.user not in ("", user)
    return NodeAnswer(None, "knows only another user's job of this id") if is_other else answer
