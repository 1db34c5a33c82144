"""Attacks by another exporter's page: of thousands of GPUs, without end, or byte by byte."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.attacks.attack import Attack
from tests.attacks.target import GPUS, PACE, Setup
from tests.helpers.quiet_server import QuietHandler, answering

COLLECT_SECONDS = 1.0
UNKNOWN = 3000
ROWS = (
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0.4{digit}"),
    ("DCGM_FI_DEV_SM_CLOCK", "14{digit}0"),
    ("DCGM_FI_DEV_POWER_USAGE", "4{digit}0.5"),
)
MODEL = "NVIDIA H100 80GB HBM3"


def pages(gpus: int) -> list[bytes]:
    """Ten pages, which come one after the other; on each all values are others."""
    return [
        "".join(
            f'{name}{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="{MODEL}"}} {value.format(digit=digit)}\n'
            for name, value in ROWS
            for gpu in range(gpus)
        ).encode()
        for digit in range(10)
    ]


def whole(made: list[bytes]) -> Iterator[bytes]:
    """The page of the collection that is now."""
    yield made[int(time.monotonic() / COLLECT_SECONDS) % len(made)]


def without_end() -> Iterator[bytes]:
    line = pages(1)[0]
    while True:
        yield line * 1000


def in_drops() -> Iterator[bytes]:
    for byte in pages(GPUS)[0]:
        yield bytes([byte])
        time.sleep(0.5)


def with_page(
    pieces: Callable[[], Iterable[bytes]], has_counters: bool = True
) -> Callable[[Path, ExitStack], Setup]:
    """An agent that reads such a page."""

    def setup(folder: Path, stack: ExitStack) -> Setup:
        handler = partial(_Handler, pieces)
        url = f"{stack.enter_context(answering(handler)).url}/metrics"
        source = ["--source", "dcgm-exporter", "--url", url]
        source += ["--collect-interval", f"{COLLECT_SECONDS}s"]
        return Setup([*source, "--scheduler", "none", *PACE], has_counters=has_counters)

    return setup


class _Handler(QuietHandler):
    def __init__(self, pieces: Callable[[], Iterable[bytes]], *given: object) -> None:
        self._pieces = pieces
        super().__init__(*given)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        try:
            for piece in self._pieces():
                self.wfile.write(piece)
        except OSError:
            return  # the agent has had enough


ATTACKS = (
    Attack(
        "page: nothing",
        f"a page of {GPUS} GPUs, to compare with",
        "-",
        setup=with_page(partial(whole, pages(GPUS))),
    ),
    Attack(
        "page: unknown GPUs",
        f"a page of {GPUS + UNKNOWN:,} GPUs",
        "the GPUs of a page",
        setup=with_page(partial(whole, pages(GPUS + UNKNOWN))),
    ),
    Attack(
        "page: without end",
        "a page that goes on",
        "the size of a page",
        setup=with_page(without_end, has_counters=False),
    ),
    Attack(
        "page: in drops",
        "a page that comes a byte each half second",
        "the time for a page",
        setup=with_page(in_drops, has_counters=False),
    ),
)
