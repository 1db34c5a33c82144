"""Tokens of pods: asked about once, beside the loop, and never so often that the API server suffers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ofu_exporter.errors import ReportError, SchedulerError
from ofu_exporter.schedulers.kubernetes.pod_tokens import (
    BURST,
    LONGEST_TOKEN,
    REMEMBER_SECONDS,
    REST_SECONDS,
    USERS_TOGETHER,
    PodTokens,
)
from ofu_exporter.values.reasons import ReportRejection, SchedulerReason
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
