"""Decides who may read: everybody, or who has a password of the web configuration; adds its headers to every answer.

Health and readiness stay open, since what asks for them (kubelet, a load balancer) has no password. Root and the
agent's own user read without one over the Unix socket, where the kernel says who they are. Requests that write
have rules of their own: the guard's.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import time
from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.access import PEER_UID
from ofu_exporter.serving.guard import READING
from ofu_exporter.serving.passwords import BusyError, Passwords, bcrypt_check
from ofu_exporter.serving.web_config import NOTHING, WebConfig
from ofu_exporter.settings import PROBE_PATHS
from ofu_exporter.support.addresses import client_network, is_loopback
from ofu_exporter.support.rate_limit import RateLimit

log = logging.getLogger(__name__)

BUSY = PlainTextResponse("busy, try again\n", 429, {"retry-after": "1"})
CLOSED = PlainTextResponse(
    "a user and a password are needed to read\n",
    401,
    {"www-authenticate": 'Basic realm="ofu-exporter"'},
)
QUIET_SECONDS = 60.0
"""Shortest time between two log lines about wrong passwords."""


class ReadAccess:
    """Stands before the guard and the application."""

    def __init__(
        self, web: WebConfig = NOTHING, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises ConfigError where there are users and no library that checks their passwords."""
        self._web = NOTHING
        self._passwords: Passwords | None = None
        self._clock = clock
        self._wrong = 0
        self._lines: RateLimit[str] = RateLimit(1 / QUIET_SECONDS, burst=1)
        self.renew(web)

    def refuse_opening(self, web: WebConfig) -> None:
        """Raises ConfigError when this configuration would let everybody read, and the present one does not.

        A file that is half written, or gone, must not open anything.
        """
        if self._web.users and not web.users:
            raise ConfigError(
                "reading is closed by basic_auth_users and cannot be opened without a restart"
            )
        if web.users:
            bcrypt_check()

    def renew(self, web: WebConfig) -> None:
        """Take another configuration. Raises ConfigError, and then keeps the present one."""
        self.refuse_opening(web)
        if web == self._web:
            return
        if web.users:
            self._passwords = self._passwords or Passwords({}, bcrypt_check())
            self._passwords.renew(web.users)
        self._web = web
        if web.file:
            log.info("%s", web)
        if web.users and not web.tls:
            log.warning("passwords can be read on their way wherever the address has no TLS")

    def begin_stop(self) -> None:
        if self._passwords is not None:
            self._passwords.begin_stop()

    async def check(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """The layer that lets those pass who may read."""
        send = self._with_headers(send)
        if self._passwords is None or not _needs_password(scope):
            await app(scope, receive, send)
            return
        try:
            may_read = await self._has_password(scope, self._passwords)
        except BusyError:
            await BUSY(scope, receive, send)
            return
        await (app if may_read else CLOSED)(scope, receive, send)

    def _with_headers(self, send: Send) -> Send:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._web.headers)
            await send(message)

        return with_headers if self._web.headers else send

    async def _has_password(self, scope: Scope, passwords: Passwords) -> bool:
        basic = _basic(scope)
        if basic is None:
            return False
        client = scope.get("client")
        user, password = basic
        if await passwords.are_right(_network(client[0]) if client else "", user, password):
            return True
        self._wrong += 1
        if not self._lines.wait("", self._clock()):
            words = "wrong user or password to read with, the last from %s: %d in all"
            log.warning(words, client, self._wrong)
        return False


def _network(address: str) -> str:
    """What counts as one address: all that one guesser may have at no cost."""
    return "loopback" if is_loopback(address) else client_network(address)


def _needs_password(scope: Scope) -> bool:
    if scope["method"] not in READING or scope["path"] in PROBE_PATHS:
        return False
    uid = scope.get("state", {}).get(PEER_UID)
    return uid is None or uid not in (0, os.geteuid())


def _basic(scope: Scope) -> tuple[str, bytes] | None:
    """User and password of the Authorization header; None when there is none that says both."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1:
        return None
    scheme, _, coded = values[0].strip().partition(b" ")
    try:
        user, colon, password = base64.b64decode(coded.strip(), validate=True).partition(b":")
        name = user.decode()
    except (binascii.Error, ValueError):
        return None
    return (name, password) if scheme.lower() == b"basic" and colon else None
