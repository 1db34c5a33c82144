"""Says which files and which rules the address speaks TLS by, and makes the context of them."""

from __future__ import annotations

import difflib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ofu_exporter.errors import ConfigError
from ofu_exporter.settings import Settings
from ofu_exporter.support.memory_files import in_memory
from ofu_exporter.support.secret_files import read_secret
from ofu_exporter.support.small_files import read_small

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_TOO_OLD = ("TLS10", "TLS11")
_CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_UNVERIFIED = ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")
"""Go takes a certificate for these without looking who signed it; OpenSSL by Python cannot."""
_CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
"""Go's names (crypto/tls, CipherSuites) of suites up to TLS 1.2, and OpenSSL's."""
_TLS13_CIPHERS = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
"""Go takes these names, and they change nothing: suites of TLS 1.3 are not chosen."""
_UNSUPPORTED = {
    "cert": "give the file (cert_file)",
    "key": "give the file (key_file)",
    "client_ca": "give the file (client_ca_file)",
    "client_allowed_sans": "give these clients an authority of their own (client_ca_file)",
    "curve_preferences": "OpenSSL's own order is used",
}


_KEYS = (
    "cert_file",
    "key_file",
    "client_ca_file",
    "client_auth_type",
    "min_version",
    "max_version",
    "cipher_suites",
    "prefer_server_cipher_suites",
)

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of TLS, and the rules beside them."""

    cert: Path
    key: Path
    client_ca: Path | None = None
    client_auth: ssl.VerifyMode = ssl.CERT_NONE
    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    maximum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: str = ""
    """Suites up to TLS 1.2 in OpenSSL's form; "" for OpenSSL's own choice."""
    prefers_own_order: bool = True
    clients_may_write: bool = False
    """Whether a certificate of the authority lets its holder report, too."""

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.cert, self.key, *([self.client_ca] if self.client_ca else []))


def tls_of_settings(settings: Settings) -> TlsFiles | None:
    """What the agent's own settings say; None without a certificate. Raises ConfigError."""
    if settings.tls_cert is None:
        if settings.tls_key or settings.tls_client_ca:
            raise ConfigError("--tls-key and --tls-client-ca need --tls-cert")
        return None
    authority = settings.tls_client_ca
    return TlsFiles(
        cert=settings.tls_cert,
        key=settings.tls_key or settings.tls_cert,
        client_ca=authority,
        client_auth=ssl.CERT_REQUIRED if authority else ssl.CERT_NONE,
        clients_may_write=authority is not None,
    )


class WriterContext(ssl.SSLContext):
    """A context whose authority (`tls_client_ca`) is that of clients who may write, and not of readers only."""


def make_context(tls: TlsFiles) -> ssl.SSLContext:
    """The context of these files. Raises ConfigError, which names the file.

    OpenSSL opens whatever it is given by itself and reads it to its end, so it is given what was read here.
    """
    key = read_secret(tls.key, "TLS key" if tls.key != tls.cert else "TLS certificate and key")
    cert = key if tls.key == tls.cert else read_small(tls.cert, "TLS certificate")
    authority = read_small(tls.client_ca, "TLS client authority") if tls.client_ca else None
    kind = WriterContext if tls.clients_may_write else ssl.SSLContext
    context = kind(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = tls.minimum, tls.maximum
    if not tls.prefers_own_order:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        if tls.ciphers:
            context.set_ciphers(tls.ciphers)
        with in_memory(cert) as cert_path, in_memory(key) as key_path:
            # Without a password OpenSSL would ask at the terminal.
            context.load_cert_chain(cert_path, key_path, password=lambda: "")
    except (OSError, ValueError) as error:
        raise ConfigError(f"TLS certificate {tls.cert}, key {tls.key}: {error}") from error
    if authority is not None:
        try:
            with in_memory(authority) as path:
                context.load_verify_locations(path)
        except (OSError, ValueError) as error:
            raise ConfigError(f"TLS client authority {tls.client_ca}: {error}") from error
        context.verify_mode = tls.client_auth
    return context


def tls_files(table: Mapping[str, Any], folder: Path) -> TlsFiles:
    """The section tls_server_config of a web configuration; names of files are relative to its folder.

    Raises ConfigError, whose text begins with the key.
    """
    for name in table:
        _check_key(name)
    cert, key, authority = (
        _file(table, name, folder) for name in ("cert_file", "key_file", "client_ca_file")
    )
    if cert is None or key is None:
        raise ConfigError(f"{'key_file' if cert else 'cert_file'} is missing")
    client_auth = _client_auth(table)
    if authority is None and client_auth is not ssl.CERT_NONE:
        raise ConfigError(f"client_ca_file is missing; {table['client_auth_type']} needs it")
    if authority and client_auth is ssl.CERT_NONE:
        raise ConfigError("client_ca_file needs client_auth_type: RequireAndVerifyClientCert")
    minimum = _version(table, "min_version", "TLS12")
    maximum = _version(table, "max_version", "TLS13")
    if minimum > maximum:
        raise ConfigError("min_version is above max_version")
    prefers = table.get("prefer_server_cipher_suites", True)
    if not isinstance(prefers, bool):
        raise ConfigError("prefer_server_cipher_suites is true or false")
    ciphers = _ciphers(table)
    return TlsFiles(cert, key, authority, client_auth, minimum, maximum, ciphers, prefers)


def _check_key(key: str) -> None:
    if key in _UNSUPPORTED:
        raise ConfigError(f"{key} is not supported: {_UNSUPPORTED[key]}")
    if key not in _KEYS:
        near = difflib.get_close_matches(key, _KEYS, 1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(_KEYS)}"
        raise ConfigError(f"{key[:80]!r} is not known; {hint}")


def _file(table: Mapping[str, Any], key: str, folder: Path) -> Path | None:
    value = table.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or "\0" in value:
        raise ConfigError(f"{key} is not the name of a file")
    return folder / value


def _client_auth(table: Mapping[str, Any]) -> ssl.VerifyMode:
    value = table.get("client_auth_type") or "NoClientCert"
    if value in _UNVERIFIED:
        raise ConfigError(
            f"client_auth_type {value} is not supported: it lets in a certificate of anybody's; "
            "use RequireAndVerifyClientCert"
        )
    return _one_of(_CLIENT_AUTH, "client_auth_type", value)


def _version(table: Mapping[str, Any], key: str, default: str) -> ssl.TLSVersion:
    value = table.get(key) or default
    if value in _TOO_OLD:
        raise ConfigError(f"{key} {value} is not supported: the oldest version is TLS12")
    return _one_of(_VERSIONS, key, value)


def _one_of(known: Mapping[str, ValueT], key: str, value: object) -> ValueT:
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"{key} is one of {', '.join(known)}")
    return known[value]


def _ciphers(table: Mapping[str, Any]) -> str:
    names = table.get("cipher_suites") or []
    if not isinstance(names, list):
        raise ConfigError("cipher_suites is a list of names")
    chosen = [name for name in names if name not in _TLS13_CIPHERS]
    return ":".join(_one_of(_CIPHERS, "cipher_suites", name) for name in chosen)
