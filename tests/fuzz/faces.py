"""Shows a snapshot by every face of the agent, through its own application: none of them may fail."""

from __future__ import annotations

import asyncio
import atexit
import json
import math
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from prometheus_client.parser import text_string_to_metric_families
from starlette.types import ASGIApp, Message, Scope

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.serving.access import Access
from ofu_exporter.serving.app import create_app
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.job import Ownership
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.snapshot import Snapshot, SourceHealth

ResultT = TypeVar("ResultT")
EPOCH = 1_800_000_000.0
INTERVAL = 5.0
_LOOP = asyncio.new_event_loop()
atexit.register(_LOOP.close)


class Reply(NamedTuple):
    """What the application answered."""

    status: int
    body: bytes


class Faces:
    """An agent's application over a snapshot, without its sockets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.page = Page(lambda: self.now, process=False)
        self.book = ReportBook(self.page.snapshot, None, lambda: self.now, lambda: EPOCH + self.now)
        jobs = JobBook(self.page.snapshot, "node")
        self._app: ASGIApp = create_app(self.page, jobs, self.book, Guard(Access()), ReadAccess())

    def publish(self, snapshot: Snapshot) -> None:
        self.now = snapshot.at
        self.page.publish(self.book.reviewed(snapshot))

    def ask(self, method: str, path: str, body: bytes = b"") -> Reply:
        """One request from this node. Whatever the application raises is raised."""
        return _run(_asked(self._app, method, path, body))

    def check(self) -> None:
        """Every face shows the snapshot, as text that the other side can read."""
        for path in ("/metrics", "/v1/gpus", "/v1/jobs", "/"):
            reply = self.ask("GET", path)
            assert reply.status == 200, (path, reply)
            text = reply.body.decode()
            if path == "/metrics":
                for _ in text_string_to_metric_families(text):
                    pass
            elif path != "/":
                strict_json(text)


def strict_json(text: str | bytes) -> Any:
    """JSON without NaN and infinities, which are no JSON."""

    def refused(word: str) -> float:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refused)


def shown(
    gpus: Sequence[Gpu],
    events: Sequence[Reading | Fault],
    owners: Sequence[Ownership] = (),
    state: State | None = None,
) -> Snapshot:
    """Two ticks of the agent, the first with these events; every face shows both."""
    faces = Faces()
    state = state or State()
    for now, seen, who in ((INTERVAL, events, owners), (2 * INTERVAL, (), ())):
        health = SourceHealth("fuzz", up=True, reason=None)
        tick = Tick(now, INTERVAL, gpus, seen, health, unix=EPOCH + now, owners=tuple(who))
        state, snapshot = step(state, tick)
        faces.publish(snapshot)
        faces.check()
        check_numbers(snapshot)
    return snapshot


def check_numbers(snapshot: Snapshot) -> None:
    """No sum falls below 0, is infinite or no number, and OFU is no more than a card can have."""
    for view in snapshot.gpus:
        sums = (view.observed_seconds, view.utilization_seconds)
        assert all(math.isfinite(each) and each >= 0 for each in sums), view
        assert view.utilization_seconds <= 2 * view.observed_seconds + 1e-9, view


def _run(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    return _LOOP.run_until_complete(work)


async def _asked(app: ASGIApp, method: str, path: str, body: bytes) -> Reply:
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 9846),
    }
    waiting = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return Reply(sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:]))
