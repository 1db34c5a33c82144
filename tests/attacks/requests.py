"""Attacks by requests: wrong, large and endless reports, text that is no Unicode, names of other hosts."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ofu_exporter.flops.fields import MOST_LAYERS
from tests.attacks.attack import Attack
from tests.attacks.clients import asked, closed, crowd, post, report, send, status
from tests.attacks.paths import PATHS
from tests.attacks.scraper import context_of
from tests.attacks.target import SIMULATED, Setup, Target
from tests.helpers.certificates import Certificates

Body = Callable[[int], bytes]
WRITERS = 64


async def report_on(target: Target, body: Body, pause: float = 0.0) -> None:
    """Reports on many connections, each as soon as the one before is answered."""
    numbers = itertools.count()

    async def speak(client: socket.socket) -> None:
        await send(client, post(body(next(numbers))))
        target.statuses[await status(client)] += 1

    await crowd(target, WRITERS, speak, pause)


def stranger(number: int) -> bytes:
    """A report of one of ten thousand jobs that are not here."""
    return report(job_id=f"x{number % 10_000}", mfu=0.4)


def known(number: int) -> bytes:
    """A report of a job that is here, which is accepted or comes too early."""
    return report(job_id=str(1001 + number % 4), mfu=round(random.random(), 3), step=number)


def wide(number: int) -> bytes:
    """A quarter of a megabyte of fields that there are none of."""
    return json.dumps({f"x{number}-{field}": 1 for field in range(14_000)}).encode()


def deep(number: int) -> bytes:
    return b'{"job_id":"1001","mfu":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def long_number(number: int) -> bytes:
    return b'{"job_id":"1001","mfu":' + b"9" * 200_000 + b"}"


def model(number: int) -> bytes:
    """A report whose model has to be counted, of as many layers as are let in, and each time another."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096 + number,
        "num_hidden_layers": MOST_LAYERS,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14_336,
        "vocab_size": 128_256,
        "layer_types": ["full_attention"] * MOST_LAYERS,
    }
    return report(tokens_per_second=1e5, model={"config": config, "seq_len": 8192})


SURROGATES = (
    rb'{"job_id":"1003","mfu":0.4,"model":{"config":{"\ud800":1e300},"seq_len":1}}',
    rb'{"job_id":"1003","mfu":0.4,"model":{"config":{"architectures":["\ud800"]},"seq_len":1}}',
    rb'{"job_id":"\ud800","mfu":0.4}',
    rb'{"\ud800":1,"job_id":"1003","mfu":0.4}',
    rb'{"job_id":"1003","mfu":0.4,"precision":{"\udfff":1.0}}',
    rb'{"job_id":"1003","mfu":0.4,"framework":"\udc00"}',
    rb'{"job_id":"1003","mfu":0.4,"recompute":"\ud800"}',
    rb'{"job_id":"1003","mfu":"\ud800"}',
    rb'{"job_id":"1003","tokens_per_second":1,"model":{"config":{"model_type":"\ud800"},"seq_len":1}}',
    rb'{"job_id":"1003","mfu":0.4,"model":{"config":{},"seq_len":1,"freeze":["\ud800"]}}',
    b'{"job_id":"\xed\xa0\x80","mfu":0.4}',
)
"""Halves of surrogate pairs, which JSON can say and UTF-8 cannot, in each place of a report."""


async def flood(target: Target) -> None:
    kinds: tuple[Body, ...] = (stranger, known, lambda _: b"{", lambda _: b"", lambda _: b"[1]")
    await report_on(target, lambda number: kinds[number % len(kinds)](number))


async def flood_large(target: Target) -> None:
    made = [wide(0), deep(0), long_number(0), wide(1)]
    await report_on(target, lambda number: made[number % len(made)])


async def flood_models(target: Target) -> None:
    await report_on(target, model)


async def send_surrogates(target: Target) -> None:
    await report_on(target, lambda number: SURROGATES[number % len(SURROGATES)], pause=0.05)


async def never_end(target: Target) -> None:
    """Bodies that say no length, and go on as long as they are let."""
    head = post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"

    async def speak(client: socket.socket) -> None:
        await send(client, head)
        for _ in range(1600):
            await send(client, piece)
        await closed(client)

    await crowd(target, WRITERS, speak, 0.1)


GET_ = "GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
BAD_HEAD = b"HEAD /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz"
LATE_HEAD = b"HEAD /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


async def send_bad_heads(target: Target) -> None:
    """HEAD with a body that is none, after a good request; and one with a byte behind it that comes late."""
    turns = itertools.count()

    async def speak(client: socket.socket) -> None:
        if next(turns) % 2:
            await send(client, GET_.format("/healthz").encode())
            target.statuses[await status(client)] += 1
            await send(client, BAD_HEAD)
        else:
            await send(client, LATE_HEAD)
            await asyncio.sleep(0.012)
            await send(client, b"x")
        await closed(client)

    await crowd(target, 16, speak, 0.02)


async def ask_every_path(target: Target) -> None:
    """Polite clients, each of which asks for everything that anybody may ask for, one after the other."""

    async def speak(client: socket.socket) -> None:
        for path in PATHS:
            await send(client, GET_.format(path).encode())
            target.statuses[await status(client)] += 1
            await asyncio.sleep(0)

    await crowd(target, 16, speak, 0.0)


async def leave_the_description(target: Target) -> None:
    """The longest answer that anybody may ask for, which nobody takes."""

    async def speak(client: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        while True:
            await send(client, 10 * GET_.format("/openapi.json").encode())

    await crowd(target, 500, speak, 2.0)


REBOUND = "GET {path} HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n"


async def rebind(target: Target) -> None:
    """What a browser on this node does for a page whose name resolves to 127.0.0.1."""
    for path in itertools.cycle(["/v1/jobs", "/v1/gpus", "/"]):
        if await asked(target, REBOUND.format(path=path).encode()) == 200:
            target.let_in[f"{path} for another host"] += 1
        await asyncio.sleep(0.1)


def with_authority(folder: Path, stack: ExitStack) -> Setup:
    """An agent that demands certificates, by its configuration file."""
    made = Certificates(folder / "tls")
    lines = [f"tls_cert: {made.cert}", f"tls_key: {made.key}", f"tls_client_ca: {made.ca}"]
    file = folder / "agent.yaml"
    file.write_text("\n".join(lines))
    return Setup([*SIMULATED, "--config", str(file)], ca=made.ca, certificate=made.client)


async def write_after_reload(target: Target) -> None:
    """The authority goes from the file; then somebody from elsewhere reports, without a certificate."""
    file = target.folder / "agent.yaml"
    kept = [line for line in file.read_text().splitlines() if "client_ca" not in line]
    file.write_text("\n".join(kept))
    target.hang_up()
    context = context_of(str(target.setup.ca), None)
    while True:
        await asyncio.sleep(0.2)
        try:
            reader, writer = await asyncio.open_connection(*target.address, ssl=context)
            writer.write(post(report(mfu=0.4), "X-Forwarded-For: 192.0.2.1"))
            found = int((await reader.readuntil(b"\r\n"))[9:12])
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            continue
        target.statuses[found] += 1
        if found not in (401, 403):
            target.let_in[f"a report from elsewhere ({found})"] += 1


SIZES = "the size of a body; fields, depth and values of a report"
ATTACKS = (
    Attack(
        "flood of wrong reports",
        f"{WRITERS} connections with strange, early, cut and empty reports",
        "readers go first; the rate of an address",
        flood,
    ),
    Attack(
        "flood of large reports",
        f"{WRITERS} connections with 14,000 fields, 100,000 levels or 200,000 digits",
        SIZES,
        flood_large,
    ),
    Attack(
        "flood of models",
        f"{WRITERS} connections with a model of {MOST_LAYERS:,} layers, each time another",
        SIZES,
        flood_models,
    ),
    Attack(
        "lone surrogates",
        "half a surrogate pair in each place of a report",
        "text that can't be told is refused",
        send_surrogates,
    ),
    Attack(
        "bodies without end",
        f"{WRITERS} connections that send 100 MB each in chunks",
        "the size of a body",
        never_end,
    ),
    Attack(
        "bad HEADs",
        "16 connections with a HEAD whose body is none, or that goes on behind its end",
        "the parser; a request that ends in two ways is the last one",
        send_bad_heads,
    ),
    Attack(
        "every path",
        "16 clients that ask for every path that anybody may ask for, over and over",
        "what is costly is made once; pages in a pool of few threads",
        ask_every_path,
    ),
    Attack(
        "description unread",
        "500 clients that ask for `/openapi.json` without end and read none",
        "it is made once; the time to take an answer",
        leave_the_description,
    ),
    Attack(
        "rebound host",
        "a browser on this node asks under the name of another site",
        "the hosts that are answered",
        rebind,
    ),
    Attack(
        "authority dropped",
        "a reload without `tls_client_ca`, then reports from elsewhere",
        "what a connection itself has shown",
        write_after_reload,
        with_authority,
    ),
)
