"""The server on both listeners: who gets through the address with TLS, and who through the Unix socket."""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial
from pathlib import Path

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from ofu_exporter.serving.access import Access
from ofu_exporter.serving.app import watch
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.page import Page
from tests.helpers.certificates import Certificates
from tests.helpers.server import Client, behind, post, serving, tell
from tests.helpers.values import FakeClock


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "tls")


def test_reports_come_in_by_the_unix_socket_which_goes_with_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "reports.sock"
    with (
        serving(behind(Guard(Access()).check, tell), report_socket=path),
        Client(str(path)) as client,
    ):
        client.send(post(2), b"{}")
        assert client.answer()[2]["way"] == "local"
    assert not path.exists()


def test_tls_is_what_the_address_speaks_and_not_the_unix_socket(
    tmp_path: Path, certificates: Certificates
) -> None:
    path = tmp_path / "reports.sock"
    app = behind(Guard(Access()).check, tell)
    cert, key = certificates.cert, certificates.key
    with serving(app, report_socket=path, tls_cert=cert, tls_key=key) as listeners:
        assert listeners.url.startswith("https://127.0.0.1:")
        answer = httpx.post(listeners.url, json={}, verify=certificates.context(False))
        assert answer.json()["way"] == "local"
        with pytest.raises(httpx.HTTPError):
            httpx.get(listeners.url.replace("https", "http"))
        with Client(str(path)) as client:
            client.send(post(2), b"{}")
            assert client.answer()[2]["way"] == "local"


def test_without_a_certificate_nobody_is_let_in_where_one_is_demanded(
    certificates: Certificates, tmp_path: Path
) -> None:
    stranger = Certificates(tmp_path / "stranger")
    app = behind(Guard(Access()).check, tell)
    cert, key = certificates.cert, certificates.key
    with serving(app, tls_cert=cert, tls_key=key, tls_client_ca=certificates.ca) as listeners:
        context = certificates.context(True)
        assert httpx.post(listeners.url, json={}, verify=context).json()["way"] == "certificate"
        with pytest.raises(httpx.HTTPError):
            httpx.get(listeners.url, verify=certificates.context(False))
        forged = certificates.context(False)
        forged.load_cert_chain(stranger.client)
        with pytest.raises(httpx.HTTPError):
            httpx.get(listeners.url, verify=forged)


@pytest.mark.slow
def test_whoever_reads_no_answer_is_left_at_a_stop_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = threading.Event()

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await asyncio.sleep(0.3)  # the stop begins
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(2):
            body = bytes(32 << 20)
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    with caplog.at_level(logging.ERROR), serving(large) as listeners:
        client = Client(listeners)
        client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        begun.wait()
    with client:
        assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.slow
def test_what_takes_too_long_at_a_stop_is_answered_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = threading.Event()

    async def long(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await asyncio.Event().wait()

    app = behind(partial(watch, Page(FakeClock()), {"/metrics"}), long)
    with caplog.at_level(logging.ERROR), serving(app) as listeners:
        client = Client(listeners)
        client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert begun.wait(60)
    with client:
        assert not [record for record in caplog.records if record.exc_info]
