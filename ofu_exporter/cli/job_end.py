"""Gets the summary of a job that just ended, for an epilog to print."""

from __future__ import annotations

import http.client
import json
import os
import time

from ofu_exporter.client.agent_url import default_url
from ofu_exporter.client.port_owner import refuse_stranger
from ofu_exporter.support.bounded_get import Limits, get
from ofu_exporter.values.text import shown_lines

MOST_BYTES = 1 << 20


def summary_at_end(job_id: str, agent: str | None, deadline: float) -> str:
    """The agent's summary of a job, once the agent has noticed its end; "" when it does not in time, or is away.

    `deadline` is on the monotonic clock. Raises PermissionError when another user has taken the agent's port, whose
    words must not come into an epilog's log; nothing else.
    """
    agent, path = agent or default_url(), f"/v1/jobs/{job_id}"
    while (left := deadline - time.monotonic()) > 0:
        try:
            if json.loads(_fetched(agent, path, "application/json", left)).get("ended") is not None:
                return shown_lines(_fetched(agent, path, "text/plain", left).strip())
        except PermissionError:
            raise
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            return ""
        time.sleep(min(0.05, left))
    return ""


def _fetched(agent: str, path: str, kind: str, seconds: float) -> str:
    limits = Limits(seconds, MOST_BYTES)
    answer = get(
        agent, path, kind, limits, lambda connection: refuse_stranger(connection, os.environ)
    )
    if answer.status != 200:
        raise ValueError(f"answers {answer.status}")
    return answer.body.decode("utf-8", "replace")
