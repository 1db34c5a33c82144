"""The default address of this node's agent."""

from __future__ import annotations

import os

LOOPBACK = "http://127.0.0.1:9846"
SOCKETS = ("/run/ofu-exporter/reports.sock", "/run/ofu-exporter/agent/reports.sock")
"""Only root and the agent's user can create a socket here, so nobody can take the agent's place while it is down."""


def default_url() -> str:
    """The agent's Unix socket if it exists, otherwise the loopback address."""
    for path in SOCKETS:
        if os.access(path, os.W_OK):
            return f"unix:{path}"
    return LOOPBACK
