"""Finds the pod that has a token of Kubernetes: asks the API server beside the event loop, and remembers it."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable

from pydantic import BaseModel, ValidationError

from ofu_exporter.errors import ReportError, SchedulerError
from ofu_exporter.schedulers.kubernetes.api_server import ApiServer
from ofu_exporter.support.rate_limit import RateLimit
from ofu_exporter.values.reasons import ReportRejection, SchedulerReason

REMEMBER_SECONDS = 60.0
"""How long an answer is good. A pod that is deleted may report for that long."""
MOST_REMEMBERED = 4096
MOST_AT_ONCE = 4
"""Questions to the API server under way."""
PER_SECOND, BURST = 5.0, 50
"""Questions that the tokens of one address, or of one user at the Unix socket, may cost: whoever sends other tokens all
the time floods no API server."""
USERS_TOGETHER = 4
"""As many times this may all users at the socket cost together: root in a pod may take on any user id."""
RETRY_SECONDS = 10.0
"""When a report that could not be checked may come again."""
REST_SECONDS = 2.0
"""How long a server that has just failed is asked nothing more: whoever waits in line need not wait for a timeout."""
LONGEST_TOKEN = 8192
_TOKEN = re.compile(rb"[\w-]+\.[\w-]+\.[\w-]+")
"""A JSON Web Token in its compact form (RFC 7519, 3)."""

Review = Callable[[str], str | None]
"""Finds the pod, as `namespace/name`, that a token was given to; None if it is no pod's. Raises SchedulerError."""
_Answer = str | SchedulerError | None


class PodTokens:
    """The pods whose tokens have been shown of late."""

    def __init__(self, review: Review, clock: Callable[[], float] = time.monotonic) -> None:
        self._review = review
        self._clock = clock
        self._answers: OrderedDict[bytes, tuple[asyncio.Task[_Answer], float]] = OrderedDict()
        """By the token's SHA-256: the answer, which may be under way, and until when it is good."""
        self._rates: RateLimit[str] = RateLimit(PER_SECOND, BURST)
        self._of_users: RateLimit[str] = RateLimit(
            USERS_TOGETHER * PER_SECOND, USERS_TOGETHER * BURST
        )
        self._turn = asyncio.Semaphore(MOST_AT_ONCE)
        self._failure: SchedulerError | None = None
        self._rests_until = 0.0
        """Until when the server is not asked again after the failure."""

    async def pod(self, token: bytes, asker: str) -> str | None:
        """The pod that has this token; None if none has. Raises ReportError if that cannot be found out now.

        `asker` is an address, or `user UID`.
        """
        if len(token) > LONGEST_TOKEN or not _TOKEN.fullmatch(token):
            return None
        # Several reports with one token wait for one answer; a client that leaves takes it from no other.
        answer = await asyncio.shield(self._answer(token, asker))
        if isinstance(answer, SchedulerError):
            detail = f"the API server does not say whose token this is: {answer.detail}"
            reason = ReportRejection.NOT_CHECKED
            raise ReportError(
                reason, "authorization", detail, "header", retry_after=RETRY_SECONDS
            ) from answer
        return answer

    def _answer(self, token: bytes, asker: str) -> asyncio.Task[_Answer]:
        now, key = self._clock(), hashlib.sha256(token).digest()
        task, until = self._answers.get(key, (None, now))
        if task is None or until <= now:
            wait = self._rates.ask(asker, now)
            if not wait and asker.startswith("user "):
                wait = self._of_users.ask("", now)
            if wait:
                detail = (
                    "more tokens come from this address or user than the API server is asked about"
                )
                reason = ReportRejection.TOO_MANY
                raise ReportError(reason, "authorization", detail, "header", retry_after=wait)
            task = asyncio.create_task(self._ask(token.decode("ascii"), key))
            self._answers[key] = task, now + REMEMBER_SECONDS
            if len(self._answers) > MOST_REMEMBERED:
                self._answers.popitem(last=False)
        return task

    async def _ask(self, token: str, key: bytes) -> _Answer:
        async with self._turn:
            is_resting = self._failure is not None and self._clock() < self._rests_until
            answer = self._failure if is_resting else await asyncio.to_thread(self._reviewed, token)
        if isinstance(answer, SchedulerError):
            self._answers.pop(key, None)  # a later report asks again
        return answer

    def _reviewed(self, token: str) -> _Answer:
        try:
            return self._review(token)
        except SchedulerError as error:
            self._failure, self._rests_until = error, self._clock() + REST_SECONDS
            return error


AUDIENCE = "ofu-exporter"
"""What a pod's token must have been made for, so that no token for another service is good here."""
PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
_POD_NAME = "authentication.kubernetes.io/pod-name"
_ACCOUNT = "system:serviceaccount:"


class _User(BaseModel):
    username: str = ""
    extra: dict[str, list[str]] = {}


class _Status(BaseModel):
    authenticated: bool = False
    audiences: list[str] = []
    user: _User = _User()


class _TokenReview(BaseModel):
    status: _Status


def pod_of(api: ApiServer, token: str) -> str | None:
    """The pod, as `namespace/name`, to which Kubernetes gave this token for us; None if it gave it to none.

    Asked by a TokenReview (authentication.k8s.io/v1). The API server refuses the token of a pod that is gone. An answer
    without our audience is about a token for the API server itself, which no pod should show to anybody else. Raises
    SchedulerError.
    """
    spec = {"token": token, "audiences": [AUDIENCE]}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    try:
        status = _TokenReview.model_validate(api.create(PATH, review)).status
    except ValidationError as error:
        raise SchedulerError(SchedulerReason.BAD_ANSWER, f"API server: {PATH}") from error
    names = status.user.extra.get(_POD_NAME, [])
    account = status.user.username
    if not status.authenticated or AUDIENCE not in status.audiences:
        return None
    if len(names) != 1 or not account.startswith(_ACCOUNT):
        return None
    namespace = account.removeprefix(_ACCOUNT).partition(":")[0]
    return f"{namespace}/{names[0]}"
