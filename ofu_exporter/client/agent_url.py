"""Says where the agent of this node is when nobody says otherwise."""

from __future__ import annotations

import os

LOOPBACK = "http://127.0.0.1:9846"
SOCKETS = ("/run/ofu-exporter/reports.sock", "/run/ofu-exporter/agent/reports.sock")
"""Only root and the agent's user can put something here, so nobody can take the agent's place while it is away."""


def default_url() -> str:
    """The agent's Unix socket where that is there, else the loopback address."""
    for path in SOCKETS:
        if os.access(path, os.W_OK):
            return f"unix:{path}"
    return LOOPBACK
