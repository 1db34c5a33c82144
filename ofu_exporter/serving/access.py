"""Who may report, and for which job: by where a request comes from and by the token it brings.

Whoever is on this node may write: the peer is a Unix socket or a loopback address, and nothing says
that the request was passed on. Beyond the node it takes one of the site's tokens, or a certificate
where the server demands one. With job tokens on, also those on the node must show one: the site's, or
the job's own. Tokens are compared by their SHA-256.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ofu_exporter.errors import ReportError
from ofu_exporter.serving.site_tokens import SiteTokens, sha256
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import ReportRejection

_PASSED_ON = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via", b"origin"})
"""A proxy on this node speaks for anybody. A browser sends Origin with every POST: it speaks for any
page that it shows, also for one whose name was made to mean this node's loopback address."""


class Warrant(str, Enum):
    """What makes a writer one."""

    SITE_TOKEN = "site_token"
    CERTIFICATE = "certificate"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Writer:
    """Who sent a request."""

    way: Warrant
    token_sha256: str = ""
    """Of the bearer token that was given, in hexadecimal; "" when none was."""

    @property
    def is_site(self) -> bool:
        """Whether it may speak for every job."""
        return self.way is not Warrant.LOCAL


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
            return Writer(Warrant.SITE_TOKEN, digest)
        if self._demands_certificates and scope.get("scheme") == "https":
            return Writer(Warrant.CERTIFICATE, digest)
        if not is_local(scope):
            raise self._stranger(digest)
        if self._job_tokens and not digest:
            raise _about_token(ReportRejection.NO_TOKEN, "reports need a token here")
        return Writer(Warrant.LOCAL, digest)

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
