"""Reads what a Prometheus wants before it answers: a token, a password, a certificate, a tenant.

Secrets come from files or the environment, never from the command line, which everybody on the host can read.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.support.small_files import read_secret, read_small

TOKEN_VARIABLE = "OFU_EXPORTER_PROMETHEUS_TOKEN"
PASSWORD_VARIABLE = "OFU_EXPORTER_PROMETHEUS_PASSWORD"


@dataclass(frozen=True)
class PrometheusAccess:
    """How to be let in; everything is optional. The repr shows no secret, because it holds none."""

    bearer_token_file: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    ca: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    tenant: str | None = None

    def headers(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The headers of every request. Raises ConfigError."""
        token = self._secret(self.bearer_token_file, "bearer token", environ.get(TOKEN_VARIABLE))
        if token is not None and self.user is not None:
            raise ConfigError("give either a bearer token or a user with a password")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if self.tenant is not None:
            headers["X-Scope-OrgID"] = _printable("--tenant", self.tenant)
        return headers

    def basic(self, environ: Mapping[str, str]) -> tuple[str, str] | None:
        """User and password for HTTP's basic authentication. Raises ConfigError."""
        if self.user is None:
            if self.password_file is not None:
                raise ConfigError("--password-file needs --user")
            return None
        password = self._secret(self.password_file, "password", environ.get(PASSWORD_VARIABLE))
        if password is None:
            raise ConfigError(f"--user needs --password-file or {PASSWORD_VARIABLE}")
        return self.user, password

    def tls(self) -> ssl.SSLContext:
        """What is trusted, and the certificate that is shown. Raises ConfigError."""
        try:
            trusted = None if self.ca is None else read_small(self.ca, "authorities")
            context = ssl.create_default_context(cadata=trusted)
            if self.client_cert is not None:
                for each in filter(None, (self.client_cert, self.client_key)):
                    read_small(each, "client certificate")
                context.load_cert_chain(self.client_cert, self.client_key)
            elif self.client_key is not None:
                raise ConfigError("--client-key needs --client-cert")
        except (ssl.SSLError, OSError, ValueError) as error:
            named = self.client_cert if self.client_cert is not None else self.ca
            raise ConfigError(f"{named}: not a certificate that can be used: {error}") from error
        return context

    @staticmethod
    def _secret(path: Path | None, what: str, from_environment: str | None) -> str | None:
        if path is None:
            return None if not from_environment else _printable(what, from_environment)
        text = read_secret(path, f"{what} file").strip()
        if not text:
            raise ConfigError(f"{what} file {path} is empty")
        return _printable(f"{what} file {path}", text)


NO_ACCESS = PrometheusAccess()
"""Of a server that lets everybody in."""


def _printable(what: str, text: str) -> str:
    """A value that fits into a header. Raises ConfigError, which does not quote it."""
    if not text.isascii() or not text.isprintable():
        raise ConfigError(f"{what} has characters that no header can have")
    return text
