"""To which pod a token belongs, asked of a stand-in for the API server over TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes.api_server import ApiServer
from ofu_exporter.schedulers.kubernetes.token_review import PATH, pod_of
from ofu_exporter.values.reasons import SchedulerReason
from tests.doubles import api_server
from tests.doubles.api_server import Document, review, send


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[api_server.ApiServer]:
    server = api_server.ApiServer(tmp_path / "account")
    yield server
    server.stop()


@pytest.fixture
def api(cluster: api_server.ApiServer, tmp_path: Path) -> ApiServer:
    return ApiServer(tmp_path / "account", cluster.environ)


def test_a_token_made_for_us_names_its_pod(cluster: api_server.ApiServer, api: ApiServer) -> None:
    cluster.reviews["a.b.c"] = review("trainer-0", "team")
    assert pod_of(api, "a.b.c") == "team/trainer-0"


def _without(status: Document, key: str) -> Document:
    return {name: value for name, value in status.items() if name != key}


def _user(**changes: object) -> Document:
    status = review("trainer-0")
    user = status["user"]
    assert isinstance(user, dict)
    return {**status, "user": {**user, **changes}}


REAL = json.loads(
    (Path(__file__).parent / "replies/kube-apiserver-1.20.2-tokenreviews.json").read_text()
)
"""What a real API server answered about tokens of its own making."""


def test_a_real_servers_answers_are_understood(
    cluster: api_server.ApiServer, api: ApiServer
) -> None:
    pods = {}
    for what, reply in REAL.items():
        cluster.reviews["a.b.c"] = reply["status"]
        pods[what] = pod_of(api, "a.b.c")
    assert pods.pop("for us") == "team/trainer-0"
    assert pods == dict.fromkeys(("for the API server", "for another", "of an account", "forged"))


NO_PODS: dict[str, Document] = {
    "of the API server itself": review("trainer-0", audience="https://kubernetes.default.svc"),
    "without an audience": _without(review("trainer-0"), "audiences"),
    "not authenticated": _without(review("trainer-0"), "authenticated"),
    "of a person": _user(username="ann"),
    "of two pods": _user(extra={"authentication.kubernetes.io/pod-name": ["a", "b"]}),
}


def test_any_other_token_is_no_pods(cluster: api_server.ApiServer, api: ApiServer) -> None:
    for what, cluster.reviews["a.b.c"] in NO_PODS.items():
        assert pod_of(api, "a.b.c") is None, what


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (403, b"{}", SchedulerReason.NO_PERMISSION),
        (429, b"{}", SchedulerReason.RATE_LIMITED),
        (500, b"{}", SchedulerReason.UNREACHABLE),
        (201, b"{", SchedulerReason.BAD_ANSWER),
        (201, b'{"status": {"audiences": 3}}', SchedulerReason.BAD_ANSWER),
        (404, b"{}", SchedulerReason.BAD_ANSWER),
    ],
)
def test_an_answer_that_is_none_is_an_error(
    cluster: api_server.ApiServer, api: ApiServer, status: int, body: bytes, reason: SchedulerReason
) -> None:
    cluster.answer = lambda handler, _: send(handler, body, status)
    with pytest.raises(SchedulerError) as failed:
        pod_of(api, "a.b.c")
    assert failed.value.reason is reason
    assert PATH in failed.value.detail
