"""An agent's `POST /v1/mfu` as the training job sees it: remembers reports, answers in the agent's form."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.doubles.agent_answer import PEAK_FLOPS, answer_of, refusal_of
from tests.helpers.quiet_server import QuietHandler, answering

Answer = tuple[int, dict[str, Any] | bytes, dict[str, str]]
"""Status, body, headers."""


def accepted(report: dict[str, Any], ofu: float = 0.4) -> Answer:
    """What an agent says whose GPUs have the same OFU all the time, of an H100."""
    mfu = report.get("mfu", report.get("tflops_per_gpu", 0.0) * 1e12 / PEAK_FLOPS)
    return 200, answer_of(report, mfu, ofu), {}


def refused(status: int, kind: str, field: str, text: str, **headers: str) -> Answer:
    """A refusal that names a field."""
    body = refusal_of(status, kind, field, text)
    return status, body, {name.replace("_", "-"): v for name, v in headers.items()}


class ReportServer:
    """What was posted, and what is answered."""

    def __init__(self) -> None:
        self.url = ""
        self.reports: list[dict[str, Any]] = []
        self.tokens: list[str | None] = []
        self.answer: Callable[[dict[str, Any]], Answer] = accepted


@contextlib.contextmanager
def report_server() -> Iterator[ReportServer]:
    state = ReportServer()

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            assert self.path == "/v1/mfu"
            assert self.headers["Content-Type"] == "application/json"
            report = json.loads(self.sent())
            status, answer, headers = state.answer(report)
            state.tokens.append(self.headers["Authorization"])
            state.reports.append(report)
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.reply(content, status, {**headers, "Content-Type": "application/json"})

    with answering(Handler) as server:
        state.url = server.url
        yield state
