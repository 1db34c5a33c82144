"""Serves the pages of a small fleet, made by the agent's own tick and page, whose time is the clock's."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence

from ofu_exporter.serving.page import Page
from ofu_exporter.values.job import Job
from tests.helpers.desk import Desk
from tests.helpers.node import EPOCH
from tests.helpers.quiet_server import QuietHandler, answering

GPUS = 2
WARM = 300.0
"""Seconds that the fleet has run before anybody scrapes it."""
WINDOW = 1.5
"""Seconds that a window has at least, so that all who scrape every two seconds find the same windows."""
Placed = tuple[Job, float, float | None]
"""A job on a whole node, the tensor activity of its GPUs, and the MFU that it reports there."""


class LiveNode:
    """A node that goes on by itself whenever it is asked for its page."""

    def __init__(self, placed: Placed | None) -> None:
        self._desk = Desk(GPUS)
        self._page = Page(self._desk.clock, process=False)
        self._placed = placed
        self._begin = time.monotonic() - WARM
        self._lock = threading.Lock()
        if placed:
            self._desk.give(placed[0], *map(str, range(GPUS)))
        while self._desk.clock.now < WARM:
            self._go_on(self._desk.clock.now + 10)

    def page(self) -> bytes:
        with self._lock:
            self._go_on(time.monotonic() - self._begin)
            return self._page.render().body

    def _go_on(self, until: float) -> None:
        seconds = until - self._desk.clock.now
        if seconds < WINDOW:
            return
        job, tensor, mfu = self._placed or (None, 0.0, None)
        start = self._desk.clock.now
        self._desk.run(seconds, tensor, window=seconds)
        if job and mfu is not None:
            self._desk.report(job.job_id, mfu=mfu, start=EPOCH + start, peak_tflops=989.43)
        self._page.publish(self._desk.shown)


@contextlib.contextmanager
def fleet(nodes: Sequence[Placed | None]) -> Iterator[list[str]]:
    """The addresses of nodes, each of which serves its /metrics: one port on as many loopback addresses."""
    by_host = {f"127.0.1.{number}": LiveNode(one) for number, one in enumerate(nodes, start=1)}

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            body = by_host[self.connection.getsockname()[0]].page()
            self.reply(body, headers={"Content-Type": "text/plain; version=0.0.4"})

    with answering(Handler, ("0.0.0.0", 0)) as server:
        yield [f"{host}:{server.server_port}" for host in by_host]
