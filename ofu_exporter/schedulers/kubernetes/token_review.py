"""Asks the API server whose token this is (TokenReview, authentication.k8s.io/v1)."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes.api_server import ApiServer
from ofu_exporter.values.reasons import SchedulerReason

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

    The API server refuses the token of a pod that is gone. An answer without our audience is about a token for the
    API server itself, which no pod should show to anybody else. Raises SchedulerError.
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
