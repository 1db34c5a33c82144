"""Guards requests that write: by who sends them, how large they are, how long they take and how often they come.

Every method but GET, HEAD and OPTIONS writes, whatever its path. A refusal gives a reason as one JSON
object, and is counted.
"""

from __future__ import annotations

import asyncio
import gc
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ofu_exporter.errors import ReportError
from ofu_exporter.reports.work import WorkBudget
from ofu_exporter.serving.access import Access, Writer, network_of
from ofu_exporter.support.patience import limited
from ofu_exporter.support.rate_limit import RateLimit
from ofu_exporter.values.reasons import ReportRejection

WRITER = "ofu.writer"
"""The key of a request's scope under which the application finds its `Writer`."""
MOST_BODY_BYTES = 256 << 10
MOST_BYTES_AT_ONCE = 16 << 20
"""Most bytes of all bodies together that are being received or worked on."""
LARGE_BODY_BYTES = 16 << 10
"""After a larger body the garbage is collected at once. A refusal keeps the whole body in a cycle of frames, and Python
by itself would let a hundred MiB of these gather."""
SECONDS_PER_BYTE = 2.5e-7
"""CPU time that a large body takes before it is known whose it is: 45 ms for a configuration of 180 kB."""
BODY_SECONDS = 10.0
LINGER_SECONDS = 2.0
"""How long the rest of a refused body is received and dropped. A connection that is closed while its client still
sends is reset, and the client never sees the answer."""
DROP_SECONDS = 0.05
"""Pause between two dropped pieces of a quarter of a MiB, so that a sender without end costs little."""
PER_SECOND = 4000.0
"""Most requests from one address, from all of this node's processes together."""

TURNS_BETWEEN = 4
"""Turns of the event loop from one report to the next: a scrape that comes meanwhile is answered before it."""

READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """Stands before the application, and bounds what all writers together may use."""

    def __init__(
        self,
        access: Access,
        count: Callable[[ReportRejection], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        body_seconds: float = BODY_SECONDS,
        work: WorkBudget | None = None,
    ) -> None:
        """`count` is called with every refusal; `work` is what reports may cost."""
        self.access = access
        self._count = count
        self._clock = clock
        self._body_seconds = body_seconds
        self._rates: RateLimit[str] = RateLimit(PER_SECOND, burst=int(PER_SECOND))
        self._bytes = 0
        self._turn = asyncio.Semaphore(1)
        self._large = asyncio.Semaphore(1)
        """A large body takes ten times its length when it is parsed, so the others wait as bytes."""
        self._work = work or WorkBudget(clock)

    async def check(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """The layer that gives the application whole bodies of those who may write."""
        if scope["method"] in READ_METHODS:
            await app(scope, receive, send)
            return
        try:
            scope[WRITER] = await self._admitted(scope)
            with self._counted() as body:
                await self._read(Request(scope, receive), body)
                async with self._turn:
                    for _ in range(TURNS_BETWEEN):
                        await asyncio.sleep(0)
                async with self._room(body, scope):
                    await app(scope, _replay(bytes(body), receive), send)
        except ReportError as error:
            if self._count is not None:
                self._count(error.reason)
            await _refuse(error, receive, send)
        except ClientDisconnect:
            pass  # nobody waits for an answer

    @contextmanager
    def _counted(self) -> Iterator[bytearray]:
        """A body, whose bytes are given back before its sender is told anything that takes time."""
        body = bytearray()
        try:
            yield body
        finally:
            self._bytes -= len(body)
            body.clear()

    @asynccontextmanager
    async def _room(self, body: bytearray, scope: Scope) -> AsyncIterator[None]:
        """What a body needs while it is worked on: a large one is alone, and at the cost of its address."""
        if len(body) <= LARGE_BODY_BYTES:
            yield
            return
        self._work.spend(SECONDS_PER_BYTE * len(body), address=network_of(scope))
        async with self._large:
            yield
        gc.collect(1)

    async def _admitted(self, scope: Scope) -> Writer:
        """The writer, after all checks that need no byte of the body. Raises ReportError."""
        writer = await self.access.admitted(scope)
        wait = self._rates.ask(network_of(scope), self._clock())
        if wait:
            detail = "more requests come from this address than the agent takes"
            raise ReportError(ReportRejection.TOO_MANY, "", detail, "request", wait)
        headers = dict(reversed(scope["headers"]))  # the first of several with one name counts
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        # A web page may not send JSON to another origin without asking first.
        if kind != b"application/json":
            raise ReportError(ReportRejection.NOT_JSON, "content-type", "not JSON", "header")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > MOST_BODY_BYTES:
            raise _too_large()
        if int(length) > LARGE_BODY_BYTES or b"transfer-encoding" in headers:
            self._work.check(address=network_of(scope))
        return writer

    async def _read(self, request: Request, body: bytearray) -> None:
        """Fill `body`. Raises ReportError, and ClientDisconnect when the client has left."""
        try:
            await limited(self._body_seconds, self._fill(request, body))
        except asyncio.TimeoutError as error:
            detail = f"the body was not there within {self._body_seconds:g} s"
            raise ReportError(ReportRejection.TOO_SLOW, detail=detail) from error

    async def _fill(self, request: Request, body: bytearray) -> None:
        async for piece in request.stream():
            if len(body) + len(piece) > MOST_BODY_BYTES:
                raise _too_large()
            if self._bytes + len(piece) > MOST_BYTES_AT_ONCE:
                detail = "too much is being sent at once"
                raise ReportError(ReportRejection.TOO_MANY, "", detail, "request", 1.0)
            self._bytes += len(piece)
            body += piece


async def writer_of(request: Request) -> Writer:
    """Who sends a request that the guard has let through, for a route to depend on."""
    writer: Writer = request.scope[WRITER]
    return writer


async def sender_of(request: Request) -> str:
    """The address of the sender, as its requests and its work are counted."""
    return network_of(request.scope)


def _too_large() -> ReportError:
    detail = f"the body is larger than {MOST_BODY_BYTES >> 10} KiB"
    return ReportError(ReportRejection.TOO_LARGE, detail=detail)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Receives the body first, and then whatever still comes."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return first.pop() if first else await receive()

    return replayed


async def _refuse(error: ReportError, receive: Receive, send: Send) -> None:
    """Answer, and close the connection, since its request was not read to the end."""
    answer = refusal_response(error)
    headers = [*answer.raw_headers, (b"connection", b"close")]
    status = answer.status_code
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": True})
    with suppress(asyncio.TimeoutError):
        await limited(LINGER_SECONDS, _drop(receive))
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def refusal_response(error: ReportError) -> Response:
    """The answer: one problem, and where it is."""
    location = [error.where, *(error.field.split(".") if error.field else [])]
    item = {"loc": location, "msg": str(error), "type": error.reason.value}
    headers = {}
    if error.reason.status == 401:
        headers["www-authenticate"] = "Bearer"
    if error.retry_after is not None:
        headers["retry-after"] = str(math.ceil(error.retry_after))
    return JSONResponse({"detail": [item]}, error.reason.status, headers)


async def _drop(receive: Receive) -> None:
    while (await receive()).get("more_body", False):
        await asyncio.sleep(DROP_SECONDS)
