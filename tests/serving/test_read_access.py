"""Who may read: real requests to the real server, by the address and by the Unix socket."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving import read_access
from ofu_exporter.serving.access import Access
from ofu_exporter.serving.connection_limit import ConnectionLimit
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.listeners import Listeners
from ofu_exporter.serving.read_access import (
    MOST_REMEMBERED,
    MOST_WAITING,
    MOST_WAITING_AGAIN,
    REST,
    BusyError,
    Passwords,
    ReadAccess,
)
from ofu_exporter.serving.web_config import NO_WEB_CONFIG, WebConfig
from tests.helpers.agent import SOON, until
from tests.helpers.passwords import basic, hashed
from tests.helpers.server import Client, behind, post, serving, tell
from tests.helpers.values import FakeClock

pytestmark = pytest.mark.anyio

WEB = WebConfig(
    file=Path("web.yml"),
    users={"prometheus": hashed("s3cret:with:colons").encode(), "nobody": hashed("").encode()},
    headers={"X-Frame-Options": "deny"},
)
GOOD = basic("prometheus", "s3cret:with:colons")


async def test_a_hash_that_the_library_cannot_read_is_nobodys() -> None:
    broken = b"$2b$04$" + b"-" * 53
    with pytest.raises(ValueError, match="salt"):
        bcrypt.checkpw(b"", broken)
    assert not await Passwords({"ada": broken}, bcrypt.checkpw).are_right("a", "ada", b"")


@pytest.fixture(scope="module")
def listeners() -> Iterator[Listeners]:
    app = behind(ReadAccess(WEB).check, behind(Guard(Access()).check, tell))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # pytest's own folders let nobody else in
        with serving(app, report_socket=Path(folder) / "reports.sock") as listening:
            yield listening


def request(method: str, path: str, *authorizations: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x"]
    lines += [f"Authorization: {each}" for each in authorizations]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"


def status(where: Listeners | str, wanted: bytes) -> tuple[int, dict[str, str]]:
    with Client(where) as client:
        client.send(wanted)
        head = client.socket.recv(65536).partition(b"\r\n\r\n")[0].decode()
    first, *lines = head.split("\r\n")
    named = (line.split(": ", 1) for line in lines)
    return int(first.split()[1]), {name.lower(): value for name, value in named}


@pytest.mark.parametrize(
    "path", ["/", "/metrics", "/v1/jobs", "/healthz/", "//healthz", "/%68ealth"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_nothing_is_read_without_a_password(listeners: Listeners, method: str, path: str) -> None:
    code, headers = status(listeners, request(method, path))
    assert code == 401
    assert headers["www-authenticate"] == 'Basic realm="ofu-exporter"'
    assert headers["x-frame-options"] == "deny"


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/-/healthy", "/-/ready", "/healthz?x=/metrics"]
)
def test_health_is_open(listeners: Listeners, path: str) -> None:
    assert status(listeners, request("GET", path))[0] == 200


def test_the_right_password_opens_and_headers_are_added(listeners: Listeners) -> None:
    code, headers = status(listeners, request("GET", "/metrics", GOOD))
    assert code == 200
    assert headers["x-frame-options"] == "deny"
    assert status(listeners, request("GET", "/metrics", GOOD.replace("Basic", "bASIC")))[0] == 200


@pytest.mark.parametrize(
    "given",
    [
        [basic("prometheus", "s3cret")],
        [basic("prometheus", "")],
        [basic("", "s3cret:with:colons")],
        [basic("Prometheus", "s3cret:with:colons")],
        [GOOD, GOOD],
        ["Basic"],
        ["Basic !!!"],
        ["Basic " + base64.b64encode(b"nobody").decode()],
        ["Basic " + base64.b64encode(b"\xff\xfe:x").decode()],
        [GOOD.replace("Basic", "Bearer")],
        [GOOD[:-8]],
    ],
)
def test_anything_else_does_not_open(listeners: Listeners, given: list[str]) -> None:
    assert status(listeners, request("GET", "/metrics", *given))[0] == 401


def test_every_request_of_a_connection_is_asked(listeners: Listeners) -> None:
    with Client(listeners) as client:
        client.send(request("GET", "/metrics", GOOD), request("GET", "/metrics"))
        assert client.answer()[0] == 200
        assert b"401" in client._until(b"\r\n")


def test_reports_keep_their_own_rules(listeners: Listeners) -> None:
    with Client(listeners) as client:
        client.send(post(2), b"{}")
        assert client.answer()[2]["way"] == "local"
    assert status(listeners, post(2, f"Authorization: {GOOD}") + b"{}")[0] == 401


ASK = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
link = socket.socket(socket.AF_UNIX); link.connect(sys.argv[1])
link.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
print(link.recv(65536).split()[1].decode())
"""


def test_by_the_unix_socket_the_agents_own_user_reads_and_others_do_not(
    listeners: Listeners,
) -> None:
    assert listeners.unix is not None
    path = listeners.unix.getsockname()
    assert status(path, request("GET", "/metrics"))[0] == 200
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    done = subprocess.run(
        [sys.executable, "-c", ASK, path], capture_output=True, text=True, check=True, timeout=SOON
    )
    assert done.stdout.strip() == "401"


def test_a_flood_of_guesses_costs_few_hashes_and_keeps_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """400 connections guess at once from one address: one hash is under way, the rest is told to wait."""
    gate, counted = threading.Event(), []

    def slow(password: bytes, against: bytes) -> bool:
        if password == b"guess":
            counted.append(1)
            gate.wait(3 * SOON)
        return bcrypt.checkpw(password, against)

    monkeypatch.setattr(read_access, "bcrypt_check", lambda: slow)
    monkeypatch.setattr(read_access, "REST", 0.0)
    patient = ConnectionLimit(clock=FakeClock(0.0))  # however long 400 connections take here
    with serving(behind(ReadAccess(WEB).check, tell), patient) as listening:
        assert status(listening, request("GET", "/metrics", GOOD))[0] == 200
        guess = request("GET", "/metrics", basic("prometheus", "guess"))
        guessing = [Client(listening) for _ in range(400)]
        guessing[0].send(guess)
        until(lambda: counted)
        for client in guessing[1:]:
            client.send(guess)
        answers = [_code(client.socket) for client in guessing[1:]]
        assert set(answers) == {429}
        assert status(listening, request("GET", "/metrics", GOOD))[0] == 200
        assert status(listening, request("GET", "/healthz"))[0] == 200
        gate.set()
        assert _code(guessing[0].socket) == 401
        for client in guessing:
            client.socket.close()
    assert len(counted) == 1


def _code(connection: socket.socket) -> int:
    return int(connection.recv(65536).split()[1])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("127.0.0.1", "127.9.9.9", True),
        ("127.0.0.1", "::1", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
    ],
)
def test_what_one_guesser_has_at_no_cost_counts_as_one(one: str, other: str, same: bool) -> None:
    assert (read_access._network(one) == read_access._network(other)) is same


def test_wrong_passwords_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock(0.0)
    with (
        serving(behind(ReadAccess(WEB, clock).check, tell)) as listening,
        caplog.at_level(logging.WARNING),
    ):
        for number in range(6):
            clock.now = 61.0 if number == 5 else 0.0
            wrong = request("GET", "/metrics", basic("\x1b[2J", "\x1b[2J"))
            assert status(listening, wrong)[0] == 401
    lines = [each.getMessage() for each in caplog.records if "wrong user" in each.getMessage()]
    assert [line.rpartition(": ")[2] for line in lines] == ["1 in all", "6 in all"]
    assert "127.0.0.1" in lines[0]
    assert lines[0].isprintable()


def test_closed_reading_is_not_opened_while_the_agent_runs() -> None:
    reading = ReadAccess(WEB)
    for web in (NO_WEB_CONFIG, WebConfig(file=Path("web.yml"))):
        with pytest.raises(ConfigError, match="cannot be opened without a restart"):
            reading.renew(web)


def test_without_the_library_closed_reading_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bcrypt", None)
    with pytest.raises(ConfigError, match="pip install 'bcrypt>=4\\.1'"):
        ReadAccess(WEB)


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


def counted(users: dict[str, bytes] = ALICE) -> tuple[Passwords, CountedCheck]:
    check = CountedCheck()
    return Passwords(users, check), check


async def test_a_right_password_is_hashed_once_and_each_guess() -> None:
    passwords, check = counted()
    for _ in range(3):
        assert await passwords.are_right("a", "alice", b"wonder")
    assert len(check.hashes) == 1
    for guess in (b"1", b"2", b"1"):
        assert not await passwords.are_right("a", "alice", guess)
    assert len(check.hashes) == 4


async def test_a_wrong_password_that_is_tried_again_keeps_nobody_of_the_same_address_out() -> None:
    """As when a Prometheus with an old password always scrapes a moment before one with the right one."""
    passwords, check = counted()
    assert not await passwords.are_right("a", "alice", b"old")
    check.gate.clear()
    assert not await passwords.are_right("a", "alice", b"old")
    right = asyncio.create_task(passwords.are_right("a", "alice", b"wonder"))
    await asyncio.sleep(0)
    assert not await passwords.are_right("a", "alice", b"old")
    check.gate.set()
    assert await right
    assert len(check.hashes) == 2


async def test_a_password_that_was_wrong_is_right_once_the_users_say_so() -> None:
    passwords, _ = counted()
    assert not await passwords.are_right("a", "alice", b"land")
    assert not await passwords.are_right("a", "bob", b"x")
    passwords.renew({"alice": hashed("land").encode(), "bob": hashed("x").encode()})
    assert await passwords.are_right("a", "alice", b"land")
    assert await passwords.are_right("a", "bob", b"x")


async def test_an_unknown_user_costs_what_the_dearest_hash_costs() -> None:
    users = {**ALICE, "bob": hashed("x", cost=5).encode()}
    passwords, check = counted(users)
    for password in (b"wonder", b"x", b"", b"." * 53):
        assert not await passwords.are_right("a", "carol", password)
    assert [each[:7] for each in check.hashes] == [b"$2b$05$"] * 4


async def test_bytes_that_bcrypt_does_not_take_are_wrong_and_cost_the_same() -> None:
    users = {"empty": hashed("").encode(), "long": hashed("x" * 72).encode()}
    passwords, check = counted(users)
    assert not await passwords.are_right("a", "empty", b"\0")
    assert not await passwords.are_right("a", "empty", b"\0x")
    assert len(check.hashes) == 2
    assert await passwords.are_right("a", "long", b"x" * 100)  # as htpasswd and Go have it
    assert not await passwords.are_right("a", "long", b"\xff" * 71)


async def test_an_address_has_one_attempt_at_a_time_and_all_together_few() -> None:
    passwords, check = counted()
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


async def test_after_a_wrong_password_the_next_hash_waits_four_times_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("ofu_exporter.serving.read_access.time.monotonic", lambda: next(clock))
    rests: list[float] = []
    passwords, _ = counted()
    sleep = asyncio.sleep

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        await sleep(0)

    monkeypatch.setattr("ofu_exporter.serving.read_access.asyncio.sleep", rest)
    assert await passwords.are_right("a", "alice", b"wonder")
    assert not await passwords.are_right("a", "alice", b"guess")
    assert not await passwords.are_right("a", "alice", b"another")
    assert len(rests) >= 1
    assert REST == 4.0, "docs/access.md says so"
    assert all(seconds >= REST and seconds % REST == 0 for seconds in rests)


async def test_who_was_not_wrong_lately_goes_before_any_number_of_guessers() -> None:
    """Else a flood from many addresses would keep Prometheus out after a restart of the agent."""
    guessers = [f"a{number}" for number in range(MOST_WAITING)]
    passwords, check = counted()
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


async def test_a_stop_tells_all_who_wait_for_a_hash_and_who_come_after_it() -> None:
    """The agent's end waits for requests that are under way."""
    passwords, check = counted()
    check.gate.clear()
    hashed_now = asyncio.create_task(passwords.are_right("a", "alice", b"wonder"))
    assert await asyncio.to_thread(check.entered.wait, 20)
    waiting = [asyncio.create_task(passwords.are_right(name, "alice", b"wonder")) for name in "bc"]
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


async def test_a_client_that_leaves_has_its_place_until_its_hash_is_done() -> None:
    passwords, check = counted()
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


async def test_another_hash_or_no_user_ends_what_was_remembered() -> None:
    passwords, _ = counted()
    assert await passwords.are_right("a", "alice", b"wonder")
    passwords.renew({"alice": hashed("land").encode()})
    assert not await passwords.are_right("a", "alice", b"wonder")
    assert await passwords.are_right("a", "alice", b"land")
    passwords.renew({"bob": hashed("x").encode()})
    assert not await passwords.are_right("a", "alice", b"land")


async def test_a_password_withdrawn_while_it_is_checked_is_wrong() -> None:
    passwords, check = counted()
    check.gate.clear()
    task = asyncio.create_task(passwords.are_right("a", "alice", b"wonder"))
    await asyncio.sleep(0)
    passwords.renew({"bob": hashed("x").encode()})
    check.gate.set()
    assert not await task


async def test_few_right_passwords_are_remembered() -> None:
    users = {f"u{number}": hashed("x").encode() for number in range(MOST_REMEMBERED + 1)}
    passwords, check = counted(users)
    for user in (*users, "u0"):
        assert await passwords.are_right("a", user, b"x")
    assert len(check.hashes) == MOST_REMEMBERED + 2
