"""Makes the TLS context of the address from its files and rules, and says when its certificate ends."""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.settings import Settings
from ofu_exporter.support.small_files import read_secret, read_small

CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
CIPHERS = {
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
TLS13_CIPHERS = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""Go takes these names, and they change nothing: suites of TLS 1.3 are not chosen."""
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")
_UTC_TIME, _VERSION = 0x17, 0xA0

log = logging.getLogger(__name__)


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


class ServerContext(ssl.SSLContext):
    """A context that knows when its certificate ends."""

    certificate: Path | None = None
    expires: float | None = None
    """Unix time."""
    _is_said = False

    def warn_once(self, now: float) -> None:
        """Log that the certificate has ended, once it has."""
        if self.expires is not None and self.expires < now and not self._is_said:
            self._is_said = True
            text = "TLS certificate %s has expired: whoever checks it cannot connect"
            log.warning(text, self.certificate)


class WriterContext(ServerContext):
    """A context whose authority (`tls_client_ca`) is that of clients who may write, and not of readers only."""


def make_context(tls: TlsFiles) -> ServerContext:
    """The context of these files. Raises ConfigError, which names the file.

    OpenSSL opens whatever it is given by itself and reads it to its end, so it is given what was read here.
    """
    key = read_secret(tls.key, "TLS key" if tls.key != tls.cert else "TLS certificate and key")
    cert = key if tls.key == tls.cert else read_small(tls.cert, "TLS certificate")
    authority = read_small(tls.client_ca, "TLS client authority") if tls.client_ca else None
    kind = WriterContext if tls.clients_may_write else ServerContext
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
    context.certificate, context.expires = tls.cert, expires(cert)
    if authority is not None:
        try:
            with in_memory(authority) as path:
                context.load_verify_locations(path)
        except (OSError, ValueError) as error:
            raise ConfigError(f"TLS client authority {tls.client_ca}: {error}") from error
        context.verify_mode = tls.client_auth
    return context


def expires(chain: str) -> float | None:
    """Unix time at which the first certificate of a chain ends (RFC 5280, 4.1: notAfter); None if there is none."""
    first = _PEM.search(chain)
    if first is None:
        return None
    try:
        (_, certificate), *_ = _parts(ssl.PEM_cert_to_DER_cert(first[0]))
        (_, signed), *_ = _parts(certificate)
        # Serial number, algorithm, issuer, validity; the version before them may be missing.
        validity = [content for tag, content in _parts(signed) if tag != _VERSION][3]
        _, (tag, content) = _parts(validity)
        text = content.decode()
        if tag == _UTC_TIME:  # its two digits of the year mean 1950 to 2049
            text = ("19" if text >= "5" else "20") + text
        return datetime.strptime(f"{text[:-1]}+0000", "%Y%m%d%H%M%S%z").timestamp()
    except (ValueError, IndexError):
        return None


def _parts(der: bytes) -> Iterator[tuple[int, bytes]]:
    """The elements of DER (X.690), each with its tag."""
    while der:
        tag, length, at = der[0], der[1], 2
        if length > 0x7F:
            at += length & 0x7F
            length = int.from_bytes(der[2:at], "big")
        yield tag, der[at : at + length]
        der = der[at + length :]


@contextmanager
def in_memory(text: str) -> Iterator[str]:
    """A path at which this process can read the text while the block runs. The text is on no disk and has no other
    name."""
    with open(os.memfd_create("ofu-exporter"), "wb", buffering=0) as file:
        file.write(text.encode())
        yield f"/proc/self/fd/{file.fileno()}"
