"""Makes one attack on a fresh agent, scrapes that agent meanwhile, and tells what was seen."""

from __future__ import annotations

import asyncio
import json
import math
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, cast

from prometheus_client.parser import text_string_to_metric_families

from tests.attacks.attack import Attack
from tests.attacks.memory_limit import MemoryLimit
from tests.attacks.target import GPUS, STOP_SECONDS, NotStartedError, Target, target

READY_SECONDS = 15.0
"""How long the GPUs are waited for, before the attack and after it."""


class Seen(NamedTuple):
    """What one attack did."""

    rss_mib: float
    scrapes: int
    failed_scrapes: int
    p99_seconds: float
    """Infinite where more than one in a hundred had no answer."""
    coverage: float | None
    """Of the GPU that was observed least; NaN where no page in the end says so, None where there are no counters."""
    log_bytes_per_minute: float
    server_errors: int
    tracebacks: int
    stop_seconds: float
    """From SIGTERM to the end of the process; infinite where it had to be killed."""
    let_in: str


class Observed(NamedTuple):
    """How long each GPU had been observed, and up to when (Unix time), by its uuid."""

    seconds: dict[str, float]
    until: dict[str, float]


TRACEBACK = "Traceback (most recent call last)"


def measured(
    attack: Attack,
    seconds: float,
    folder: Path,
    memory: MemoryLimit | None = None,
    *,
    may_be_warm: bool = False,
) -> Seen:
    """Attack a fresh agent for some seconds, in a control group if one is given.

    One that does not even start answers nothing and measures nothing.
    """
    try:
        return _measured(attack, seconds, folder, memory, may_be_warm)
    except NotStartedError as error:
        log = str(error)
        return Seen(0.0, 1, 1, math.inf, 0.0, 0.0, 0, log.count(TRACEBACK), 0.0, "")


def _measured(
    attack: Attack, seconds: float, folder: Path, memory: MemoryLimit | None, may_be_warm: bool
) -> Seen:
    with ExitStack() as stack:
        setup = attack.setup(folder, stack)
        setup.memory, setup.may_be_warm = memory, may_be_warm
        agent = stack.enter_context(target(setup, folder))
        before = observed_after(agent, 0.0) if setup.has_counters else None
        logged, began = agent.log_bytes(), time.monotonic()
        with Attacker(attack, agent):
            times = scraped(agent, seconds)
            coverage = covered(agent, before) if setup.has_counters else None
            rss = agent.rss_mib()
            errors = server_errors(agent)
            minutes = (time.monotonic() - began) / 60
            log_rate = (agent.log_bytes() - logged) / minutes
            stop = stopped(agent)
    failed = sum(math.isinf(each) for each in times)
    return Seen(
        rss_mib=rss,
        scrapes=len(times),
        failed_scrapes=failed,
        p99_seconds=sorted(times)[math.ceil(0.99 * len(times)) - 1],
        coverage=coverage,
        log_bytes_per_minute=log_rate,
        server_errors=errors,
        tracebacks=agent.log().count(TRACEBACK),
        stop_seconds=stop,
        let_in=", ".join(f"{what} ({count})" for what, count in agent.let_in.items()),
    )


class Attacker:
    """The attack, on an event loop and a thread of its own until the block ends."""

    def __init__(self, attack: Attack, agent: Target) -> None:
        self._loop = asyncio.new_event_loop()
        work = cast("Coroutine[Any, Any, None]", attack.run(agent))
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(lambda _: self._loop.stop())
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()
        # A coroutine that ends by an error of its own is a broken attack, and must not look like a repelled one.
        try:
            if not self._task.cancelled():
                self._task.result()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


def scraped(agent: Target, seconds: float) -> list[float]:
    """How long each scrape took, beside the attack; infinite where there was no page."""
    setup = agent.setup
    files = [str(each) for each in (setup.ca, setup.certificate) if each is not None]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.attacks.scraper"),
            *(agent.url, str(seconds), setup.scraper, setup.authorization, *files),
        ],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    agent.statuses.update(status for status, _ in lines)
    return [taken if status == 200 else math.inf for status, taken in lines]


def observed(page: str) -> Observed:
    """What a page says of each GPU. No other line is parsed: whoever waits asks often."""
    found = Observed({}, {})
    where = {
        "ofu_gpu_observed_seconds_total": found.seconds,
        "ofu_gpu_sample_timestamp_seconds": found.until,
    }
    those = "\n".join(line for line in page.split("\n") if line.startswith(tuple(where)))
    for family in text_string_to_metric_families(those):
        for sample in family.samples:
            where[sample.name][sample.labels["uuid"]] = sample.value
    return found


def observed_after(agent: Target, unix: float) -> Observed | None:
    """What the page says once all GPUs have a window that ends after this, or what it says in the end, if anything."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        page = agent.get()
        now = observed(page.body if page.status == 200 else "")
        late = [each for each in now.until.values() if each > unix]
        if len(late) >= GPUS or time.monotonic() > deadline:
            return now if page.status == 200 else None
        time.sleep(0.1)


def covered(agent: Target, before: Observed | None) -> float:
    """Share of the time that was observed since `before`, of the GPU of which that is least; NaN without a page.

    The time ends with the GPU's own last window, where that ended after the attack; else now.
    """
    asked = time.time()
    after = observed_after(agent, asked)
    if after is None:
        return math.nan
    if before is None or len(before.until) < GPUS:
        return 0.0
    shares = []
    for uuid, since in before.until.items():
        last = after.until.get(uuid, 0.0)
        end = last if last > asked else time.time()
        seconds = after.seconds.get(uuid, 0.0) - before.seconds.get(uuid, 0.0)
        shares.append(max(seconds, 0.0) / (end - since))
    return min(shares)


def server_errors(agent: Target) -> int:
    """Answers of 500 and above: those that were got, or those that the agent counted, whichever are more.

    A probe's 503 says that windows are late, and is no error.
    """
    got = sum(count for status, count in agent.statuses.items() if status >= 500 and status != 503)
    counted = re.findall(
        r'^ofu_exporter_http_requests_total\{(?!.*path="/(?:healthz|readyz|-/)).*code="5..".*\} (\S+)$',
        agent.get().body,
        re.MULTILINE,
    )
    return max(got, round(sum(map(float, counted))))


def stopped(agent: Target) -> float:
    """How long the agent takes to obey SIGTERM, while the attack goes on."""
    began = time.monotonic()
    agent.process.send_signal(signal.SIGTERM)
    try:
        agent.process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        return math.inf
    return time.monotonic() - began
