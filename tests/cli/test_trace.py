"""`trace`: whom it asks."""

from __future__ import annotations

import socket

import pytest

from tests.helpers.in_process import call


def test_the_agent_that_jobs_report_to_is_not_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        url = f"http://127.0.0.1:{elsewhere.getsockname()[1]}"
        call("trace", "1", env={"OFU_EXPORTER_URL": url})
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
