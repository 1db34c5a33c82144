"""Reads the web configuration: the file in which operators of Prometheus' exporters set TLS, users and headers.

The format is that of docs/web-configuration.md in https://github.com/prometheus/exporter-toolkit. A key that the
format does not know is refused by its name, and so is one that it knows and this agent cannot obey: a setting
that protects is never left out silently.
"""

from __future__ import annotations

import difflib
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.tls import CIPHERS, CLIENT_AUTH, TLS13_CIPHERS, TlsFiles
from ofu_exporter.support.small_files import read_secret

MOST_COST = 12
"""Highest cost of a password's hash: one check takes a quarter of a second of a core, and a stop waits for it."""
MOST_USERS = 100
_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
_UNSUPPORTED = {
    "cert": "give the file (cert_file)",
    "key": "give the file (key_file)",
    "client_ca": "give the file (client_ca_file)",
    "client_allowed_sans": "give these clients an authority of their own (client_ca_file)",
    "curve_preferences": "OpenSSL's own order is used",
    "rate_limit": "the agent has limits of its own",
}


def _user(name: str) -> str:
    if not name or ":" in name or not name.isprintable():
        raise ValueError("no browser or Prometheus can give this name")
    return name


def _hash(value: str) -> str:
    match = _HASH.fullmatch(value)
    if match is None:
        raise ValueError("this is no bcrypt hash (htpasswd -nBC 10 NAME makes one)")
    if not 4 <= int(match[1]) <= MOST_COST:
        raise ValueError(f"the hash has cost {match[1]}, not 4 to {MOST_COST}")
    return value


def _cipher(name: str) -> str:
    if name not in CIPHERS and name not in TLS13_CIPHERS:
        raise ValueError(f"is one of {', '.join(CIPHERS)}")
    return name


class _Section(BaseModel, extra="forbid", strict=True):
    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, table: Any) -> Any:
        """A key without a value is not set."""
        if not isinstance(table, dict):
            return table
        return {key: value for key, value in table.items() if value not in (None, "")}


FileName = Annotated[str, Field(pattern=r"^[^\x00]+$")]
Version = Literal["TLS12", "TLS13"]


class _Tls(_Section):
    """Go takes any certificate for the other values of client_auth_type; OpenSSL by Python cannot."""

    cert_file: FileName
    key_file: FileName
    client_ca_file: FileName | None = None
    client_auth_type: Literal[
        "NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"
    ] = "NoClientCert"
    min_version: Version = "TLS12"
    max_version: Version = "TLS13"
    cipher_suites: list[Annotated[str, AfterValidator(_cipher)]] = []
    prefer_server_cipher_suites: bool = True

    @model_validator(mode="after")
    def _is_consistent(self) -> _Tls:
        if (self.client_ca_file is None) != (self.client_auth_type == "NoClientCert"):
            raise ValueError(
                "client_ca_file and client_auth_type (RequireAndVerifyClientCert) need each other"
            )
        if self.min_version > self.max_version:
            raise ValueError("min_version is above max_version")
        return self

    def files(self, folder: Path) -> TlsFiles:
        """What the section says; names of files are relative to the folder."""
        versions = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
        return TlsFiles(
            cert=folder / self.cert_file,
            key=folder / self.key_file,
            client_ca=folder / self.client_ca_file if self.client_ca_file else None,
            client_auth=CLIENT_AUTH[self.client_auth_type],
            minimum=versions[self.min_version],
            maximum=versions[self.max_version],
            ciphers=":".join(CIPHERS[name] for name in self.cipher_suites if name in CIPHERS),
            prefers_own_order=self.prefer_server_cipher_suites,
        )


HeaderText = Annotated[str, Field(pattern=r"^[ -~]*$")]


class _Headers(_Section):
    csp: HeaderText | None = Field(default=None, alias="Content-Security-Policy")
    hsts: HeaderText | None = Field(default=None, alias="Strict-Transport-Security")
    content_type: Literal["nosniff"] | None = Field(default=None, alias="X-Content-Type-Options")
    frame: Literal["deny", "sameorigin"] | None = Field(default=None, alias="X-Frame-Options")
    xss: HeaderText | None = Field(default=None, alias="X-XSS-Protection")


class _Http(_Section):
    http2: Literal[False] = False
    headers: _Headers = _Headers()


class _File(_Section):
    tls_server_config: _Tls | None = None
    http_server_config: _Http = _Http()
    basic_auth_users: dict[
        Annotated[str, AfterValidator(_user)], Annotated[str, AfterValidator(_hash)]
    ] = Field(default={}, max_length=MOST_USERS)


@dataclass(frozen=True, slots=True)
class WebConfig:
    """What a web configuration says; nothing, where there is none."""

    file: Path | None = None
    tls: TlsFiles | None = None
    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The bcrypt hash of each user's password."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file whose change changes something."""
        of_tls = self.tls.files if self.tls else ()
        return (self.file, *of_tls) if self.file else of_tls

    def __str__(self) -> str:
        count = len(self.users)
        users = f"reading needs one of {count} passwords" if count else "everybody may read"
        return f"{users}, {'TLS' if self.tls else 'no TLS'} from {self.file}"


NO_WEB_CONFIG = WebConfig()
"""What is so without a file."""


def read_web_config(path: Path | None) -> WebConfig:
    """The web configuration of a file; an empty one without a file. Raises ConfigError, which names the key."""
    if path is None:
        return NO_WEB_CONFIG
    from ofu_exporter.support import checked_yaml  # noqa: PLC0415 - not every agent has such a file

    text = read_secret(path, "web configuration")
    try:
        loaded = checked_yaml.load_yaml(text)
        if loaded is None:
            raise ValueError("it is empty; leave --web.config.file away to set nothing")
        read = _File.model_validate(loaded)
    except ValidationError as error:
        raise ConfigError(f"web configuration {path}: {_problem(error)}") from None
    except ValueError as error:
        raise ConfigError(f"web configuration {path}: {error}") from None
    tls = read.tls_server_config
    return WebConfig(
        file=path,
        tls=tls.files(path.parent) if tls else None,
        users={name: value.encode() for name, value in read.basic_auth_users.items()},
        headers=read.http_server_config.headers.model_dump(by_alias=True, exclude_none=True),
    )


def _problem(error: ValidationError) -> str:
    """The first problem, without the value, which may be secret."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    path = ".".join(_name(part) for part in first["loc"] if part != "[key]") or "the top level"
    key = str(first["loc"][-1]) if first["loc"] else ""
    if first["type"] == "missing":
        return f"{path} is missing"
    if first["type"] != "extra_forbidden":
        words = first["msg"].removeprefix("Value error, ").partition(" or instance of ")[0]
        return f"{path}: {words}"
    if key in _UNSUPPORTED:
        return f"{path} is not supported: {_UNSUPPORTED[key]}"
    keys = [name for model in (_File, _Tls, _Http) for name in model.model_fields]
    near = difflib.get_close_matches(key, keys, 1)
    return f"{path} is not known" + (f"; did you mean {near[0]}?" if near else "")


def _name(part: int | str) -> str:
    text = str(part)[:80]
    return text if re.fullmatch(r"[\w-]+", text, re.ASCII) else repr(text)
