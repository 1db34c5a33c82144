"""Reads the web configuration: the file in which operators of Prometheus' exporters set TLS, users and headers.

The format is that of docs/web-configuration.md in https://github.com/prometheus/exporter-toolkit. A key that the
format does not know is refused by its name, and so is one that it knows and this agent cannot obey: a setting
that protects is never left out silently.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.tls import TlsFiles, tls_files
from ofu_exporter.support.secret_files import read_secret

MOST_COST = 12
"""Highest cost of a password's hash: one check takes a quarter of a second of a core, and a stop waits for it."""
MOST_USERS = 100

_SECTIONS = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""The headers that the format knows, and the values of those that have only some."""
_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")


@dataclass(frozen=True, slots=True)
class WebConfig:
    """What a web configuration says; nothing, where there is none."""

    file: Path | None = None
    tls: TlsFiles | None = None
    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The bcrypt hash of each user's password."""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file whose change changes something."""
        own = (self.file,) if self.file else ()
        return (*own, *self.tls.files) if self.tls else own

    def __str__(self) -> str:
        count = len(self.users)
        users = f"reading needs one of {count} passwords" if count else "everybody may read"
        return f"{users}, {'TLS' if self.tls else 'no TLS'} from {self.file}"


NOTHING = WebConfig()
"""What is so without a file."""


def read_web_config(path: Path | None) -> WebConfig:
    """The web configuration of a file; an empty one without a file. Raises ConfigError, which names the key."""
    if path is None:
        return NOTHING
    try:
        return _parsed(path, _loaded(read_secret(path, "web configuration")))
    except _WrongKeyError as error:
        raise ConfigError(f"web configuration {path}: {error}") from None


class _WrongKeyError(ConfigError):
    """A key that cannot be used; its text names the key."""


def _loaded(text: str) -> Mapping[str, Any]:
    from ofu_exporter.support import strict_yaml  # noqa: PLC0415 - not every agent has such a file

    try:
        loaded = strict_yaml.load(text)
    except ValueError as error:
        raise _WrongKeyError(str(error)) from None
    if loaded is None:
        raise _WrongKeyError("it is empty; leave --web.config.file away to set nothing")
    return _table(loaded, "the top level")


def _parsed(path: Path, loaded: Mapping[str, Any]) -> WebConfig:
    _check_known(loaded, _SECTIONS, "")
    if "rate_limit" in loaded:
        raise _WrongKeyError("rate_limit is not supported: the agent has limits of its own")
    tls = loaded.get("tls_server_config")
    try:
        files = tls_files(_table(tls, "tls_server_config"), path.parent) if tls else None
    except ConfigError as error:
        raise _WrongKeyError(f"tls_server_config.{error}") from None
    return WebConfig(
        file=path,
        tls=files,
        users=_users(_table(loaded.get("basic_auth_users") or {}, "basic_auth_users")),
        headers=_headers(_table(loaded.get("http_server_config") or {}, "http_server_config")),
    )


def _users(table: Mapping[str, Any]) -> dict[str, bytes]:
    if len(table) > MOST_USERS:
        raise _WrongKeyError(f"basic_auth_users: more than {MOST_USERS} users")
    users = {}
    for name, value in table.items():
        where = f"basic_auth_users.{name!r}"
        if not name or ":" in name or not name.isprintable():
            raise _WrongKeyError(f"{where}: no browser or Prometheus can give this name")
        match = _HASH.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise _WrongKeyError(
                f"{where}: this is no bcrypt hash (htpasswd -nBC 10 NAME makes one)"
            )
        if not 4 <= int(match[1]) <= MOST_COST:
            raise _WrongKeyError(f"{where}: the hash has cost {match[1]}, not 4 to {MOST_COST}")
        users[name] = value.encode()
    return users


def _headers(table: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    _check_known(table, ("http2", "headers"), "http_server_config.")
    if table.get("http2"):
        raise _WrongKeyError("http_server_config.http2 is not supported: only HTTP/1.1 is spoken")
    headers = _table(table.get("headers") or {}, "http_server_config.headers")
    _check_known(headers, _HEADERS, "http_server_config.headers.")
    for name, value in headers.items():
        where = f"http_server_config.headers.{name}"
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise _WrongKeyError(f"{where}: this is no text that a header can hold")
        if value and _HEADERS[name] and value not in _HEADERS[name]:
            raise _WrongKeyError(f"{where}: takes {' or '.join(_HEADERS[name])}, not {value!r}")
    return tuple((name, value) for name, value in headers.items() if value)


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise _WrongKeyError(f"{where} must be `key: value` lines")
    return value


def _check_known(table: Mapping[str, Any], known: Iterable[str], prefix: str) -> None:
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, list(known), 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise _WrongKeyError(f"{prefix}{key[:80]!r} is not known; {hint}")
