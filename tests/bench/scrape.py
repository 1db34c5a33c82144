"""Measures what a scrape costs the server, beside static pages of the same size: `python -m tests.bench.scrape`.

CPU time of the server's process per GET, from the scheduler's own count, in turns: the agent with 8 simulated GPUs,
plain and packed, and applications that do nothing but send bytes that lie there. Ratios count, not milliseconds: all
servers share the same minutes of the same machine.
"""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from tests.bench.process import cpu_seconds
from tests.helpers.agent import COMMAND, agent, until
from tests.helpers.prometheus_server import free_port

ROUNDS = 7
GETS = 300
"""Requests of one server in each round."""
PAGE_BYTES = 22_000
STATIC = """
import sys, uvicorn
page = b"#" * int(sys.argv[3])
{app}
uvicorn.run(app, port=int(sys.argv[1]), http=sys.argv[2], loop="asyncio", log_level="error", access_log=False)
"""
FASTAPI_THREAD = """
from fastapi import FastAPI, Response
app = FastAPI()
@app.get("/metrics")
def metrics(): return Response(page, media_type="text/plain; version=0.0.4")
"""
FASTAPI = """
from fastapi import FastAPI, Response
app = FastAPI()
@app.get("/metrics")
async def metrics(): return Response(page, media_type="text/plain; version=0.0.4")
"""
BARE = """
async def app(scope, receive, send):
    if scope["type"] != "http": return
    length = b"%d" % len(page)
    headers = [(b"content-type", b"text/plain; version=0.0.4"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": page})
"""


THREAD, LOOP, BARE_NAME = "FastAPI, plain function", "FastAPI, coroutine", "bare application"


class Target(NamedTuple):
    """A server that runs."""

    name: str
    pid: int
    port: int
    encoding: str = "identity"


class Cost(NamedTuple):
    """What one GET costs."""

    cpu_ms: float
    """Of the server."""
    p50_ms: float
    """What the client waits."""


def get(connection: socket.socket, request: bytes) -> int:
    """One answer; its bytes."""
    connection.sendall(request)
    got = b""
    while b"\r\n\r\n" not in got:
        got += received(connection)
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    while len(body) < length:
        body += received(connection)
    assert head.startswith(b"HTTP/1.1 200"), head
    return length


def received(connection: socket.socket) -> bytes:
    """What comes next; an error where nothing comes any more."""
    some = connection.recv(1 << 16)
    if not some:
        raise ConnectionResetError("closed within an answer")
    return some


def measure(target: Target, gets: int, is_kept: bool) -> Cost:
    """Some GETs, on one connection or on a new one each."""
    lines = ("GET /metrics HTTP/1.1", "Host: 127.0.0.1", f"Accept-Encoding: {target.encoding}")
    request = "".join(f"{line}\r\n" for line in (*lines, "")).encode()
    address, taken = ("127.0.0.1", target.port), []
    with contextlib.ExitStack() as kept:
        connection = kept.enter_context(socket.create_connection(address))
        get(connection, request)
        before = cpu_seconds(target.pid)
        for _ in range(gets):
            began = time.perf_counter()
            if is_kept:
                get(connection, request)
            else:
                with socket.create_connection(address) as alone:
                    get(alone, request)
            taken.append(time.perf_counter() - began)
        spent = cpu_seconds(target.pid) - before
    return Cost(1e3 * spent / gets, 1e3 * statistics.median(taken))


@contextlib.contextmanager
def static(name: str, app: str, http: str) -> Iterator[Target]:
    """A page that lies there, served by uvicorn."""
    port = free_port()
    program = STATIC.replace("{app}", app)
    words = (sys.executable, "-c", program, str(port), http, str(PAGE_BYTES))
    with subprocess.Popen(words) as process:
        try:
            until(lambda: _is_open(port))
            yield Target(name, process.pid, port)
        finally:
            process.terminate()


def _is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def targets() -> Iterator[list[Target]]:
    """Every server, each in a process of its own."""
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(
            agent("run", "--source", "simulate", "--scheduler", "none", command=COMMAND)
        )
        until(lambda: len(running.values("ofu_gpu_utilization_ratio")) == 8)
        port = int(running.url.rpartition(":")[2])
        pid = running.process.pid
        found = [Target("ofu-exporter", pid, port), Target("ofu-exporter, gzip", pid, port, "gzip")]
        parsers = ["h11", *(["httptools"] if importlib.util.find_spec("httptools") else [])]
        for parser in parsers:
            for name, app in ((THREAD, FASTAPI_THREAD), (LOOP, FASTAPI), (BARE_NAME, BARE)):
                found.append(stack.enter_context(static(f"{name}, {parser}", app, parser)))
        yield found


def costs(rounds: int, gets: int, is_kept: bool) -> dict[str, Cost]:
    """The median of some rounds for each server, in turns."""
    with targets() as servers:
        seen: dict[str, list[Cost]] = {server.name: [] for server in servers}
        for _ in range(rounds):
            for server in servers:
                seen[server.name].append(measure(server, gets, is_kept))
    return {
        name: Cost(*(statistics.median(values) for values in zip(*found, strict=True)))
        for name, found in seen.items()
    }


def main() -> None:
    print("| server | connection | CPU ms per GET | of FastAPI's plain function on h11 | p50 ms |")
    print("|---|---|---|---|---|")
    for kind, is_kept in (("kept", True), ("new", False)):
        found = costs(ROUNDS, GETS, is_kept)
        beside = found[f"{THREAD}, h11"].cpu_ms
        for name, cost in found.items():
            ratio = cost.cpu_ms / beside
            print(f"| {name} | {kind} | {cost.cpu_ms:.3f} | {ratio:.2f} | {cost.p50_ms:.2f} |")


if __name__ == "__main__":
    main()
