"""Checks passwords against their bcrypt hashes, off the event loop and with a bound on what guessing may cost.

A right password is remembered, so that each scrape does not cost a hash. So is the last wrong one of each address:
a scraper with an old password, which tries it again and again, must not keep out another one behind the same address.
All hashing is done on one thread, one address at a time, and the thread rests after a wrong password. So guessing uses
a fifth of a core, however many guess. Addresses that have not been wrong lately go first.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

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
        self._waiting: set[str] = set()
        self._wrong: OrderedDict[str, bytes] = OrderedDict()  # the last wrong pair of each address
        self._work: queue.PriorityQueue[tuple[int, int, _Attempt | None]] = queue.PriorityQueue()
        self._count = 0
        self._stopping = threading.Event()
        self.renew(users)
        self._thread = threading.Thread(target=self._run, name="passwords", daemon=True)
        self._thread.start()

    def begin_stop(self) -> None:
        """Let the thread end after the hash that it is at. Whoever waits for another one is told that it is busy."""
        self._stopping.set()
        self._put(0, None)

    def stop(self, seconds: float) -> None:
        """Wait for that. A thread that is in the library when the interpreter ends would abort the process."""
        self._thread.join(seconds)

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
        was_wrong = address in self._wrong
        most = MOST_WAITING_AGAIN if was_wrong else MOST_WAITING
        if address in self._waiting or len(self._waiting) >= most or self._stopping.is_set():
            raise BusyError
        loop = asyncio.get_running_loop()
        attempt = _Attempt(address, hashed or self._nobodys, password, loop, loop.create_future())
        self._waiting.add(address)
        self._put(1 + was_wrong, attempt)
        answer = await attempt.answer
        if answer is None:
            raise BusyError
        if not answer or hashed is None:
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

    def _put(self, rank: int, attempt: _Attempt | None) -> None:
        """The lowest rank goes first, and of one rank the first."""
        self._count += 1
        self._work.put((rank, self._count, attempt))

    def _run(self) -> None:
        while True:
            attempt = self._work.get()[2]
            if attempt is None or self._stopping.is_set():
                self._give_up(attempt)
                return
            began = time.monotonic()
            right = self._hash(attempt)
            took = time.monotonic() - began
            self._tell(attempt, right)
            if not right:
                self._stopping.wait(REST * took)

    def _give_up(self, attempt: _Attempt | None) -> None:
        """Answer all that wait, this one among them: a request without an answer would hold up the agent's end."""
        while True:
            if attempt is not None:
                self._tell(attempt, None)
            try:
                attempt = self._work.get_nowait()[2]
            except queue.Empty:
                return

    def _tell(self, attempt: _Attempt, right: bool | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            attempt.loop.call_soon_threadsafe(self._answer, attempt, right)

    def _hash(self, attempt: _Attempt) -> bool:
        usable = b"\0" not in attempt.password  # the library refuses this one
        password = attempt.password[:LONGEST_PASSWORD] if usable else b""
        try:
            return self._check(password, attempt.hashed) and usable
        except ValueError:
            return False

    def _answer(self, attempt: _Attempt, right: bool | None) -> None:
        self._waiting.discard(attempt.address)  # only now: its hash has been paid for
        if not attempt.answer.done():  # the client may have left
            attempt.answer.set_result(right)


class _Attempt(NamedTuple):
    """A password to check, and where the answer goes."""

    address: str
    hashed: bytes
    password: bytes
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[bool | None]
    """None where the agent stops before the hash."""
