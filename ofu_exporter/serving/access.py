"""Decides who may report, and for which job, by the origin of a request and by its token.

Everybody on this node may write: the peer is a Unix socket or a loopback address, and nothing says that
the request was passed on. From beyond the node a request needs one of the site's tokens, a certificate
that was verified, or the token that Kubernetes gave its pod for us. With job tokens on, a request from the
node needs a token as well: the site's, its pod's, or the job's own. A verified certificate is noted on the
connection itself, so that a later change of settings does not matter to it. Tokens are compared by their SHA-256.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from ofu_exporter.errors import ConfigError, ReportError
from ofu_exporter.support.addresses import client_network, is_address, is_loopback, parsed_address
from ofu_exporter.support.small_files import read_secret, stamp
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import ReportRejection

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
"""Time between two looks at the file of the site's tokens."""
SHORTEST_TOKEN = 16
"""Fewest letters of a token; a shorter one can be guessed."""


OWN_POD = "own-pod"
"""The word behind a token that is good only for a pod that reports for its own job."""


class SiteToken(NamedTuple):
    """One token of the site's file."""

    digest: str
    """SHA-256 of the token, in hexadecimal."""
    own_pod: bool
    """Whether it is good only for a pod that reports for its own job."""


class SiteTokens:
    """The site's tokens, read anew when their file changes.

    When the file is gone, empty, or open to others while the agent runs, no token is good any more: a site
    withdraws its tokens in this way. The file has a thread of its own, so a disk that hangs holds up nobody;
    meanwhile the tokens stay as they were.
    """

    def __init__(self, path: Path) -> None:
        """Raises ConfigError when the file cannot be used."""
        self.path = path
        # A file system that hangs is refused here, and nobody waits for its stamp.
        read_tokens(path)
        self._stamp = stamp(path)
        self._tokens = read_tokens(path)
        self._problem = ""

    def find(self, digest: str) -> SiteToken | None:
        """The token with this SHA-256, if there is one; takes equally long for every answer."""
        tokens = [each for each in self._tokens if hmac.compare_digest(digest, each.digest)]
        return tokens[0] if tokens else None

    def refresh(self) -> None:
        """Read the file again if it has changed, or could not be used before."""
        now = stamp(self.path)
        if now == self._stamp and not self._problem:
            return
        try:
            self._tokens, problem = read_tokens(self.path), ""
            log.info("report tokens read again from %s", self.path)
        except ConfigError as error:
            self._tokens, problem = (), str(error)
            if problem != self._problem:
                log.error("no report token is accepted until this is corrected: %s", error)
        self._stamp, self._problem = now, problem

    def start(self) -> None:
        """Watch the file from now on, until the process ends."""
        threading.Thread(target=self._watch, name="report-tokens", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(CHECK_SECONDS)
            self.refresh()


def read_tokens(path: Path) -> tuple[SiteToken, ...]:
    """Every token of the file: one a line, perhaps with ` own-pod` behind it, comments after #. Raises ConfigError."""
    tokens = []
    for number, line in enumerate(read_secret(path, "report token file").splitlines(), 1):
        if not line.strip() or line.strip().startswith("#"):
            continue
        token, _, word = line.strip().partition(" ")
        if len(token) < SHORTEST_TOKEN or not token.isascii() or word.strip() not in ("", OWN_POD):
            raise ConfigError(
                f"report token file {path}: line {number} is no token; "
                f"it takes {SHORTEST_TOKEN} letters or more and no space (openssl rand -hex 32), "
                f"and behind it nothing or the word {OWN_POD}"
            )
        tokens.append(SiteToken(sha256(token.encode()), bool(word)))
    if not tokens:
        raise ConfigError(f"report token file {path} holds no token")
    return tuple(tokens)


def sha256(token: bytes) -> str:
    """The form in which a token is kept and compared."""
    return hashlib.sha256(token).hexdigest()


_PASSED_ON = frozenset(
    b"forwarded via x-real-ip true-client-ip cf-connecting-ip x-forwarded-for x-forwarded-host "
    b"x-forwarded-proto x-envoy-external-address origin".split()
)
"""Headers of requests that were passed on: a proxy on this node speaks for anybody. A browser sends Origin with
every POST; it speaks for any page that it shows, also for one whose name resolves to this node's loopback address."""


CERTIFIED = "ofu.certified"
"""The key of a request's `state` that is true when its connection has shown a certificate that was verified."""
PEER_UID = "ofu.peer_uid"
"""The key of a request's `state` that holds the user at the other end of the Unix socket."""

PodOf = Callable[[bytes, str], Awaitable[str | None]]
"""Finds the pod, as `namespace/name`, that has a token which an address shows, or `user UID` at the Unix socket. Raises
ReportError."""


class Warrant(str, Enum):
    """The ground on which a writer may write."""

    SITE_TOKEN = "site_token"
    POD_TOKEN = "pod_token"
    CERTIFICATE = "certificate"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Writer:
    """The sender of a request that writes."""

    warrant: Warrant
    token_sha256: str = ""
    """SHA-256 of the bearer token, in hexadecimal; "" when the request had none."""
    pod_address: str | None = None
    """Address that must be that of a pod of the job, "" = of a socket; None where every job may be reported for."""
    pod: str = ""
    """The pod, as `namespace/name`, that has shown its token; it may report for its own job."""

    @property
    def is_site(self) -> bool:
        """Whether the writer may report for every job."""
        return self.warrant in (Warrant.SITE_TOKEN, Warrant.CERTIFICATE)


class Access:
    """Decides on every request that writes."""

    def __init__(
        self,
        site_tokens: SiteTokens | None = None,
        job_tokens: bool = False,
        pod_of: PodOf | None = None,
    ) -> None:
        self._site_tokens = site_tokens
        self._job_tokens = job_tokens
        self._pod_of = pod_of

    def start(self) -> None:
        """Watch the file of the site's tokens from now on."""
        if self._site_tokens is not None:
            self._site_tokens.start()

    def describe(self, authority: Path | None) -> str:
        """Who may report, in words for the log; `authority` is the file whose certificates are taken."""
        local = "this node with a token" if self._job_tokens else "this node"
        site = f"whoever has a token of {self._site_tokens.path}" if self._site_tokens else ""
        pods = "each pod for its own job by its token" if self._pod_of else ""
        holders = f"whoever has a certificate by {authority}" if authority else ""
        return ", ".join(filter(None, (local, site, pods, holders)))

    async def admitted(self, scope: Mapping[str, Any]) -> Writer:
        """The sender, who may also show the token of a pod. Raises ReportError when the sender may not write."""
        token, site = _bearer(scope) if self._pod_of else None, self._site_tokens
        is_site = bool(token and site and site.find(sha256(token)))
        if self._pod_of is not None and token is not None and not is_site:
            pod = await self._pod_of(token, _asker(scope))
            if pod is not None:
                return Writer(Warrant.POD_TOKEN, sha256(token), pod=pod)
        return self.writer(scope)

    def writer(self, scope: Mapping[str, Any]) -> Writer:
        """The sender of this request (an ASGI scope). Raises ReportError when the sender may not write."""
        bearer = _bearer(scope)
        digest = "" if bearer is None else sha256(bearer)
        token = self._site_tokens.find(digest) if digest and self._site_tokens else None
        if token is not None:
            return Writer(Warrant.SITE_TOKEN, digest, _peer(scope) if token.own_pod else None)
        if scope.get("state", {}).get(CERTIFIED):
            return Writer(Warrant.CERTIFICATE, digest)
        if not is_local(scope):
            raise self._stranger(digest)
        if self._job_tokens and not digest:
            raise _about_token(ReportRejection.NO_TOKEN, "reports need a token here")
        return Writer(Warrant.LOCAL, digest)

    def _stranger(self, digest: str) -> ReportError:
        if self._site_tokens is None and self._pod_of is None:
            return ReportError(
                ReportRejection.NOT_LOCAL, detail="only this node may report", where="peer"
            )
        if digest:
            return _about_token(ReportRejection.WRONG_TOKEN, "this token is not known")
        return _about_token(ReportRejection.NO_TOKEN, "reports from elsewhere need a token")

    def may_speak_for(self, writer: Writer, job: Job) -> None:
        """Raises ReportError (not_yours) when this writer may not report for this job."""
        if why := self._why_not(writer, job):
            raise ReportError(ReportRejection.NOT_YOURS, "job_id", why)

    def _why_not(self, writer: Writer, job: Job) -> str:
        if writer.warrant is Warrant.POD_TOKEN:
            return _why_not_of(writer.pod, job)
        if writer.pod_address is not None:
            return why_not_from(writer.pod_address, job)
        if writer.is_site or not self._job_tokens:
            return ""
        if not job.token_sha256:
            return f"job {job.job_id} has no token, so only the site may report for it"
        is_the_jobs = hmac.compare_digest(writer.token_sha256, job.token_sha256)
        return "" if is_the_jobs else f"the token is not that of job {job.job_id}"


def why_not_from(address: str, job: Job) -> str:
    """Why an address is not that of a pod of the job; "" where it is one.

    The address must be the one that the connection comes from. No other pod can send from it, as long as the
    network of the cluster lets no pod forge its address, and no proxy stands in between.
    """
    if not job.addresses:
        return f"the addresses of the pods of job {job.job_id} are not known here"
    if is_address(address) and str(parsed_address(address)) in job.addresses:
        return ""
    return f"{address or 'a socket'} is no address of a pod of job {job.job_id}"


def _why_not_of(pod: str, job: Job) -> str:
    """Why a pod, as `namespace/name`, is none of the job's; "" where it is one."""
    is_one = pod in (f"{job.namespace}/{job.name}", *job.aliases)
    if is_one and job.scheduler == "kubernetes":
        return ""
    return f"the token is that of pod {pod}, which is none of job {job.job_id}"


def _about_token(reason: ReportRejection, detail: str) -> ReportError:
    return ReportError(reason, "authorization", detail, "header")


def is_local(scope: Mapping[str, Any]) -> bool:
    """Whether the request comes from this node and was not passed on.

    A Unix socket is recognised by the address of our own end, which stays as long as the connection lasts.
    The peer's address does not serve: a TCP peer that has reset the connection has none either. The node's
    own other addresses are not local: requests that a router or a Service masks come from them, too.
    """
    if any(name in _PASSED_ON for name, _ in scope["headers"]):
        return False
    server, client = scope.get("server"), scope.get("client")
    if server is not None and server[1] is None:
        return True
    return is_loopback(client[0]) if client else False


def _peer(scope: Mapping[str, Any]) -> str:
    """The address of the other end; "" for a socket."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _asker(scope: Mapping[str, Any]) -> str:
    """Who has to pay for a question: an address, or at the socket, where all pods are one address, a user."""
    return network_of(scope) or f"user {scope.get('state', {}).get(PEER_UID)}"


def network_of(scope: Mapping[str, Any]) -> str:
    """The peer without its port, as it is counted; all peers on the Unix socket are one."""
    return client_network(_peer(scope))


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
