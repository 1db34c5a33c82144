"""Passwords: the real bcrypt decides, right ones are remembered, and guessing is bounded however many guess."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import bcrypt
import pytest

from ofu_exporter.serving.passwords import (
    MOST_REMEMBERED,
    MOST_WAITING,
    MOST_WAITING_AGAIN,
    REST,
    BusyError,
    Passwords,
)
from tests.helpers.passwords import hashed

ValueT = TypeVar("ValueT")
ALICE = {"alice": hashed("wonder").encode()}


class CountedCheck:
    """bcrypt itself, counted, and held up while its gate is shut."""

    def __init__(self) -> None:
        self.hashes: list[bytes] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def __call__(self, password: bytes, against: bytes) -> bool:
        self.entered.set()
        self.gate.wait()
        self.hashes.append(against)
        return bcrypt.checkpw(password, against)


def asked(
    body: Callable[[Passwords, CountedCheck], Awaitable[ValueT]], users: dict[str, bytes] = ALICE
) -> ValueT:
    async def run() -> ValueT:
        check = CountedCheck()
        return await body(Passwords(users, check), check)

    return asyncio.run(run())


def test_a_right_password_is_hashed_once_and_each_guess() -> None:
    async def body(passwords: Passwords, check: CountedCheck) -> None:
        for _ in range(3):
            assert await passwords.are_right("a", "alice", b"wonder")
        assert len(check.hashes) == 1
        for guess in (b"1", b"2", b"1"):
            assert not await passwords.are_right("a", "alice", guess)
        assert len(check.hashes) == 4

    asked(body)


def test_a_wrong_password_that_is_tried_again_keeps_nobody_of_the_same_address_out() -> None:
    """As when a Prometheus with an old password always scrapes a moment before one with the right one."""

    async def body(passwords: Passwords, check: CountedCheck) -> None:
        assert not await passwords.are_right("a", "alice", b"old")
        check.gate.clear()
        assert not await passwords.are_right("a", "alice", b"old")
        right = asyncio.create_task(passwords.are_right("a", "alice", b"wonder"))
        await asyncio.sleep(0)
        assert not await passwords.are_right("a", "alice", b"old")
        check.gate.set()
        assert await right
        assert len(check.hashes) == 2

    asked(body)


def test_a_password_that_was_wrong_is_right_once_the_users_say_so() -> None:
    async def body(passwords: Passwords, check: CountedCheck) -> None:
        assert not await passwords.are_right("a", "alice", b"land")
        assert not await passwords.are_right("a", "bob", b"x")
        passwords.renew({"alice": hashed("land").encode(), "bob": hashed("x").encode()})
        assert await passwords.are_right("a", "alice", b"land")
        assert await passwords.are_right("a", "bob", b"x")

    asked(body)


def test_an_unknown_user_costs_what_the_dearest_hash_costs() -> None:
    users = {**ALICE, "bob": hashed("x", cost=5).encode()}

    async def body(passwords: Passwords, check: CountedCheck) -> None:
        for password in (b"wonder", b"x", b"", b"." * 53):
            assert not await passwords.are_right("a", "carol", password)
        assert [each[:7] for each in check.hashes] == [b"$2b$05$"] * 4

    asked(body, users)


def test_bytes_that_bcrypt_does_not_take_are_wrong_and_cost_the_same() -> None:
    users = {"empty": hashed("").encode(), "long": hashed("x" * 72).encode()}

    async def body(passwords: Passwords, check: CountedCheck) -> None:
        assert not await passwords.are_right("a", "empty", b"\0")
        assert not await passwords.are_right("a", "empty", b"\0x")
        assert len(check.hashes) == 2
        assert await passwords.are_right("a", "long", b"x" * 100)  # as htpasswd and Go have it
        assert not await passwords.are_right("a", "long", b"\xff" * 71)

    asked(body, users)


def test_an_address_has_one_attempt_at_a_time_and_all_together_few() -> None:
    async def body(passwords: Passwords, check: CountedCheck) -> None:
        assert await passwords.are_right("known", "alice", b"wonder")
        check.gate.clear()
        first = [
            asyncio.create_task(passwords.are_right(f"a{number}", "alice", b"guess"))
            for number in range(MOST_WAITING)
        ]
        await asyncio.sleep(0)
        for address in ("a0", "b"):
            with pytest.raises(BusyError):
                await passwords.are_right(address, "alice", b"guess")
        assert await passwords.are_right("known", "alice", b"wonder")  # needs no hash
        check.gate.set()
        assert await asyncio.gather(*first) == [False] * MOST_WAITING
        assert not await passwords.are_right("a0", "alice", b"guess")

    asked(body)


def test_after_a_wrong_password_the_next_hash_waits_four_times_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("ofu_exporter.serving.passwords.time.monotonic", lambda: next(clock))
    rests: list[float] = []

    async def body(passwords: Passwords, check: CountedCheck) -> None:
        sleep = asyncio.sleep

        async def rest(seconds: float) -> None:
            rests.append(seconds)
            await sleep(0)

        monkeypatch.setattr("ofu_exporter.serving.passwords.asyncio.sleep", rest)
        assert await passwords.are_right("a", "alice", b"wonder")
        assert not await passwords.are_right("a", "alice", b"guess")
        assert not await passwords.are_right("a", "alice", b"another")

    asked(body)
    assert len(rests) >= 1
    assert all(seconds >= REST and seconds % REST == 0 for seconds in rests)


def test_who_was_not_wrong_lately_goes_before_any_number_of_guessers() -> None:
    """Else a flood from many addresses would keep Prometheus out after a restart of the agent."""
    guessers = [f"a{number}" for number in range(MOST_WAITING)]

    async def body(passwords: Passwords, check: CountedCheck) -> None:
        for address in guessers:
            assert not await passwords.are_right(address, "bob", b"guess")
        check.gate.clear()
        tasks, busy = [], 0
        for address in guessers:
            tasks.append(asyncio.create_task(passwords.are_right(address, "bob", b"another")))
            await asyncio.sleep(0)
        busy = sum(task.done() for task in tasks)
        assert busy == MOST_WAITING - MOST_WAITING_AGAIN
        good = asyncio.create_task(passwords.are_right("new", "alice", b"wonder"))
        await asyncio.sleep(0)
        check.hashes.clear()
        check.gate.set()
        assert await good
        assert check.hashes.index(ALICE["alice"]) <= 1, "at once after the hash that was under way"
        await asyncio.gather(*tasks, return_exceptions=True)

    asked(body)


def test_a_stop_tells_all_who_wait_for_a_hash_and_who_come_after_it() -> None:
    """The agent's end waits for requests that are under way."""

    async def body(passwords: Passwords, check: CountedCheck) -> None:
        check.gate.clear()
        hashed_now = asyncio.create_task(passwords.are_right("a", "alice", b"wonder"))
        assert await asyncio.to_thread(check.entered.wait, 20)
        waiting = [
            asyncio.create_task(passwords.are_right(name, "alice", b"wonder")) for name in "bc"
        ]
        await asyncio.sleep(0)
        passwords.begin_stop()
        with pytest.raises(BusyError):
            await asyncio.wait_for(passwords.are_right("d", "alice", b"guess"), 20)
        check.gate.set()
        assert await hashed_now
        told = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 20)
        assert [type(each) for each in told] == [BusyError, BusyError]
        assert len(check.hashes) == 1
        assert await passwords.are_right("e", "alice", b"wonder"), "it is remembered"

    asked(body)


def test_a_client_that_leaves_has_its_place_until_its_hash_is_done() -> None:
    async def body(passwords: Passwords, check: CountedCheck) -> None:
        check.gate.clear()
        task = asyncio.create_task(passwords.are_right("a", "alice", b"wonder"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(BusyError):
            await passwords.are_right("a", "alice", b"wonder")
        check.gate.set()
        assert not await passwords.are_right("b", "alice", b"guess")  # after it in the queue
        assert await passwords.are_right("a", "alice", b"wonder")

    asked(body)


def test_another_hash_or_no_user_ends_what_was_remembered() -> None:
    async def body(passwords: Passwords, check: CountedCheck) -> None:
        assert await passwords.are_right("a", "alice", b"wonder")
        passwords.renew({"alice": hashed("land").encode()})
        assert not await passwords.are_right("a", "alice", b"wonder")
        assert await passwords.are_right("a", "alice", b"land")
        passwords.renew({"bob": hashed("x").encode()})
        assert not await passwords.are_right("a", "alice", b"land")

    asked(body)


def test_a_password_withdrawn_while_it_is_checked_is_wrong() -> None:
    async def body(passwords: Passwords, check: CountedCheck) -> None:
        check.gate.clear()
        task = asyncio.create_task(passwords.are_right("a", "alice", b"wonder"))
        await asyncio.sleep(0)
        passwords.renew({"bob": hashed("x").encode()})
        check.gate.set()
        assert not await task

    asked(body)


def test_few_right_passwords_are_remembered() -> None:
    users = {f"u{number}": hashed("x").encode() for number in range(MOST_REMEMBERED + 1)}

    async def body(passwords: Passwords, check: CountedCheck) -> None:
        for user in (*users, "u0"):
            assert await passwords.are_right("a", user, b"x")
        assert len(check.hashes) == MOST_REMEMBERED + 2

    asked(body, users)
