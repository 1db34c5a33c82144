"""Where the agent listens: an address, with TLS if wanted, and a Unix socket that it leaves tidy."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.listeners import Listeners, listen, listen_unix, tls_context
from ofu_exporter.settings import Settings
from tests.helpers.certificates import Certificates


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "tls")


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    """asyncio sees to it only on a socket that names its protocol."""
    with listen("127.0.0.1:0") as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_an_address_in_use_is_named() -> None:
    with listen("127.0.0.1:0") as bound:
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"^cannot listen on {address}: "):
            listen(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_the_url_names_scheme_host_and_port(host: str, certificates: Certificates) -> None:
    if host == "[::1]" and not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback address")
    tls = {"tls_cert": certificates.cert, "tls_key": certificates.key}
    for scheme, extra in (("http", {}), ("https", tls)):
        listeners = Listeners(Settings.model_validate({"listen": f"{host}:0", **extra}))
        port = listeners.address.getsockname()[1]
        assert listeners.url == f"{scheme}://{host}:{port}"
        listeners.close()


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


# The Unix socket.


def test_everybody_on_the_node_may_connect(tmp_path: Path) -> None:
    path = tmp_path / "run" / "reports.sock"
    before = os.umask(0o077)
    try:
        with listen_unix(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o666
    finally:
        os.umask(before)


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
