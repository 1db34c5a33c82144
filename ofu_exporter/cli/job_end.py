"""Gets the summary of a job that just ended, for an epilog to print."""

from __future__ import annotations

import http.client
import json
import os
import time

from ofu_exporter.client.channel import default_url
from ofu_exporter.errors import OfuError
from ofu_exporter.reports.agent_access import AgentAccess
from ofu_exporter.support.bounded_get import PROBLEMS, Limits, get, no_answer
from ofu_exporter.values.text import shown_lines

MOST_BYTES = 1 << 20
_LATER = "; `ofu-exporter job show` tells later what the job did, if the agent has seen it"


def summary_at_end(job_id: str, agent: str | None, deadline: float) -> str:
    """The agent's summary of a job, once the agent has noticed its end.

    `deadline` is on the monotonic clock. Raises PermissionError when another user has taken the agent's port, whose
    words must not come into an epilog's log, and OfuError with the reason when there is no summary in time.
    """
    agent, path, access = agent or default_url(), f"/v1/jobs/{job_id}", AgentAccess(os.environ)
    has_answered = False
    while (left := deadline - time.monotonic()) > 0:
        try:
            answer = _fetched(agent, path, "application/json", left, access)
            has_answered = True
            if json.loads(answer).get("ended") is not None:
                return shown_lines(_fetched(agent, path, "text/plain", left, access).strip())
        except PermissionError:
            raise
        except (OSError, ValueError, AttributeError, http.client.HTTPException) as error:
            if has_answered and isinstance(error, TimeoutError):
                break
            raise OfuError(f"the agent {no_answer(error)}{_LATER}") from error
        time.sleep(min(0.05, left))
    raise OfuError(f"the agent has not noticed the job's end in time{_LATER}")


def _fetched(agent: str, path: str, kind: str, seconds: float, access: AgentAccess) -> str:
    answer = get(agent, path, kind, Limits(seconds, MOST_BYTES), access)
    if answer.status == 401:
        raise OfuError(f"the agent {PROBLEMS[401]}")
    if answer.status == 404:
        raise OfuError("the agent knows nothing of the job: does it read this --job-dir?")
    if answer.status != 200:
        raise OfuError(f"the agent answers {answer.status}{_LATER}")
    return answer.body.decode("utf-8", "replace")
