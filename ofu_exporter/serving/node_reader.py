"""Asks an agent what it says of its node."""

from __future__ import annotations

import os

from ofu_exporter.reports.agent_access import AgentAccess
from ofu_exporter.serving.node_json import NodeJson
from ofu_exporter.support.bounded_get import Limits, NoAnswerError, content
from ofu_exporter.support.measured_json import measured_json

PATH = "/v1/node"
ANSWER = Limits(seconds=2.0, most_bytes=8 << 20)


def read_node(url: str) -> NodeJson:
    """What the agent at a URL says of its node. Raises NoAnswerError and ConfigError."""
    body = content(url, PATH, "application/json", ANSWER, AgentAccess(os.environ))
    try:
        return NodeJson.model_validate(measured_json(body))
    except (ValueError, RecursionError) as error:
        raise NoAnswerError(f"answers with something other than {PATH}") from error
