"""Checks passwords against their bcrypt hashes, off the event loop and with a bound on what guessing may cost.

A right password is remembered, so that each scrape does not cost a hash. So is the last wrong one of each address:
a scraper with an old password, which tries it again and again, must not keep out another one behind the same address.
One password is hashed at a time, on a thread beside the loop, with a rest after a wrong one. So guessing uses a fifth
of a core, however many guess. Of the addresses that have been wrong lately one at most waits beside all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.extras import install_command

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

Check = Callable[[bytes, bytes], bool]


class BusyError(Exception):
    """Too many passwords are being checked, or the agent stops; try later."""


def bcrypt_check() -> Check:
    """The library's check of a password against a hash. Raises ConfigError where the library is missing."""
    try:
        from bcrypt import checkpw  # noqa: PLC0415 - only who closes reading needs it
    except ImportError as error:
        raise ConfigError(
            f"basic_auth_users needs the library bcrypt: {install_command('auth')}"
        ) from error
    return checkpw


class Passwords:
    """The users' passwords. For one event loop."""

    def __init__(self, users: Mapping[str, bytes], check: Check) -> None:
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
