"""A thousand reports a second at one agent on one core, and floods that mean it harm.

    python -m tests.bench.reports [SECONDS [NAME...]]

The agent runs on the first core that this process may use, everything else on the others. Every line of the table is
of some seconds, by default of all that is in WORK. Run by hand.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.schedulers.slurm import job_files
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.support.boot import boot_id
from ofu_exporter.values.job import Claim, Job
from tests.bench.process import cpu_seconds, resident_mib
from tests.helpers.agent import COMMAND, Agent, agent, until

GPUS = 8
CONNECTIONS = 64
RATE = 1000.0
SCRAPES_PER_SECOND = 20.0
Body = Callable[[int], bytes]
Statuses = Counter[int]
"""Of the answers; 0 = the connection was closed without one."""
Work = Callable[..., Coroutine[None, None, Statuses]]


class Used(NamedTuple):
    """What the agent has used until now."""

    at: float
    cpu_seconds: float
    peak_mib: float


def used(running: Agent) -> Used:
    pid = running.process.pid
    return Used(time.monotonic(), cpu_seconds(pid), resident_mib(pid, "VmHWM"))


def covered(running: Agent) -> tuple[float, float]:
    """GPU-seconds that jobs held, and those of them in which OFU was measured."""
    held = math.fsum(running.values("ofu_job_held_gpu_seconds_total"))
    return held, math.fsum(running.values("ofu_job_gpu_seconds_total"))


def request(body: bytes, length: int | None = None) -> bytes:
    """A POST as it goes over the wire."""
    head = (
        "POST /v1/mfu HTTP/1.1\r\nHost: agent\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body


def report(number: int) -> bytes:
    """What a training loop says after a step; of the job that this connection is of."""
    said = {
        "job_id": str(number % GPUS + 1),
        "mfu": round(random.uniform(0.2, 0.3), 4),
        "step": number,
        "gpus": 1,
        "precision": "bf16",
        "framework": "megatron",
    }
    return json.dumps(said).encode()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes) -> int:
    """Send a request and take its answer; the status."""
    writer.write(sent)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    await reader.readexactly(length)
    return int(head[9:12])


async def speak(number: int, port: int, body: Body, until_: float, pace: float) -> Counter[int]:
    """One connection that reports for as long as it is told, `pace` seconds from one report to the next."""
    outcomes: Counter[int] = Counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    due = time.monotonic() + random.uniform(0, pace)
    while time.monotonic() < until_:
        await asyncio.sleep(max(due - time.monotonic(), 0) if pace else 0)
        due += pace
        try:
            outcomes[await ask(reader, writer, request(body(number)))] += 1
        except (OSError, asyncio.IncompleteReadError):
            outcomes[0] += 1
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        number += CONNECTIONS
    writer.close()
    return outcomes


def stranger(number: int) -> bytes:
    """A report of one of ten thousand jobs that are not here."""
    return json.dumps({"job_id": f"x{number % 10_000}", "mfu": 0.4}).encode()


def wide(number: int) -> bytes:
    """A quarter of a megabyte of fields that there are none of."""
    return json.dumps({f"x{number}-{field}": 1 for field in range(14_000)}).encode()


async def load(port: int, body: Body, seconds: float, rate: float = 0.0) -> Counter[int]:
    """All connections; statuses of the answers. `rate`: reports a second; 0 = as many as there can be."""
    pace = CONNECTIONS / rate if rate else 0.0
    end = time.monotonic() + seconds
    speakers = (speak(number, port, body, end, pace) for number in range(CONNECTIONS))
    return sum(await asyncio.gather(*speakers), Counter[int]())


async def send_large(port: int, seconds: float) -> Counter[int]:
    """Connections that say they send 100 MB, and send it as long as they are let."""
    end = time.monotonic() + seconds

    async def one() -> Counter[int]:
        outcomes: Counter[int] = Counter()
        while time.monotonic() < end:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request(b"", 100 << 20))
            status = 0
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                for _ in range(100):
                    writer.write(b" " * (1 << 20))
                    await writer.drain()
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                status = int((await reader.readuntil(b"\r\n"))[9:12])
            outcomes[status] += 1
            writer.close()
        return outcomes

    return sum(await asyncio.gather(*(one() for _ in range(CONNECTIONS))), Counter[int]())


async def drip(port: int, seconds: float) -> Counter[int]:
    """A thousand connections that send a byte of a body a second, and begin anew when they are closed."""
    end = time.monotonic() + seconds

    async def one() -> Counter[int]:
        outcomes: Counter[int] = Counter()
        while time.monotonic() < end:
            status = 0
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request(b"{", 1000))
                answer = asyncio.ensure_future(reader.readuntil(b"\r\n"))
                while not answer.done() and time.monotonic() < end:
                    await asyncio.wait([answer], timeout=1.0)
                    writer.write(b" ")
                answer.cancel()
                writer.close()
                status = int((await answer)[9:12]) if not answer.cancelled() else 0
            outcomes[status] += 1
        return outcomes

    drips = (one() for _ in range(1000))
    found = await asyncio.gather(*drips, return_exceptions=True)
    return sum((each for each in found if isinstance(each, Counter)), Counter[int]())


def scrape(port: int, seconds: float) -> None:
    """Get /metrics again and again, and print how long each took, in seconds; for a process of its own.

    It goes before the load that it shares a core with: the agent is measured, not the wait for that core.
    """
    with contextlib.suppress(PermissionError):
        os.nice(-15)
    end = time.monotonic() + seconds
    taken = []
    while time.monotonic() < end:
        began, body = time.perf_counter(), b""
        with contextlib.suppress(ConnectionResetError):
            body = get(port)
        whole = body.startswith(b"HTTP/1.1 200 ")
        taken.append(time.perf_counter() - began if whole else math.inf)
        time.sleep(1 / SCRAPES_PER_SECOND)
    print(json.dumps(taken))


def get(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(
            b"GET /metrics HTTP/1.1\r\nHost: agent\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
        )
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@contextlib.contextmanager
def scraping(port: int, seconds: float) -> Iterator[list[float]]:
    """How long every scrape took meanwhile; complete at the end."""
    command = [sys.executable, "-m", "tests.bench.reports", "scrape", str(port), str(seconds)]
    taken: list[float] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield taken
        taken += json.loads(process.communicate()[0])
    taken.sort()


def measure(
    running: Agent,
    name: str,
    seconds: float,
    work: Callable[[int], Coroutine[None, None, Statuses]],
) -> None:
    """Do the work, and print one line of the table."""
    port = int(running.url.rpartition(":")[2])
    before, (held, observed) = used(running), covered(running)
    with scraping(port, seconds) as taken:
        statuses = asyncio.run(work(port))
    after, (held_after, observed_after) = used(running), covered(running)
    elapsed = after.at - before.at
    accepted = statuses[200]
    cpu = after.cpu_seconds - before.cpu_seconds
    answers = sum(statuses.values())
    per = f"{1e6 * cpu / answers:.0f}" if answers else ""
    came = [each for each in taken if math.isfinite(each)]
    p50, p99 = (1e3 * came[int(len(came) * share)] for share in (0.5, 0.99))
    held_meanwhile = held_after - held  # 0 in less than a window
    coverage = f"{(observed_after - observed) / held_meanwhile:.3f}" if held_meanwhile else ""
    told = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
    print(
        f"| {name} | {accepted / elapsed:.0f} | {told} | {100 * cpu / elapsed:.0f} % | {per} | {p50:.2f} "
        f"| {p99:.2f} | {len(taken) - len(came)} of {len(taken)} | {after.peak_mib:.1f} | {coverage} |",
        flush=True,
    )


async def nothing(port: int, seconds: float) -> Counter[int]:
    """What it is measured beside."""
    await asyncio.sleep(seconds)
    return Counter()


WORK: dict[str, Work] = {
    "no reports": nothing,
    "200 a second": partial(load, body=report, rate=200.0),
    "1,000 a second": partial(load, body=report, rate=RATE),
    "as many as it takes": partial(load, body=report),
    "10,000 job ids": partial(load, body=stranger),
    "bodies of 250 kB": partial(load, body=wide, rate=50.0),
    "bodies of 100 MB": send_large,
    "1,000 slow connections": drip,
}
HEAD = (
    "| what | accepted/s | answers | agent CPU | µs each | /metrics p50 ms | p99 ms | cut off "
    "| peak RSS MiB | coverage |\n|---|---|---|---|---|---|---|---|---|---|"
)


def give(folder: Path) -> None:
    """One job on every GPU."""
    for gpu in range(GPUS):
        job = Job("slurm", str(gpu + 1), name="train", started=float(int(time.time())))
        job_files.write(folder, JobFile(Claim(job, (str(gpu),)), None, boot_id()))


def main(seconds: float, names: Sequence[str]) -> None:
    first, *others = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        jobs = Path(folder) / "jobs"
        jobs.mkdir(mode=0o755)
        give(jobs)
        flags = [
            *("run", "--source", "simulate", "--simulated-gpus", str(GPUS)),
            *("--scheduler", "slurm", "--job-dir", str(jobs), "--slurm-poll", "1s"),
            *("--state-file", str(Path(folder) / "state.sqlite")),
        ]
        with agent(*flags, command=COMMAND) as running:
            for task in Path(f"/proc/{running.process.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {first})
            os.sched_setaffinity(0, {*others} or {first})
            until(lambda: covered(running)[1] > 10 * GPUS, 60)
            print(HEAD, flush=True)
            for name in names or WORK:
                measure(running, name, seconds, partial(WORK[name], seconds=seconds))


if __name__ == "__main__":
    if sys.argv[1:2] == ["scrape"]:
        scrape(int(sys.argv[2]), float(sys.argv[3]))
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0, sys.argv[2:])
