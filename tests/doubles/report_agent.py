"""An agent that takes reports as POST /v1/mfu does, over TCP, TLS or a Unix socket, and misbehaves when told."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.doubles.agent_answer import answer_of, refusal_of
from tests.helpers.quiet_server import QuietHandler, QuietServer

RATES = ("mfu", "model_flops_per_second", "tflops_per_gpu", "tokens_per_second")


@dataclass(frozen=True)
class Reply:
    """What goes back; `raw` instead of all of HTTP, None of both closes the connection without a word."""

    status: int = HTTPStatus.OK
    content: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    hang: bool = False
    """Say nothing until the agent is released."""
    vanish: bool = False
    last: bool = False
    """Close the connection afterwards, without announcing it."""


def refusal(status: int, name: str, text: str, kind: str, **headers: str) -> Reply:
    """In the shape of every error of the agent."""
    return Reply(status, refusal_of(status, kind, name, text), headers)


class ReportAgent:
    """Accepts what follows the contract, unless `behave` returns something else."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.reports: list[dict[str, Any]] = []
        """Every body that came, accepted or not."""
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        self.behave: Callable[[dict[str, Any], Mapping[str, str]], Reply | None] = lambda *_: None
        self.released = threading.Event()
        self._ends: dict[str, float] = {}

    def take(self, report: dict[str, Any], headers: Mapping[str, str]) -> Reply:
        self.reports.append(report)
        self.headers.append({name.lower(): value for name, value in headers.items()})
        return self.behave(report, headers) or self._judge(report, headers)

    def _judge(self, report: dict[str, Any], headers: Mapping[str, str]) -> Reply:
        if headers.get("Content-Type") != "application/json":
            return refusal(415, "", "JSON only", "not_json")
        ways = [name for name in RATES[:3] if name in report]
        is_rated = bool(ways) or "tokens_per_second" in report
        if len(ways) > 1 or not (is_rated or report.keys() & {"step", "event"}):
            return refusal(422, "", "give one rate", "malformed")
        if "flops_per_token" in report and (ways or "tokens_per_second" not in report):
            return refusal(422, "flops_per_token", "has no meaning", "malformed")
        if report["end"] <= report.get("start", 0.0):
            return refusal(422, "end", "is not after start", "malformed")
        if is_rated:
            if report["start"] < self._ends.get(report["job_id"], 0.0) - 1.0:
                return refusal(409, "start", "overlaps the report before", "overlap")
            self._ends[report["job_id"]] = report["end"]
        return Reply(content=answer_of(report, report.get("mfu", 0.4), ofu=0.3))


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    agent: ReportAgent

    def setup(self) -> None:
        self.agent.connections += 1
        super().setup()

    def do_POST(self) -> None:
        body = json.loads(self.sent())
        assert self.path == "/v1/mfu"
        reply = self.agent.take(body, dict(self.headers.items()))
        if reply.hang:
            self.agent.released.wait(30)
        self.close_connection = reply.vanish or reply.last or reply.hang or reply.raw is not None
        if reply.raw is not None:
            with contextlib.suppress(OSError):  # the client may have heard enough
                self.wfile.write(reply.raw)
        elif not (reply.vanish or reply.hang):
            self.reply(json.dumps(reply.content).encode(), reply.status, reply.headers)


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def get_request(self) -> tuple[socket.socket, Any]:
        return super().get_request()[0], ("unix", 0)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of the tests."""


@contextlib.contextmanager
def report_agent(
    socket_path: Path | None = None, tls: ssl.SSLContext | None = None, port: int = 0
) -> Iterator[ReportAgent]:
    """An agent on a port of loopback, or on a socket."""

    class Handler(_Handler):
        pass

    server: socketserver.BaseServer
    if socket_path:
        server = _UnixServer(str(socket_path), Handler)
        url = f"unix:{socket_path}"
    else:
        tcp = server = QuietServer(Handler, ("127.0.0.1", port), tls)
        url = tcp.url.replace("127.0.0.1", "localhost")
    Handler.agent = ReportAgent(url)
    with server:
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        try:
            yield Handler.agent
        finally:
            Handler.agent.released.set()
            server.shutdown()
