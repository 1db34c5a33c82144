"""Who may report, and for which job: by where a request comes from and by the token it brings.

Whoever is on this node may write: the peer is a Unix socket or a loopback address, and nothing says
that the request was passed on. Beyond the node it takes one of the site's tokens, or a certificate
where the server demands one. With job tokens on, also those on the node must show one: the site's, or
the job's own. Tokens are compared by their SHA-256.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from ofu_exporter.errors import ConfigError, ReportError
from ofu_exporter.support.secret_files import read_secret, stamp
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import ReportRejection

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
"""How often the file of the site's tokens is looked at."""
SHORTEST_TOKEN = 16
"""Letters; what is shorter can be guessed."""

_PASSED_ON = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via", b"origin"})
"""A proxy on this node speaks for anybody. A browser sends Origin with every POST: it speaks for any
page that it shows, also for one whose name was made to mean this node's loopback address."""


class Way(str, Enum):
    """What makes a writer one."""

    SITE_TOKEN = "site_token"
    CERTIFICATE = "certificate"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Writer:
    """Who sent a request."""

    way: Way
    token_sha256: str = ""
    """Of the bearer token that was given, in hexadecimal; "" when none was."""

    @property
    def is_site(self) -> bool:
        """Whether it may speak for every job."""
        return self.way is not Way.LOCAL


class SiteTokens:
    """The site's tokens, read anew when their file changes.

    When the file is gone, empty, or open to others while the agent runs, no token is good any more:
    that is how a token is withdrawn. A thread of its own reads it, so a disk that hangs holds up
    nobody; the tokens stay as they were meanwhile.
    """

    def __init__(self, path: Path) -> None:
        """Raises ConfigError when the file cannot be used."""
        self._path = path
        self._stamp = stamp(path)
        self._digests = read_tokens(path)
        self._problem = ""

    def knows(self, digest: str) -> bool:
        """Whether a token with this SHA-256 is one of them; takes equally long whichever it is."""
        return any([hmac.compare_digest(digest, known) for known in self._digests])

    def refresh(self) -> None:
        """Read the file again if it has changed, or could not be used."""
        now = stamp(self._path)
        if now == self._stamp and not self._problem:
            return
        try:
            self._digests, problem = read_tokens(self._path), ""
            log.info("report tokens read anew from %s", self._path)
        except ConfigError as error:
            self._digests, problem = (), str(error)
            if problem != self._problem:
                log.error("no report token is good until this is put right: %s", error)
        self._stamp, self._problem = now, problem

    def start(self) -> None:
        """Look at the file from now on, until the process ends."""
        threading.Thread(target=self._watch, name="report-tokens", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(CHECK_SECONDS)
            self.refresh()


def read_tokens(path: Path) -> tuple[str, ...]:
    """The SHA-256 of every token of the file: one a line, comments after #. Raises ConfigError."""
    digests = []
    for number, line in enumerate(read_secret(path, "report token file").splitlines(), 1):
        token = line.strip()
        if not token or token.startswith("#"):
            continue
        if len(token) < SHORTEST_TOKEN or not token.isascii() or " " in token:
            raise ConfigError(
                f"report token file {path}: line {number} is no token; "
                f"it takes {SHORTEST_TOKEN} letters or more and no space (openssl rand -hex 32)"
            )
        digests.append(sha256(token.encode()))
    if not digests:
        raise ConfigError(f"report token file {path} holds no token")
    return tuple(digests)


def sha256(token: bytes) -> str:
    """The form in which a token is kept and compared."""
    return hashlib.sha256(token).hexdigest()


class Access:
    """Decides on every request that writes."""

    def __init__(
        self,
        site_tokens: SiteTokens | None = None,
        job_tokens: bool = False,
        demands_certificates: bool = False,
    ) -> None:
        """`demands_certificates`: whether TLS lets nobody in without one."""
        self._site_tokens = site_tokens
        self._job_tokens = job_tokens
        self._demands_certificates = demands_certificates

    def start(self) -> None:
        """Look at the file of the site's tokens from now on."""
        if self._site_tokens is not None:
            self._site_tokens.start()

    def writer(self, scope: Mapping[str, Any]) -> Writer:
        """Who sends this request (an ASGI scope). Raises ReportError when he may not write."""
        given = _bearer(scope)
        digest = "" if given is None else sha256(given)
        if digest and self._site_tokens and self._site_tokens.knows(digest):
            return Writer(Way.SITE_TOKEN, digest)
        if self._demands_certificates and scope.get("scheme") == "https":
            return Writer(Way.CERTIFICATE, digest)
        if not is_local(scope):
            raise self._stranger(digest)
        if self._job_tokens and not digest:
            raise _about_token(ReportRejection.NO_TOKEN, "reports need a token here")
        return Writer(Way.LOCAL, digest)

    def _stranger(self, digest: str) -> ReportError:
        if self._site_tokens is None:
            return ReportError(
                ReportRejection.NOT_LOCAL, detail="only this node may report", where="peer"
            )
        if digest:
            return _about_token(ReportRejection.WRONG_TOKEN, "this token is not known")
        return _about_token(ReportRejection.NO_TOKEN, "reports from elsewhere need a token")

    def may_speak_for(self, writer: Writer, job: Job) -> None:
        """Raises ReportError (not_yours) when this writer may not report for this job."""
        if writer.is_site or not self._job_tokens:
            return
        if not job.token_sha256:
            detail = f"job {job.job_id} has no token, so only the site may report for it"
            raise ReportError(ReportRejection.NOT_YOURS, "job_id", detail)
        if not hmac.compare_digest(writer.token_sha256, job.token_sha256):
            detail = f"the token is not that of job {job.job_id}"
            raise ReportError(ReportRejection.NOT_YOURS, "job_id", detail)


def _about_token(reason: ReportRejection, detail: str) -> ReportError:
    return ReportError(reason, "authorization", detail, "header")


def is_local(scope: Mapping[str, Any]) -> bool:
    """Whether the request comes from this node and was not passed on.

    A Unix socket is told by the address of our own end, which it has as long as the connection lasts.
    The peer's does not do: a TCP peer that has reset the connection has none either. The node's own
    other addresses are not local: what a router or a Service masks comes from them, too.
    """
    if any(name in _PASSED_ON for name, _ in scope["headers"]):
        return False
    server, client = scope.get("server"), scope.get("client")
    if server is not None and server[1] is None:
        return True
    if not client:
        return False
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _bearer(scope: Mapping[str, Any]) -> bytes | None:
    """The token of the Authorization header; None when there is none. Raises ReportError."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if not values:
        return None
    scheme, _, token = values[0].strip().partition(b" ")
    token = token.strip()
    if len(values) > 1 or scheme.lower() != b"bearer" or not token:
        raise _about_token(ReportRejection.WRONG_TOKEN, "this is not `Bearer TOKEN`")
    return bytes(token)
