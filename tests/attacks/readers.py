"""Attacks on who may read: floods of handshakes where a certificate is demanded, and of guessed passwords."""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
from contextlib import ExitStack
from pathlib import Path

from tests.attacks.attack import Attack
from tests.attacks.clients import crowd, send, status
from tests.attacks.connections import (
    ELSEWHERE,
    HANDSHAKES,
    MANY,
    leave_handshakes_open,
    say_nothing,
)
from tests.attacks.scraper import context_of
from tests.attacks.target import SIMULATED, Setup, Target
from tests.helpers.certificates import Certificates
from tests.helpers.passwords import basic, hashed, web_file

AT_ONCE = 64
REQUEST = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{}\r\n"


def demanding_certificates(folder: Path, stack: ExitStack) -> Setup:
    made = Certificates(folder / "tls")
    files = {"--tls-cert": made.cert, "--tls-key": made.key, "--tls-client-ca": made.ca}
    args = [*SIMULATED, *(str(word) for pair in files.items() for word in pair)]
    return Setup(args, ca=made.ca, certificate=made.client)


def scraped_from_elsewhere(folder: Path, stack: ExitStack) -> Setup:
    setup = demanding_certificates(folder, stack)
    setup.scraper = ELSEWHERE
    return setup


async def shake_hands_without_certificate(target: Target) -> None:
    """A client of TLS 1.3 is done before the server asks for its certificate, and may already have asked for a page."""
    context = context_of(str(target.setup.ca), None)

    async def one() -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection(*target.address, ssl=context)
                try:
                    writer.write(REQUEST.format("").encode())
                    if await reader.read(1):
                        target.let_in["a page without a certificate"] += 1
                finally:
                    writer.transport.abort()
            except (OSError, ssl.SSLError):
                await asyncio.sleep(0)

    await asyncio.gather(*(one() for _ in range(AT_ONCE)))


def closed_by_password(folder: Path, stack: ExitStack) -> Setup:
    """At the cost that docs/access.md advises."""
    web = web_file(folder / "web.yml", basic_auth_users={"prometheus": hashed("s3cret", cost=10)})
    args = [*SIMULATED, f"--web.config.file={web}"]
    return Setup(args, authorization=basic("prometheus", "s3cret"))


async def guess_passwords(target: Target) -> None:
    """Each guess is another, for a user who is there and for one who is not."""
    numbers = itertools.count()

    async def speak(client: socket.socket) -> None:
        number = next(numbers)
        guess = basic(("prometheus", "root")[number % 2], f"guess {number}")
        await send(client, REQUEST.format(f"Authorization: {guess}\r\n").encode())
        found = await status(client)
        target.statuses[found] += 1
        if found == 200:
            target.let_in["a page for a guess"] += 1

    await crowd(target, AT_ONCE, speak, 0.0)


ATTACKS = (
    Attack(
        "silent handshakes, client CA",
        f"{MANY:,} connections that say nothing, where certificates are demanded",
        HANDSHAKES,
        say_nothing,
        demanding_certificates,
    ),
    Attack(
        "open handshakes, client CA",
        f"{MANY:,} connections that send a ClientHello and no more; Prometheus has an address of its own",
        "the number of handshakes; a fair share for each peer",
        leave_handshakes_open,
        scraped_from_elsewhere,
    ),
    Attack(
        "handshakes without a certificate",
        f"{AT_ONCE} clients that go through the handshake without one, and ask for a page, over and over",
        "the number of handshakes; a certificate before any request",
        shake_hands_without_certificate,
        scraped_from_elsewhere,
    ),
    Attack(
        "guessed passwords",
        f"{AT_ONCE} connections that each try another password, from the scraper's own address",
        "one attempt at a time for an address; right passwords are remembered",
        guess_passwords,
        closed_by_password,
    ),
)
