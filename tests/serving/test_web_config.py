"""The web configuration: the toolkit's own example is understood, and what cannot be obeyed is refused by name."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.web_config import MOST_COST, read_web_config
from tests.helpers.passwords import hashed, web_file

HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
"""The hash in the toolkit's docs/web-configuration.md."""
FILES = {"cert_file": "server.crt", "key_file": "server.key"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "web.yml"


def refusal(file: Path, **sections: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read_web_config(web_file(file, **sections))
    text = str(caught.value)
    assert str(file) in text
    assert "\n" not in text
    assert HASH not in text
    return text


def test_without_a_file_nothing_is_set() -> None:
    web = read_web_config(None)
    assert not web.users
    assert web.tls is None
    assert web.files == ()


def test_the_example_of_the_toolkit_is_understood(file: Path) -> None:
    """https://github.com/prometheus/exporter-toolkit, docs/web-config.yml; names of files follow the file's folder."""
    file.write_text(
        "# TLS and basic authentication configuration example.\n"
        "# TLS configuration.\n"
        "tls_server_config:\n"
        "  cert_file: server.crt\n"
        "  key_file: server.key\n"
        "# Usernames and passwords required to connect.\n"
        "# Passwords are hashed with bcrypt: see docs/web-configuration.md#about-bcrypt.\n"
        "basic_auth_users:\n"
        f"  alice: {HASH}\n"
        "  bob: $2y$10$hLqFl9jSjoAAy95Z/zw8Ye8wkdMBM8c5Bn1ptYqP/AXyV0.oy0S8m\n"
    )
    file.chmod(0o600)
    web = read_web_config(file)
    assert [*web.users] == ["alice", "bob"]
    assert web.users["alice"] == HASH.encode()
    assert web.tls is not None
    assert web.files == (file, file.parent / "server.crt", file.parent / "server.key")
    assert HASH not in repr(web)


def test_every_supported_key_of_tls_is_taken(file: Path) -> None:
    section = {
        **FILES,
        "client_auth_type": "RequireAndVerifyClientCert",
        "client_ca_file": "/elsewhere/ca.crt",
        "min_version": "TLS12",
        "max_version": "TLS12",
        "cipher_suites": ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        "prefer_server_cipher_suites": False,
    }
    tls = read_web_config(web_file(file, tls_server_config=section)).tls
    assert tls is not None
    assert tls.client_auth is ssl.CERT_REQUIRED
    assert tls.client_ca == Path("/elsewhere/ca.crt")
    assert tls.maximum is ssl.TLSVersion.TLSv1_2
    assert tls.ciphers == "ECDHE-RSA-AES128-GCM-SHA256"
    assert not tls.prefers_own_order


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"cert": "PEM"}, "cert is not supported: give the file"),
        ({"key": "PEM"}, "key is not supported"),
        ({"client_ca": "PEM"}, "client_ca is not supported"),
        ({"client_allowed_sans": ["x"]}, "client_allowed_sans is not supported"),
        ({"curve_preferences": ["X25519"]}, "curve_preferences is not supported"),
        ({"min_version": "TLS10"}, "min_version: Input should be 'TLS12' or 'TLS13'"),
        ({"min_version": "1.2"}, "min_version: Input should be 'TLS12' or 'TLS13'"),
        ({"min_version": "TLS13", "max_version": "TLS12"}, " min_version is above max_version"),
        ({"client_auth_type": "RequireAnyClientCert"}, "client_auth_type: Input should be 'NoCli"),
        ({"client_auth_type": "RequireAndVerifyClientCert"}, " client_ca_file and client_auth"),
        ({"client_ca_file": "ca.crt"}, " client_ca_file and client_auth_type"),
        ({"cipher_suites": ["TLS_RSA_WITH_RC4_128_SHA"]}, "cipher_suites.0: is one of"),
        ({"cipher_suites": "x"}, "cipher_suites: Input should be a valid list"),
        ({"prefer_server_cipher_suites": 1}, "prefer_server_cipher_suites: Input should be"),
        ({"cert_fil": "x"}, "cert_fil is not known; did you mean cert_file?"),
        ({"cert_file": 5}, "cert_file: Input should be a valid string"),
        ({"cert_file": "a\0b"}, "cert_file: String should match"),
        ({"key_file": ""}, "key_file is missing"),
    ],
)
def test_what_tls_cannot_obey_is_refused_by_name(
    file: Path, extra: dict[str, Any], named: str
) -> None:
    where = ":" if named.startswith(" ") else "."
    assert f"tls_server_config{where}{named}" in refusal(file, tls_server_config={**FILES, **extra})


@pytest.mark.parametrize(
    ("sections", "named"),
    [
        ({"basic_auth_user": {}}, "basic_auth_user is not known; did you mean basic_auth_users?"),
        ({"anything": 1}, ": anything is not known"),
        ({"rate_limit": {"burst": 1}}, "rate_limit is not supported"),
        (
            {"http_server_config": {"http2": True}},
            "http_server_config.http2: Input should be False",
        ),
        ({"http_server_config": {"http3": True}}, "http_server_config.http3 is not known"),
        ({"http_server_config": {"headers": {"Server": "x"}}}, "headers.Server is not known"),
        (
            {"http_server_config": {"headers": {"X-Frame-Options": "x"}}},
            "X-Frame-Options: Input should be 'deny' or 'sameorigin'",
        ),
        (
            {"http_server_config": {"headers": {"X-XSS-Protection": "1\r\nSet-Cookie: x"}}},
            "headers.X-XSS-Protection: String should match",
        ),
        ({"basic_auth_users": ["alice"]}, "basic_auth_users: Input should be a valid dictionary"),
        (
            {"basic_auth_users": {"alice": "secret"}},
            "basic_auth_users.alice: this is no bcrypt hash",
        ),
        (
            {"basic_auth_users": {"alice": HASH[:-1]}},
            "basic_auth_users.alice: this is no bcrypt hash",
        ),
        (
            {"basic_auth_users": {"alice": HASH + "\n"}},
            "basic_auth_users.alice: this is no bcrypt hash",
        ),
        ({"basic_auth_users": {"a:b": HASH}}, "'a:b': no browser or Prometheus"),
        ({"basic_auth_users": {"a\x1b": HASH}}, "'a\\x1b': no browser or Prometheus"),
        ({"basic_auth_users": {"a": HASH.replace("$10$", "$13$")}}, f"not 4 to {MOST_COST}"),
        ({"basic_auth_users": {"a": HASH.replace("$10$", "$03$")}}, f"not 4 to {MOST_COST}"),
        ({"basic_auth_users": {f"u{n}": HASH for n in range(101)}}, "at most 100 items"),
    ],
)
def test_what_cannot_be_obeyed_is_refused_by_name(
    file: Path, sections: dict[str, Any], named: str
) -> None:
    assert named in refusal(file, **sections)


def test_blank_headers_are_not_sent_and_http2_may_be_off(file: Path) -> None:
    headers = {"X-Frame-Options": "deny", "Strict-Transport-Security": "", "X-XSS-Protection": "0"}
    web = read_web_config(web_file(file, http_server_config={"http2": False, "headers": headers}))
    assert web.headers == {"X-Frame-Options": "deny", "X-XSS-Protection": "0"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "it is empty"),
        ("# nothing\n", "it is empty"),
        ("- a\n", "the top level: Input should be a valid dictionary"),
        (f"basic_auth_users:\n  a: {HASH}\n  a: {HASH}\n", "line 3: a key is there twice"),
        (f"basic_auth_users:\n  a: {{{HASH}\n", "not YAML, line "),
        (f"basic_auth_users: &{HASH}\n", "not YAML, line 1"),
        ("basic_auth_users: \x1b\n", "not YAML: it has a character"),
        ("[" * 5000, "a value that YAML cannot make (RecursionError)"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_without_quoting_it(
    file: Path, text: str, named: str
) -> None:
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="web configuration") as caught:
        read_web_config(file)
    assert named in str(caught.value)
    assert HASH not in str(caught.value)


def test_a_file_that_others_may_read_is_refused(file: Path) -> None:
    web_file(file, basic_auth_users={"alice": hashed("x")}).chmod(0o644)
    with pytest.raises(ConfigError, match="mode 0644"):
        read_web_config(file)
