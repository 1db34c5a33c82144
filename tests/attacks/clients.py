"""What attackers are made of: raw connections, as many as wanted, each opened anew when the agent closes it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable

from tests.attacks.target import Target

Speak = Callable[[socket.socket], Awaitable[None]]
"""What is done on one connection, until the agent ends it."""


async def crowd(target: Target, count: int, speak: Speak, pause: float) -> None:
    """Many connections at once. `pause` is in seconds, from the end of one to the next in its place."""

    async def one(number: int) -> None:
        await asyncio.sleep(number / 2000)
        while True:
            await connection(target.address, speak)
            await asyncio.sleep(pause)

    await asyncio.gather(*(one(number) for number in range(count)))


async def connection(address: tuple[str, int], speak: Speak) -> None:
    """One connection from its begin to its end."""
    with contextlib.suppress(OSError), socket.socket() as client:
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, address)
        await speak(client)


async def send(client: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(client, data)


async def closed(client: socket.socket) -> None:
    """Wait for the agent to close the connection, and drop what it says."""
    while await asyncio.get_running_loop().sock_recv(client, 1 << 16):
        pass


async def status(client: socket.socket) -> int:
    """The status of the answer that comes, without reading on; 0 = none came."""
    got = b""
    while len(got) < 12 and (piece := await asyncio.get_running_loop().sock_recv(client, 4096)):
        got += piece
    return int(got[9:12]) if got.startswith(b"HTTP/1.1 ") else 0


def post(body: bytes, *headers: str, length: int | None = None) -> bytes:
    """A report as it goes over the wire."""
    head = [
        "POST /v1/mfu HTTP/1.1",
        "Host: 127.0.0.1",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body) if length is None else length}",
        *headers,
    ]
    return "".join(f"{line}\r\n" for line in head).encode() + b"\r\n" + body


def report(**fields: object) -> bytes:
    return json.dumps({"job_id": "1001", **fields}).encode()


async def asked(target: Target, request: bytes) -> int:
    """Send one request on a connection of its own; its status, which the target remembers."""
    found = 0

    async def speak(client: socket.socket) -> None:
        nonlocal found
        await send(client, request)
        found = await status(client)

    await connection(target.address, speak)
    target.statuses[found] += 1
    return found
