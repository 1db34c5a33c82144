"""Reports go over one kept connection: TCP, TLS or a Unix socket, and never through a proxy."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import trustme

from ofu_exporter.client.channel import COMMAND_SECONDS, LONGEST_ANSWER, AgentAnswer, Channel
from tests.doubles.report_agent import Reply, report_agent
from tests.helpers.every import every

REPORT = {"job_id": "7", "mfu": 0.4, "start": 1000.0, "end": 1010.0}


def send(channel: Channel, token: str = "", **changed: float) -> AgentAnswer:
    return channel.post(json.dumps({**REPORT, **changed}).encode(), token)


def test_one_connection_is_kept() -> None:
    with report_agent() as agent:
        channel = Channel(agent.url, {})
        for moment in range(5):
            start = 1000.0 + 10 * moment
            assert send(channel, start=start, end=start + 10).status == 200
        channel.close()
    assert agent.connections == 1
    assert len(agent.reports) == 5


def test_a_connection_that_the_agent_closed_meanwhile_is_made_anew() -> None:
    with report_agent() as agent:
        agent.behave = lambda *_: Reply(content={}, last=True)
        channel = Channel(agent.url, {})
        assert [send(channel).status for _ in range(3)] == [200, 200, 200]
        channel.close()
    assert agent.connections == 3
    assert len(agent.reports) == 3


def test_a_unix_socket(tmp_path: Path) -> None:
    with report_agent(socket_path=tmp_path / "reports.sock") as agent:
        channel = Channel(agent.url, {})
        assert send(channel, "secret").status == 200
        channel.close()
    assert agent.headers[0]["authorization"] == "Bearer secret"


@pytest.mark.slow
@pytest.mark.parametrize("has_socket", [False, True])
def test_a_command_waits_for_a_busy_agent_longer_than_a_loop_does(
    has_socket: bool, tmp_path: Path
) -> None:
    def late(report: Mapping[str, object], _: Mapping[str, str]) -> None:
        time.sleep(3.0)

    with report_agent(socket_path=tmp_path / "reports.sock" if has_socket else None) as agent:
        agent.behave = late
        with pytest.raises(TimeoutError):
            send(Channel(agent.url, {}))
        channel = Channel(agent.url, {}, timeout=COMMAND_SECONDS)
        assert send(channel, start=1010.0, end=1020.0).status == 200
        channel.close()


def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with report_agent() as agent:
        channel = Channel(agent.url, {})
        assert send(channel).status == 200
        channel.close()


def test_an_agent_is_believed_by_the_named_authority_and_believes_the_certificate(
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(tls)
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    ours = authority.issue_cert("job@example.org")
    files = {name: tmp_path / name for name in ("ca", "certificate", "key")}
    authority.cert_pem.write_to_path(files["ca"])
    ours.cert_chain_pems[0].write_to_path(files["certificate"])
    ours.private_key_pem.write_to_path(files["key"])
    environ = {
        "OFU_EXPORTER_CA_FILE": str(files["ca"]),
        "OFU_EXPORTER_CERT_FILE": str(files["certificate"]),
        "OFU_EXPORTER_KEY_FILE": str(files["key"]),
    }
    with report_agent(tls=tls) as agent:
        channel = Channel(agent.url, environ)
        assert send(channel).status == 200
        channel.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            send(Channel(agent.url, {}))
        with pytest.raises(OSError):  # noqa: PT011 - an alert or a reset, as the agent's library likes
            send(Channel(agent.url, {"OFU_EXPORTER_CA_FILE": str(files["ca"])}))
    assert len(agent.reports) == 1


def test_an_authority_that_the_disk_did_not_give_in_time_is_read_again_for_the_first_report(
    tmp_path: Path,
) -> None:
    authority, tls, path = (
        trustme.CA(),
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
        tmp_path / "ca",
    )
    authority.issue_cert("localhost").configure_cert(tls)
    os.mkfifo(path)
    with report_agent(tls=tls) as agent:
        channel = Channel(agent.url, {"OFU_EXPORTER_CA_FILE": str(path)})
        path.open("w").close()  # whoever waits for it goes on
        path.unlink()
        authority.cert_pem.write_to_path(path)
        assert send(channel).status == 200
        channel.close()
        trustme.CA().cert_pem.write_to_path(path)
        with pytest.raises(ssl.SSLError):
            send(channel)


@every(
    ["ftp://localhost", "localhost:9846", "http://", "unix:relative", "http://[::1", "http://a:b"]
)
def test_a_url_that_leads_nowhere_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Channel(url, {})


def test_an_answer_that_is_no_http_or_without_end_is_an_error() -> None:
    endless = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (LONGEST_ANSWER + 2)
    with report_agent() as agent:
        for raw in (b"", b"\x00\xff\r\n\r\n", endless):
            agent.behave = lambda *_, raw=raw: Reply(raw=raw)
            with pytest.raises((http.client.HTTPException, OSError, ValueError)):
                send(Channel(agent.url, {}))


def test_the_agents_socket_is_preferred_where_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "reports.sock")
    monkeypatch.setattr("ofu_exporter.client.channel.SOCKETS", (str(tmp_path / "none"), path))
    channel = Channel(None, {})
    assert channel.where == "http://127.0.0.1:9846"
    with report_agent(socket_path=tmp_path / "reports.sock") as agent:
        assert channel.where == agent.url
        assert send(channel).status == 200
        channel.close()
    assert (
        Channel(None, {"OFU_EXPORTER_URL": "http://node1:9846/x/"}).where == "http://node1:9846/x/"
    )
