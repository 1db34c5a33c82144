"""`trace`: whom it asks, and what it makes of a refusal."""

from __future__ import annotations

import json
import socket

import pytest

from tests.helpers.in_process import call
from tests.helpers.quiet_server import QuietHandler, answering


def test_the_agent_that_jobs_report_to_is_not_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        url = f"http://127.0.0.1:{elsewhere.getsockname()[1]}"
        call("trace", "1", env={"OFU_EXPORTER_URL": url})
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


@pytest.mark.parametrize(
    ("status", "detail", "told"),
    [
        (404, "Not Found", "traces are off there (run --traces)"),
        (405, "Method Not Allowed", "traces are off there (run --traces)"),
        (404, "no job 1 is on this node", "no job 1 is on this node"),
        (422, [{"msg": "too many"}, {"msg": "too long"}], "too many; too long"),
    ],
)
def test_a_refusal_says_why(status: int, detail: object, told: str) -> None:
    class Refuses(QuietHandler):
        def do_POST(self) -> None:
            self.sent()
            self.reply(json.dumps({"detail": detail}).encode(), status)

    with answering(Refuses) as agent:
        assert call("trace", "1", "--agent", agent.url).stderr.endswith(f": {told}\n")
