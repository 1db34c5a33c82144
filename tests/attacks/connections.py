"""Attacks by connections that say nothing, little, too much, or do not listen."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from contextlib import ExitStack
from pathlib import Path

from tests.attacks.attack import Attack
from tests.attacks.clients import closed, crowd, post, send, status
from tests.attacks.target import SIMULATED, Setup, Target
from tests.helpers.certificates import Certificates
from tests.helpers.odd_requests import ODD_REQUESTS

MANY = 3000
HALF_HELLO = bytes.fromhex("16030102000100 01fc0303") + bytes(32)
"""The begin of a TLS ClientHello of 512 bytes."""
PAUSE_SECONDS = 2.0
ELSEWHERE = "127.0.0.9"
"""An address that no attacker has, as a Prometheus on another machine."""


def with_tls(folder: Path, stack: ExitStack) -> Setup:
    made = Certificates(folder / "tls")
    args = [*SIMULATED, "--tls-cert", str(made.cert), "--tls-key", str(made.key)]
    return Setup(args, ca=made.ca)


async def say_nothing(target: Target) -> None:
    await crowd(target, MANY, closed, PAUSE_SECONDS)


async def begin_a_handshake(target: Target) -> None:
    async def speak(client: socket.socket) -> None:
        await send(client, HALF_HELLO)
        await closed(client)

    await crowd(target, MANY, speak, PAUSE_SECONDS)


def scraped_from_elsewhere(folder: Path, stack: ExitStack) -> Setup:
    setup = with_tls(folder, stack)
    setup.scraper = ELSEWHERE
    return setup


def whole_hello() -> bytes:
    """What a client says first, as OpenSSL says it."""
    said = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), said, server_hostname="x")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return said.read()


async def leave_handshakes_open(target: Target) -> None:
    hello = whole_hello()

    async def speak(client: socket.socket) -> None:
        await send(client, hello)
        await closed(client)

    await crowd(target, MANY, speak, PAUSE_SECONDS)


async def send_no_tls(target: Target) -> None:
    async def speak(client: socket.socket) -> None:
        await send(client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await closed(client)

    await crowd(target, 100, speak, 0.1)


async def drip_headers(target: Target) -> None:
    async def speak(client: socket.socket) -> None:
        await send(client, b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        while True:
            await asyncio.sleep(1.0)
            await send(client, b"a: b\r\n")

    await crowd(target, 1000, speak, PAUSE_SECONDS)


async def drip_bodies(target: Target) -> None:
    async def speak(client: socket.socket) -> None:
        await send(client, post(b"{", length=1000))
        while True:
            await asyncio.sleep(1.0)
            await send(client, b" ")

    await crowd(target, 1000, speak, PAUSE_SECONDS)


async def never_read(target: Target) -> None:
    async def speak(client: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        while True:
            await send(client, 100 * b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")

    await crowd(target, 500, speak, PAUSE_SECONDS)


async def come_and_go(target: Target) -> None:
    async def speak(client: socket.socket) -> None:
        await send(client, b"G")

    await crowd(target, 200, speak, 0.0)


MALFORMED = (
    b"\x00" * 64,
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\na\x00b: c\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
    b"GET /%00%ff%ed%a0%80 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/jobs/%ed%a0%80 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/jobs/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET //[/metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 20000 + b"\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: " + b"text/plain;q=x," * 500 + b"\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: \xff;q=nan\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    b"POST /v1/mfu HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/mfu HTTP/1.1\r\nHost: x\r\nContent-Length: 1e9\r\n\r\n",
    b"POST /v1/mfu HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    b"POST /v1/mfu HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/mfu HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/mfu HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    b"POST /v1/mfu HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    b"BREW / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    b"CONNECT 10.0.0.1:22 HTTP/1.1\r\nHost: x\r\n\r\n",
    *ODD_REQUESTS.values(),
)
"""Requests that are none, and some that two programs could read differently."""


async def say_what_is_no_request(target: Target) -> None:
    left = 0

    async def speak(client: socket.socket) -> None:
        nonlocal left
        left += 1
        await send(client, MALFORMED[left % len(MALFORMED)])
        client.shutdown(socket.SHUT_WR)
        target.statuses[await status(client)] += 1

    await crowd(target, 32, speak, 0.01)


CROWD = "the number of connections, of which the idlest go first; the time for a request"
HANDSHAKES = "the number of connections, counted from the accept on; the time for a handshake"
ATTACKS = (
    Attack(
        "silent TLS handshakes",
        f"{MANY:,} connections that say nothing, with TLS",
        HANDSHAKES,
        say_nothing,
        with_tls,
    ),
    Attack(
        "begun TLS handshakes",
        f"{MANY:,} connections that send half a ClientHello",
        HANDSHAKES,
        begin_a_handshake,
        with_tls,
    ),
    Attack(
        "open TLS handshakes",
        f"{MANY:,} connections that send a ClientHello and no more; Prometheus has an address of its own",
        "the number of handshakes; a fair share for each peer",
        leave_handshakes_open,
        scraped_from_elsewhere,
    ),
    Attack(
        "no TLS on a TLS port",
        "100 connections at a time that speak HTTP",
        HANDSHAKES,
        send_no_tls,
        with_tls,
    ),
    Attack("silent connections", f"{MANY:,} connections that say nothing", CROWD, say_nothing),
    Attack("slow headers", "1,000 connections that send a header a second", CROWD, drip_headers),
    Attack(
        "slow bodies", "1,000 connections that send a byte of a body a second", CROWD, drip_bodies
    ),
    Attack(
        "no reader",
        "500 clients that ask for pages without end and read none",
        "the time to take an answer; a fair share for each peer",
        never_read,
    ),
    Attack("come and go", "200 clients that connect, send a byte and leave", CROWD, come_and_go),
    Attack(
        "no requests",
        f"{len(MALFORMED)} malformed or ambiguous requests, 32 at a time, over and over",
        "the parser; the size of headers",
        say_what_is_no_request,
    ),
)
