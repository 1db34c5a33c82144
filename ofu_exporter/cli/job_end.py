"""Gets the summary of a job that just ended, for an epilog to print."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time

from ofu_exporter.client.agent_url import default_url
from ofu_exporter.errors import OfuError
from ofu_exporter.support.bounded_get import PROBLEMS, Limits, get, no_answer
from ofu_exporter.terminal.agent_access import AgentAccess
from ofu_exporter.values.text import shown_lines

MOST_BYTES = 1 << 20


def summary_at_end(job_id: str, agent: str | None, deadline: float) -> str:
    """The agent's summary of a job, once the agent has noticed its end; "" when it does not in time, or is away.

    `deadline` is on the monotonic clock. Raises PermissionError when another user has taken the agent's port, whose
    words must not come into an epilog's log, and OfuError when the agent is there and lets nobody in like this.
    """
    agent, path, access = agent or default_url(), f"/v1/jobs/{job_id}", AgentAccess(os.environ)
    while (left := deadline - time.monotonic()) > 0:
        try:
            found = _fetched(agent, path, "application/json", left, access)
            if json.loads(found).get("ended") is not None:
                return shown_lines(_fetched(agent, path, "text/plain", left, access).strip())
        except PermissionError:
            raise
        except ssl.SSLError as error:
            raise OfuError(f"the agent {no_answer(error)}") from error
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            return ""
        time.sleep(min(0.05, left))
    return ""


def _fetched(agent: str, path: str, kind: str, seconds: float, access: AgentAccess) -> str:
    answer = get(agent, path, kind, Limits(seconds, MOST_BYTES), access)
    if answer.status == 401:
        raise OfuError(f"the agent {PROBLEMS[401]}")
    if answer.status != 200:
        raise ValueError(f"answers {answer.status}")
    return answer.body.decode("utf-8", "replace")
