"""Tokens of pods: asked about once, beside the loop, and never so often that the API server suffers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.errors import ReportError, SchedulerError
from ofu_exporter.schedulers.kubernetes.api_server import ApiServer
from ofu_exporter.schedulers.kubernetes.pod_tokens import (
    BURST,
    LONGEST_TOKEN,
    PATH,
    REMEMBER_SECONDS,
    REST_SECONDS,
    USERS_TOGETHER,
    PodTokens,
    pod_of,
)
from ofu_exporter.values.reasons import ReportRejection, SchedulerReason
from tests.doubles import api_server
from tests.doubles.api_server import Document, review, send
from tests.helpers.every import every


class Cluster:
    """An API server that knows two pods, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.now = 0.0
        self.is_down = False
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.tokens = PodTokens(self.review, lambda: self.now)

    def review(self, token: str) -> str | None:
        self.asked.append(token)
        assert self.may_answer.wait(10)
        if self.is_down:
            raise SchedulerError(SchedulerReason.UNREACHABLE, "API server: no answer in time")
        return {"h.one.s": "ns/one", "h.two.s": "ns/two"}.get(token)

    def pod(self, token: str, address: str = "10.0.0.7") -> str | None:
        return asyncio.run(self.tokens.pod(token.encode(), address))


def refused(cluster: Cluster, token: str) -> ReportError:
    with pytest.raises(ReportError) as error:
        cluster.pod(token)
    return error.value


def test_an_answer_is_good_for_a_minute() -> None:
    cluster = Cluster()
    for cluster.now in (0.0, REMEMBER_SECONDS - 1, REMEMBER_SECONDS + 1):
        assert cluster.pod("h.one.s") == "ns/one"
        assert cluster.pod("h.none.s") is None
    assert cluster.asked == ["h.one.s", "h.none.s"] * 2


@every(["", "abc", "a.b", "a.b.c.d", "a b.c.d", "a..c", "é.b.c", "h.one." + "s" * LONGEST_TOKEN])
def test_what_has_not_the_form_of_a_token_costs_no_question(token: str) -> None:
    cluster = Cluster()
    assert cluster.pod(token) is None
    assert not cluster.asked


def test_a_silent_api_server_is_asked_again_a_moment_later() -> None:
    cluster = Cluster()
    cluster.is_down = True
    error = refused(cluster, "h.one.s")
    assert error.reason is ReportRejection.NOT_CHECKED
    assert error.retry_after
    assert "no answer in time" in str(error)
    cluster.is_down = False
    assert refused(cluster, "h.two.s").reason is ReportRejection.NOT_CHECKED
    assert cluster.asked == ["h.one.s"], "it rests for a moment, and nobody waits for it"
    cluster.now += REST_SECONDS
    assert cluster.pod("h.one.s") == "ns/one"


def test_whoever_shows_ever_new_tokens_is_stopped_and_another_is_not() -> None:
    cluster = Cluster()
    for number in range(BURST):
        cluster.pod(f"h.{number}.s")
    assert refused(cluster, "h.one.s").reason is ReportRejection.TOO_MANY
    assert cluster.pod("h.one.s", "10.0.0.8") == "ns/one"
    assert cluster.pod("h.one.s") == "ns/one", "what is known costs no question"


def test_whoever_takes_on_one_user_id_after_another_is_stopped_too() -> None:
    cluster = Cluster()
    for number in range(USERS_TOGETHER * BURST):
        cluster.pod(f"h.{number}.s", f"user {number}")
    with pytest.raises(ReportError) as error:
        cluster.pod("h.one.s", "user 0")
    assert error.value.reason is ReportRejection.TOO_MANY
    assert cluster.pod("h.one.s", "10.0.0.8") == "ns/one"


def test_reports_with_one_token_wait_for_one_answer() -> None:
    """And the one that gives up waiting takes it from no other."""
    cluster = Cluster()
    cluster.may_answer.clear()

    async def together() -> list[str | None]:
        waiting = [asyncio.create_task(cluster.tokens.pod(b"h.one.s", "")) for _ in range(5)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        cluster.may_answer.set()
        return await asyncio.gather(*waiting[1:])

    assert asyncio.run(together()) == ["ns/one"] * 4
    assert cluster.asked == ["h.one.s"]


# What the API server says of a token, asked of a stand-in over TLS.


@pytest.fixture
def server(tmp_path: Path) -> Iterator[api_server.ApiServer]:
    started = api_server.ApiServer(tmp_path / "account")
    yield started
    started.stop()


@pytest.fixture
def api(server: api_server.ApiServer, tmp_path: Path) -> ApiServer:
    return ApiServer(tmp_path / "account", server.environ)


def test_a_token_made_for_us_names_its_pod(server: api_server.ApiServer, api: ApiServer) -> None:
    server.reviews["a.b.c"] = review("trainer-0", "team")
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
    server: api_server.ApiServer, api: ApiServer
) -> None:
    pods = {}
    for what, reply in REAL.items():
        server.reviews["a.b.c"] = reply["status"]
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


def test_any_other_token_is_no_pods(server: api_server.ApiServer, api: ApiServer) -> None:
    for what, server.reviews["a.b.c"] in NO_PODS.items():
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
    server: api_server.ApiServer, api: ApiServer, status: int, body: bytes, reason: SchedulerReason
) -> None:
    server.answer = lambda handler, _: send(handler, body, status)
    with pytest.raises(SchedulerError) as failed:
        pod_of(api, "a.b.c")
    assert failed.value.reason is reason
    assert PATH in failed.value.detail
