"""The rules of TLS hold in real handshakes, and two ways to set it are never mixed."""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving import tls
from ofu_exporter.serving.listeners import tls_context
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.serving.web_config import WebConfig, read_web_config
from ofu_exporter.settings import Settings
from ofu_exporter.support.patience import within
from ofu_exporter.support.small_files import read_secret, read_small
from tests.helpers.agent import SOON
from tests.helpers.certificates import Certificates
from tests.helpers.every import every
from tests.helpers.passwords import web_file
from tests.helpers.server import behind, serving, tell


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "tls")


def web_of(certificates: Certificates, **extra: Any) -> WebConfig:
    """The files by names relative to the configuration's own folder."""
    path = certificates.cert.parent / "web.yml"
    files = {"cert_file": certificates.cert.name, "key_file": certificates.key.name}
    return read_web_config(web_file(path, tls_server_config={**files, **extra}))


def seen(web: WebConfig, context: ssl.SSLContext) -> tuple[str, str]:
    """Version and cipher suite of a real connection."""
    with (
        serving(behind(ReadAccess(web).check, tell), web=web) as listeners,
        httpx.Client(verify=context) as client,
        client.stream("GET", listeners.url) as answer,
    ):
        assert answer.status_code == 200
        connection = answer.extensions["network_stream"].get_extra_info("ssl_object")
        return connection.version(), connection.cipher()[0]


def test_versions_and_suites_are_those_of_the_file(certificates: Certificates) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    web = web_of(certificates, max_version="TLS12", cipher_suites=[suite])
    assert seen(web, certificates.context(False)) == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")


def test_an_older_version_than_the_least_is_refused(certificates: Certificates) -> None:
    old = certificates.context(False)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(httpx.ConnectError):
        seen(web_of(certificates, min_version="TLS13"), old)


def test_a_certificate_is_demanded_or_looked_at_if_given(
    certificates: Certificates, tmp_path: Path
) -> None:
    forged = certificates.context(False)
    forged.load_cert_chain(Certificates(tmp_path / "stranger").client)
    for kind, without_may_enter in (
        ("RequireAndVerifyClientCert", False),
        ("VerifyClientCertIfGiven", True),
    ):
        web = web_of(certificates, client_auth_type=kind, client_ca_file=str(certificates.ca))
        assert seen(web, certificates.context(True))[0] == "TLSv1.3"
        with pytest.raises(httpx.HTTPError):
            seen(web, forged)
        if without_may_enter:
            assert seen(web, certificates.context(False))[0] == "TLSv1.3"
        else:
            with pytest.raises(httpx.HTTPError):
                seen(web, certificates.context(False))


def test_tls_by_flags_and_by_the_file_is_a_contradiction(certificates: Certificates) -> None:
    settings = Settings(tls_cert=certificates.cert, tls_key=certificates.key)
    with pytest.raises(ConfigError, match=r"TLS is set twice: by --tls-cert and by .*web\.yml"):
        tls_context(settings, web_of(certificates))


@pytest.mark.parametrize("name", ["cert", "key", "ca"])
def test_a_file_that_is_replaced_by_a_pipe_just_then_holds_nothing_up(
    certificates: Certificates, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read is what counts: nothing opens the file a second time, and would wait for somebody who writes."""
    file = getattr(certificates, name)

    def replaced(read: Callable[..., str]) -> Callable[..., str]:
        def then(path: Path, *given: Any) -> str:
            text = read(path, *given)
            if path == file:
                path.unlink()
                os.mkfifo(path, 0o600)
            return text

        return then

    monkeypatch.setattr(tls, "read_small", replaced(read_small))
    monkeypatch.setattr(tls, "read_secret", replaced(read_secret))
    files = tls.TlsFiles(certificates.cert, certificates.key, certificates.ca, ssl.CERT_REQUIRED)
    context = within(SOON, "context", lambda: tls.make_context(files))
    assert stat.S_ISFIFO(file.stat().st_mode)
    assert context.get_ca_certs()


@pytest.mark.parametrize("name", ["cert", "key", "ca"])
def test_a_pipe_is_refused(certificates: Certificates, name: str) -> None:
    file = getattr(certificates, name)
    file.unlink()
    os.mkfifo(file, 0o600)
    files = tls.TlsFiles(certificates.cert, certificates.key, certificates.ca, ssl.CERT_REQUIRED)
    with pytest.raises(ConfigError, match=f"{file.name}: it is not a file"):
        within(SOON, "context", lambda: tls.make_context(files))


@pytest.mark.parametrize(("name", "what"), [("cert", "certificate"), ("ca", "client authority")])
def test_a_file_that_holds_no_certificate_is_named(
    certificates: Certificates, name: str, what: str
) -> None:
    file = getattr(certificates, name)
    file.write_text("none")
    files = tls.TlsFiles(certificates.cert, certificates.key, certificates.ca, ssl.CERT_REQUIRED)
    with pytest.raises(ConfigError, match=f"TLS {what} {file}"):
        tls.make_context(files)


@every(["", "a\nb", "ä\0", "x" * (3 << 20)])
def test_the_text_is_there_while_the_block_runs_and_gone_afterwards(text: str) -> None:
    with tls.in_memory(text) as path:
        assert Path(path).read_text("utf-8") == text
        assert Path(path).read_text("utf-8") == text, "once more, from its begin"
        assert "ofu-exporter" in str(Path(path).readlink())
    assert not Path(path).exists()


def test_two_texts_do_not_mix() -> None:
    with tls.in_memory("a") as first, tls.in_memory("b") as second:
        assert (Path(first).read_text(), Path(second).read_text()) == ("a", "b")


@pytest.mark.parametrize("own", [True, False])
def test_whose_order_of_suites_counts_is_as_told(certificates: Certificates, own: bool) -> None:
    files = tls.TlsFiles(certificates.cert, certificates.key, prefers_own_order=own)
    options = tls.make_context(files).options
    assert bool(options & ssl.OP_CIPHER_SERVER_PREFERENCE) == own


@pytest.mark.parametrize("year", [2026, 2049, 2050, 2068, 2100, 9999])
def test_the_end_is_that_of_the_first_certificate_in_either_form_of_times(year: int) -> None:
    end, authority = datetime(year, 3, 4, 5, 6, 7, tzinfo=timezone.utc), trustme.CA()
    chain = (
        authority.issue_cert("a.example", not_after=end).cert_chain_pems[0],
        authority.cert_pem,
    )
    text = "Subject: a\n" + "".join(each.bytes().decode() for each in chain)
    assert tls.expires(text) == end.timestamp()
    assert tls.expires(text.replace(text[40:400], "")) is None


def test_a_certificate_that_has_ended_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    context = tls.ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.certificate, context.expires = Path("node.pem"), 100.0
    for now in (99.0, 101.0, 102.0):
        context.warn_once(now)
    assert [record.message for record in caplog.records] == [
        "TLS certificate node.pem has expired: whoever checks it cannot connect"
    ]


@every(tls.CIPHERS)
def test_a_suite_is_the_one_that_openssl_calls_so(name: str) -> None:
    """RFC 8422's name, as Go has it, without what OpenSSL leaves out."""
    openssl = name.removeprefix("TLS_").replace("_WITH", "").replace("_CBC", "").replace("_", "-")
    openssl = openssl.replace("AES-", "AES").replace("POLY1305-SHA256", "POLY1305")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(tls.CIPHERS[name])
    assert openssl in [each["name"] for each in context.get_ciphers()]
    assert tls.CIPHERS[name] == openssl


def test_suites_are_those_that_go_takes() -> None:
    """crypto/tls: CipherSuites, without those that exchange keys by RSA."""
    of_keys = [f"TLS_ECDHE_{kind}_WITH_" for kind in ("ECDSA", "RSA")]
    ways = ["AES_128_CBC_SHA", "AES_256_CBC_SHA", "AES_128_GCM_SHA256", "AES_256_GCM_SHA384"]
    ways.append("CHACHA20_POLY1305_SHA256")
    assert {*tls.CIPHERS} == {kind + way for kind in of_keys for way in ways}
    assert {*tls.TLS13_CIPHERS} == {f"TLS_{way}" for way in (*ways[2:],)}


def test_flags_of_tls_without_a_certificate_are_refused(tmp_path: Path) -> None:
    for name in ("tls_key", "tls_client_ca"):
        with pytest.raises(ConfigError) as caught:
            tls.tls_of_settings(Settings.model_validate({name: tmp_path / "x"}))
        assert str(caught.value) == "--tls-key and --tls-client-ca need --tls-cert"


@pytest.mark.parametrize("name", ["cert", "key", "client_ca"])
def test_a_file_of_tls_that_is_not_there_is_named_by_its_use(
    certificates: Certificates, name: str
) -> None:
    files = tls.TlsFiles(certificates.cert, certificates.key, certificates.cert)
    uses = {"cert": "TLS certificate", "key": "TLS key", "client_ca": "TLS client authority"}
    gone: dict[str, Any] = {name: Path("/nowhere.pem")}
    with pytest.raises(ConfigError) as caught:
        tls.make_context(replace(files, **gone))
    assert str(caught.value).startswith(f"{uses[name]} /nowhere.pem: ")
