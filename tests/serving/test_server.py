"""Where the agent listens: an address, with TLS if wanted, and a Unix socket that it leaves tidy."""

from __future__ import annotations

import os
import socket
import ssl
import stat
from pathlib import Path

import httpx
import pytest
import trustme

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.access import Access
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.listeners import listen, listen_unix, tls_context
from ofu_exporter.settings import Settings
from tests.helpers.server import Client, post, serving, tell


class Certificates:
    """An authority, and what it has signed, in files."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.authority = trustme.CA()
        self.ca, self.cert, self.key, self.client = (
            path / name for name in ("ca.pem", "cert.pem", "key.pem", "client.pem")
        )
        self.authority.cert_pem.write_to_path(self.ca)
        self.renew()
        self.authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(
            self.client
        )

    def renew(self) -> None:
        issued = self.authority.issue_cert("127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(self.cert)
        self.key.unlink(missing_ok=True)
        self.key.touch(0o600)
        issued.private_key_pem.write_to_path(self.key)

    def context(self, with_certificate: bool) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if with_certificate:
            context.load_cert_chain(self.client)
        return context


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "tls")


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    """asyncio sees to it only on a socket that names its protocol."""
    with listen("127.0.0.1:0") as bound:
        assert bound.proto == socket.IPPROTO_TCP


# The Unix socket.


def test_everybody_on_the_node_may_connect(tmp_path: Path) -> None:
    path = tmp_path / "run" / "reports.sock"
    before = os.umask(0o077)
    try:
        with listen_unix(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
    finally:
        os.umask(before)


def test_reports_come_in_by_it_and_it_goes_with_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "reports.sock"
    with serving(Guard(Access()).around(tell), report_socket=path), Client(str(path)) as client:
        client.send(post(2), b"{}")
        assert client.answer()[2]["way"] == "local"
    assert not path.exists()


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "reports.sock"
    listen_unix(path).close()
    assert path.is_socket()
    listen_unix(path).close()


def test_a_socket_at_which_somebody_listens_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "reports.sock"
    with listen_unix(path):
        with pytest.raises(ConfigError, match="another program listens there"):
            listen_unix(path)
        assert path.is_socket()


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("data")
    link = tmp_path / "link"
    link.symlink_to(path)
    for there in (path, link):
        with pytest.raises(ConfigError, match=f"cannot listen on {there}: it is there"):
            listen_unix(there)
    assert path.read_text() == "data"


@pytest.mark.parametrize("name", ["x" * 120, "file/reports.sock"])
def test_a_path_that_cannot_be_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot listen on "):
        listen_unix(tmp_path / name)


# TLS.


def test_tls_is_what_the_address_speaks_and_not_the_unix_socket(
    tmp_path: Path, certificates: Certificates
) -> None:
    path = tmp_path / "reports.sock"
    app = Guard(Access()).around(tell)
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
    app = Guard(Access(demands_certificates=True)).around(tell)
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


def test_key_and_authority_need_a_certificate(certificates: Certificates) -> None:
    for setting in ({"tls_key": certificates.key}, {"tls_client_ca": certificates.ca}):
        with pytest.raises(ConfigError, match="need --tls-cert"):
            tls_context(Settings.model_validate(setting))


def test_a_file_that_has_to_hold_both_is_named_so(tmp_path: Path) -> None:
    missing = tmp_path / "both.pem"
    with pytest.raises(ConfigError, match=f"^TLS certificate and key {missing}: No such file"):
        tls_context(Settings(tls_cert=missing))


def test_files_that_do_not_do_are_named(certificates: Certificates, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("hello")
    text.chmod(0o600)
    good = {"tls_cert": certificates.cert, "tls_key": certificates.key}
    for wrong in ({"tls_cert": text}, {"tls_key": text}, {"tls_client_ca": text}):
        with pytest.raises(ConfigError, match=str(text)):
            tls_context(Settings.model_validate({**good, **wrong}))
    with pytest.raises(ConfigError, match="nowhere"):
        tls_context(Settings(tls_cert=tmp_path / "nowhere"))
    certificates.key.chmod(0o644)
    with pytest.raises(ConfigError, match="mode 0644"):
        tls_context(Settings.model_validate(good))
