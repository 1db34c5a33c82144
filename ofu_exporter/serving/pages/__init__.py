"""The pages that people look at: the node and its jobs, drawn on the server, without any file from elsewhere."""

from __future__ import annotations

import base64
import hashlib

from ofu_exporter.support.templates import asset

STYLE = asset("shared.css", "agent.css")
SCRIPT = asset("sort.js", "refresh.js")


def _allowed(text: str) -> str:
    """How a Content-Security-Policy names a text that stands in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; style-src {_allowed(STYLE)}; script-src {_allowed(SCRIPT)}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing but the page itself may style it, run in it or be asked by it."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of the answer that has a page."""
