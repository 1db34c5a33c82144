"""Refuses requests whose end two programs could find in two places, and closes their connection.

A proxy that finds another end takes what follows for another request, or waits for an answer that never comes. What
h11 refuses by itself does not get here.
"""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LONGEST_BODY = 1 << 30
"""Bytes. Some proxies keep a length in 32 or 64 bits, and take a longer one for none."""
CLOSE = {"connection": "close"}
TWO_ENDS = JSONResponse({"detail": "both a length and chunks"}, 400, CLOSE)
TOO_LONG = JSONResponse({"detail": "this length is more than anything here takes"}, 413, CLOSE)


def framed(app: ASGIApp) -> ASGIApp:
    """The application for requests with one end.

    h11 goes by the chunks where there is a length as well, and keeps the connection, which is to be closed then (RFC
    9112, 6.1).
    """

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        ends = {name: value for name, value in scope["headers"] if name in _ENDS}
        if len(ends) > 1:
            await TWO_ENDS(scope, receive, send)
        elif int(ends.get(b"content-length", b"0")) > LONGEST_BODY:
            await TOO_LONG(scope, receive, send)
        else:
            await app(scope, receive, send)

    return checked


_ENDS = frozenset({b"content-length", b"transfer-encoding"})
