"""A dcgm-exporter made up: its page, whose values change once per collection, as text and over real HTTP.

A page has no time stamps. Activity is the mean since the collection before, the clock one read at the collection,
as DCGM gives them to dcgm-exporter; a value is there until the next replaces it.
"""

from __future__ import annotations

import socket
from bisect import bisect_right
from collections.abc import Callable, Sequence

from tests.helpers.quiet_server import QuietHandler, StoppedServer
from tests.simulator.curve import Curve
from tests.simulator.score import Span

MODEL = "NVIDIA H100 80GB HBM3"
ROWS = {
    "DCGM_FI_DEV_SM_CLOCK": "SM clock frequency (in MHz).",
    "DCGM_FI_DEV_POWER_USAGE": "Power draw (in W).",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "Total energy consumption since boot (in mJ).",
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "Ratio of cycles the tensor (HMMA) pipe is active.",
}
PHASE = 0.437
"""When in its interval it collects."""


def collections(interval: float) -> list[float]:
    """When it collects, in seconds of the load."""
    return [(k + PHASE) * interval for k in range(round(900 / interval))]


class Pages:
    """The page as of an instant that the test moves."""

    def __init__(self, curves: Sequence[Curve], interval: float, now: Callable[[], float]) -> None:
        self._curves = curves
        self._now = now
        self._collections = collections(interval)
        self._gone: list[Span] = []
        self._restarted_at = -1.0
        self._pages: dict[int, str] = {}

    def restart(self, outage: Span) -> None:
        """It does not answer then, and knows nothing afterwards of what was before."""
        self._gone.append(outage)
        self._restarted_at = outage.end

    def delay(self, seconds: Callable[[], float]) -> None:
        """Each collection comes later by these seconds; its mean is over the time that it took."""
        self._collections = [at + seconds() for at in self._collections]

    def lose(self, within: Span, lost: Callable[[], bool]) -> list[Span]:
        """It does not answer while some of its values are there; returns what they were about."""
        known: list[Span] = []
        for before, at, after in zip(
            self._collections, self._collections[1:], self._collections[2:], strict=False
        ):
            if within.start < at < within.end and lost():
                self._gone.append(Span(at, after))
                known.append(Span(before, at))
        return known

    def page(self) -> str | None:
        """None while it does not answer."""
        now = self._now()
        if any(start <= now < end for start, end in self._gone):
            return None
        latest = bisect_right(self._collections, now) - 1
        if latest not in self._pages:
            self._pages = {latest: self._made(latest)}
        return self._pages[latest]

    def _made(self, latest: int) -> str:
        text = []
        for name, meaning in ROWS.items():
            text += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
            for gpu, curve in enumerate(self._curves):
                value = self._value(name, curve, latest)
                labels = (
                    f'gpu="{gpu}",UUID="GPU-{gpu:04d}",device="nvidia{gpu}",modelName="{MODEL}"'
                )
                if value is not None:
                    text.append(f'{name}{{{labels},Hostname="node"}} {value}')
        return "\n".join(text) + "\n"

    def _value(self, name: str, curve: Curve, latest: int) -> str | None:
        """None where it has none yet: a mean needs two collections."""
        at = self._collections[latest]
        before = self._collections[latest - 1]
        tensor = curve.tensor_active(before, at)
        if name == "DCGM_FI_DEV_SM_CLOCK":
            return str(curve.at(at).mhz)
        if name == "DCGM_FI_DEV_POWER_USAGE":
            return f"{90 + 550 * tensor:f}"
        if name == "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION":
            return str(round(1e6 + 90e3 * at + 0.3 * curve.done(at).tensor))
        if name == "DCGM_FI_DEV_GPU_UTIL":
            return str(round(100 * curve.busy(before, at)))
        return None if before < self._restarted_at <= at else f"{tensor:f}"


class PageServer:
    """Serves these pages."""

    def __init__(self, pages: Pages) -> None:
        self._server = StoppedServer(_handler(pages))
        self.url = f"{self._server.url}/metrics"
        self.close = self._server.stop


def _handler(pages: Pages) -> type[QuietHandler]:
    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one segment

        def setup(self) -> None:
            super().setup()
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def do_GET(self) -> None:
            page = pages.page()
            text = {"Content-Type": "text/plain; version=0.0.4"}
            self.reply((page or "").encode(), 200 if page is not None else 503, text)
            self.wfile.flush()

    return Handler
