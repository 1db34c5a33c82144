"""Decides under which names the agent may be read, so that no web page reads it through a name of its own.

A page whose name is made to point at this node ("DNS rebinding") asks under that name, and the browser cannot
help it. An address in the place of a name cannot be made to point elsewhere, and where there is TLS the browser
refuses the certificate. So names alone are checked, over plain HTTP alone. Requests that write are not: the guard
refuses those that a browser sends.

Over a loopback address that holds for `/metrics`, too. From elsewhere it does not: Prometheus may have any name
for a node, and whoever is let in through the firewall may read the page of metrics.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ofu_exporter.serving.guard import READ_METHODS
from ofu_exporter.settings import PROBE_PATHS
from ofu_exporter.support.addresses import is_address, is_loopback

STATUS = 421
"""Misdirected Request (RFC 9110, 15.5.20)."""
REFUSAL = "this agent is not read under that name; --allowed-hosts can allow it"
_METRICS = "/metrics"
_LOCAL = ("localhost", ".localhost", ".local", ".internal", ".svc", ".cluster.local")
"""Names that no public name server answers for (RFC 6761, RFC 6762, ICANN's .internal; Kubernetes)."""


class Hosts:
    """The names under which requests that read are answered."""

    def __init__(
        self, allowed: str = "", own_names: Iterable[str] = (), telemetry_path: str = _METRICS
    ) -> None:
        """`allowed` is one or more names with commas; `.DOMAIN` stands for all names in it, `*` for every name."""
        self._own = {name.lower() for name in (*own_names, socket.gethostname())}
        self._metrics = (_METRICS, telemetry_path)
        self.allow(allowed)

    def start(self) -> None:
        """Ask for this node's full name, in a thread of its own: a name server that is down costs half a minute."""
        threading.Thread(target=self._learn, name="own-name", daemon=True).start()

    def _learn(self) -> None:
        self._own.add(socket.getfqdn().lower())

    def allow(self, allowed: str) -> None:
        """Put the names of the setting in the place of the last ones."""
        self._allowed = (*_LOCAL, *(name.strip().lower() for name in allowed.split(",")))

    def admits(self, scope: Scope) -> bool:
        """Whether a request may be answered, by the name under which it asks."""
        server = scope.get("server")
        if scope.get("scheme") == "https" or server is None or server[1] is None:
            return True  # the Unix socket is reached under no name
        path = scope["path"]
        if path in PROBE_PATHS:
            return True  # probes ask under names of their own
        if path in self._metrics and not is_loopback(server[0]):
            return True
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        return len(hosts) == 1 and self.matches(hosts[0].decode("latin-1"))

    def matches(self, host: str) -> bool:
        """Whether this is an address, a name without a domain, or one of the names that are known."""
        name = _without_port(host.strip().lower()).rstrip(".")
        if is_address(name):
            return True
        if not name or name in self._own or "*" in self._allowed:
            return bool(name)
        return "." not in name or any(
            name == pattern or (pattern.startswith(".") and name.endswith(pattern))
            for pattern in self._allowed
        )

    async def check(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """The layer that refuses what asks under another name."""
        if scope["method"] not in READ_METHODS or self.admits(scope):
            await app(scope, receive, send)
        else:
            await JSONResponse({"detail": REFUSAL}, STATUS)(scope, receive, send)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
