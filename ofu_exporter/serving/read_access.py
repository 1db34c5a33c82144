"""Decides who may read: everybody, or who has a password of the web configuration; adds its headers to every answer.

Health and readiness stay open, since what asks for them (kubelet, a load balancer) has no password. Root and the
agent's own user read without one over the Unix socket, where the kernel says who they are. Requests that write
have rules of their own: the guard's.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.access import PEER_UID
from ofu_exporter.serving.guard import READ_METHODS
from ofu_exporter.serving.web_config import NO_WEB_CONFIG, WebConfig
from ofu_exporter.settings import PROBE_PATHS
from ofu_exporter.support.addresses import client_network, is_loopback
from ofu_exporter.support.extras import install_command
from ofu_exporter.support.rate_limit import RateLimit

log = logging.getLogger(__name__)

MOST_REMEMBERED = 64
"""Most pairs of user and password that were right and need no hash again."""
MOST_WAITING = 16
"""Most addresses that wait for a hash."""
MOST_WAITING_AGAIN = 8
"""Most of these that have been wrong lately."""
MOST_WRONG = 4096
"""Most addresses that are known to have been wrong lately."""
REST = 4.0
"""Rest after a wrong password, as a multiple of what its hash took."""
LONGEST_PASSWORD = 72
"""Bytes that bcrypt looks at."""

PasswordCheck = Callable[[bytes, bytes], bool]


class BusyError(Exception):
    """Too many passwords are being checked, or the agent stops; try later."""


def bcrypt_check() -> PasswordCheck:
    """The library's check of a password against a hash. Raises ConfigError where the library is missing."""
    try:
        from bcrypt import checkpw  # noqa: PLC0415 - only who closes reading needs it
    except ImportError as error:
        raise ConfigError(
            f"basic_auth_users needs the library bcrypt: {install_command('auth')}"
        ) from error
    return checkpw


class Passwords:
    """The users' passwords, checked off the event loop and with a bound on what guessing may cost. For one event loop.

    A right password is remembered, so that each scrape does not cost a hash. So is the last wrong one of each address:
    a scraper with an old password, which tries it again and again, must not keep out another one behind the same
    address. One password is hashed at a time, on a thread beside the loop, with a rest after a wrong one. So guessing
    uses a fifth of a core, however many guess. Of the addresses that have been wrong lately one at most waits beside
    all others.
    """

    def __init__(self, users: Mapping[str, bytes], check: PasswordCheck) -> None:
        self._check = check
        self._key = os.urandom(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._wrong: OrderedDict[str, bytes] = OrderedDict()  # the last wrong pair of each address
        self._waiting: set[str] = set()
        self._attempts: set[asyncio.Task[None]] = set()
        self._hashing, self._again = asyncio.Lock(), asyncio.Lock()
        self._stops = False
        self.renew(users)

    def begin_stop(self) -> None:
        """Hash no further password. Whoever waits for one is told that it is busy."""
        self._stops = True

    def renew(self, users: Mapping[str, bytes]) -> None:
        """Take other users. A user who is not among them, or whose hash changed, is forgotten."""
        self._users = dict(users)
        cost = max((int(hashed[4:6]) for hashed in users.values()), default=10)
        self._nobodys = b"$2b$%02d$" % cost + b"." * 53

    async def are_right(self, address: str, user: str, password: bytes) -> bool:
        """Whether the user has this password. Raises BusyError when this address, or too many, are being checked.

        An unknown user takes as long as one whose hash has the highest cost.
        """
        hashed = self._users.get(user)
        mark = self._mark(user, hashed or b"", password)
        if mark in self._right:
            self._right.move_to_end(mark)
            return True
        if self._wrong.get(address) == mark:
            return False
        most = MOST_WAITING_AGAIN if address in self._wrong else MOST_WAITING
        if address in self._waiting or len(self._waiting) >= most or self._stops:
            raise BusyError
        if not await self._attempt(address, hashed or self._nobodys, password) or hashed is None:
            self._wrong[address] = mark
            while len(self._wrong) > MOST_WRONG:
                self._wrong.popitem(last=False)
            return False
        self._wrong.pop(address, None)
        self._right[mark] = None
        while len(self._right) > MOST_REMEMBERED:
            self._right.popitem(last=False)
        return self._users.get(user) == hashed

    def _mark(self, user: str, hashed: bytes, password: bytes) -> bytes:
        """What a pair is remembered by: nothing that tells the password."""
        parts = (hashlib.sha256(part).digest() for part in (user.encode(), hashed, password))
        return hmac.digest(self._key, b"".join(parts), "sha256")

    async def _attempt(self, address: str, hashed: bytes, password: bytes) -> bool:
        """Whether a password has this hash. It is hashed even if the client leaves: its address has to pay for it."""
        answer: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._waiting.add(address)
        first = self._again if address in self._wrong else contextlib.nullcontext()

        async def in_turn() -> None:
            async with first, self._hashing:
                began = time.monotonic()
                right = None
                if not self._stops:
                    right = await asyncio.to_thread(self._hash, hashed, password)
                took = time.monotonic() - began
                self._waiting.discard(address)
                if not answer.done():  # the client may have left
                    answer.set_result(right)
                if right is False:
                    await asyncio.sleep(REST * took)

        attempt = asyncio.create_task(in_turn())
        self._attempts.add(attempt)  # the loop itself would forget it
        attempt.add_done_callback(self._attempts.discard)
        right = await answer
        if right is None:
            raise BusyError
        return right

    def _hash(self, hashed: bytes, password: bytes) -> bool:
        usable = b"\0" not in password  # the library refuses this one
        try:
            return self._check(password[:LONGEST_PASSWORD] if usable else b"", hashed) and usable
        except ValueError:
            return False


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
        self, web: WebConfig = NO_WEB_CONFIG, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises ConfigError where there are users and no library that checks their passwords."""
        self._web = NO_WEB_CONFIG
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
            log.warning(
                "whoever listens on the network can read passwords, because the address has no TLS"
            )

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
        if not self._lines.ask("", self._clock()):
            words = "wrong user or password to read with, the last from %s: %d in all"
            log.warning(words, client, self._wrong)
        return False


def _network(address: str) -> str:
    """What counts as one address: all that one guesser may have at no cost."""
    return "loopback" if is_loopback(address) else client_network(address)


def _needs_password(scope: Scope) -> bool:
    if scope["method"] not in READ_METHODS or scope["path"] in PROBE_PATHS:
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
