"""What a followed log says is posted to a real HTTP server, and what comes back is told, each trouble once."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.client.channel import Channel
from ofu_exporter.client.identity import Token
from ofu_exporter.client.intervals import Call
from ofu_exporter.reports.tail.poster import Poster
from tests.doubles.report_server import Answer, ReportServer, accepted, refused, report_server

Reply = Callable[[dict[str, Any]], Answer]


@pytest.fixture
def server() -> Iterator[ReportServer]:
    with report_server() as running:
        yield running


class Desk:
    """A poster, what it was answered and what it said; reports follow one another."""

    def __init__(self, url: str, environ: dict[str, str] | None = None) -> None:
        self.heard: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.channel = Channel(url, {})
        self.poster = Poster(
            self.channel,
            Token(None, environ or {}, "7"),
            {"job_id": "7", "gpus": 8},
            self.heard.append,
            self.said.append,
        )
        self.at = 1_700_000_000.0

    def take(self, seconds: float, tflops: float = 400.0, step: int | None = None) -> None:
        start, self.at = self.at, self.at + seconds
        self.poster.take(Call(self.at, {"tflops_per_gpu": tflops}, step, start))


Open = Callable[..., Desk]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens desks whose connections are closed at the end."""
    desks: list[Desk] = []

    def make(*arguments: Any) -> Desk:
        desks.append(Desk(*arguments))
        return desks[-1]

    yield make
    for desk in desks:
        desk.channel.close()


@pytest.fixture
def desk(server: ReportServer, opened: Open) -> Desk:
    return opened(server.url)


def answering(server: ReportServer, *answers: Answer | Reply) -> None:
    """These answers in turn, the last one from then on."""
    waiting = list(answers)

    def answer(report: dict[str, Any]) -> Answer:
        reply = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return reply(report) if callable(reply) else reply

    server.answer = answer


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long this thread waited, without waiting; threads of earlier tests may wait as they are used to."""
    pauses: list[float] = []
    sleep, of_test = time.sleep, threading.get_ident()

    def pause(seconds: float) -> None:
        wait = pauses.append if threading.get_ident() == of_test else sleep
        wait(seconds)

    monkeypatch.setattr(time, "sleep", pause)
    return pauses


def test_a_report_of_ten_seconds_is_posted_with_the_facts(server: ReportServer, desk: Desk) -> None:
    desk.take(10.0, 400.0, step=3)
    assert server.reports == [
        {
            "job_id": "7",
            "gpus": 8,
            "tflops_per_gpu": 400.0,
            "start": desk.at - 10,
            "end": desk.at,
            "step": 3,
        }
    ]
    assert [answer["job_id"] for answer in desk.heard] == ["7"]
    assert desk.poster.counts == {"accepted": 1}
    assert desk.said == []


def test_an_mfu_is_posted_as_one_and_no_step_as_none(server: ReportServer, desk: Desk) -> None:
    desk.poster.take(Call(desk.at + 12, {"mfu": 0.4}, start=desk.at))
    (report,) = server.reports
    assert report["mfu"] == pytest.approx(0.4)
    assert not {"tflops_per_gpu", "step"} & report.keys()


def test_the_flops_of_a_token_go_with_a_rate_of_tokens_and_with_nothing_else(
    server: ReportServer, desk: Desk
) -> None:
    desk.poster.facts = {**desk.poster.facts, "flops_per_token": 6e9}
    desk.poster.take(Call(desk.at + 12, {"tokens_per_second": 9e4}, start=desk.at))
    desk.poster.take(Call(desk.at + 24, {"mfu": 0.4}, start=desk.at + 12))
    assert [report.get("flops_per_token") for report in server.reports] == [6e9, None]


def test_shorter_ones_are_averaged_and_the_rest_is_posted_at_the_end(
    server: ReportServer, desk: Desk
) -> None:
    for tflops in (100.0, 300.0, 500.0):
        desk.take(5.0, tflops)
    assert [report["tflops_per_gpu"] for report in server.reports] == [200.0]
    desk.poster.close()
    assert [report["tflops_per_gpu"] for report in server.reports] == [200.0, 500.0]
    assert desk.poster.counts == {"accepted": 2}
    assert desk.channel._connection is None, "nothing is held open"


def test_what_was_too_short_to_be_sent_is_counted(server: ReportServer, desk: Desk) -> None:
    desk.take(10.0)
    desk.take(1.0)
    desk.at += (
        30.0  # nothing was said for half a minute: what there is cannot be averaged over that
    )
    desk.take(10.0)
    desk.poster.close()
    assert desk.poster.counts == {"accepted": 2, "too_short": 1}


def test_what_cannot_be_sent_is_counted_and_said_once(server: ReportServer, desk: Desk) -> None:
    desk.take(10.0)
    for _ in range(3):
        desk.take(0.0)
    assert desk.poster.counts == {"accepted": 1, "unsendable": 3}
    assert desk.said == [
        "unsendable: the clock did not advance since the call before; further ones are counted"
    ]


def test_a_refusal_is_told_in_the_agents_words_once_for_each_kind(
    server: ReportServer, desk: Desk
) -> None:
    unknown = refused(404, "unknown_job", "job_id", "'7' holds no GPU")
    overlap = refused(409, "overlap", "end", "is 5 s before")
    ended = refused(409, "ended", "job_id", "'7' has ended")
    answering(server, unknown, unknown, overlap, ended, overlap, unknown, accepted)
    for _ in range(7):
        desk.take(10.0)
    assert desk.poster.counts == {"refused": 6, "accepted": 1}
    assert desk.said == [
        "refused: status 404: job_id: '7' holds no GPU; further ones are counted",
        "refused: status 409: end: is 5 s before; further ones are counted",
        "refused: status 409: job_id: '7' has ended; further ones are counted",
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"detail": "Not Found"}, "Not Found"),
        (
            {"detail": [{"msg": "is odd"}, "what?", {"loc": ["body", 3]}]},
            "is odd; 3: it gives no reason",
        ),
        ({"detail": []}, "it gives no reason"),
        ({}, "it gives no reason"),
        (b"<html>", "it gives no reason"),
        (b'"detail"', "it gives no reason"),
    ],
)
def test_whatever_a_refusal_says_it_is_told(
    server: ReportServer, desk: Desk, body: dict[str, Any] | bytes, words: str
) -> None:
    answering(server, (499, body, {}))
    desk.take(10.0)
    assert desk.said == [f"refused: status 499: {words}; further ones are counted"]


@pytest.mark.parametrize(
    "answer",
    [
        (500, {}, {}),
        (302, {}, {}),
        (204, {}, {}),
        (200, b"<html>", {}),
        (200, b"[]", {}),
        (200, b"[" * 100_000, {}),
        (399, {}, {}),
    ],
)
def test_an_answer_that_is_no_agents_is_a_failure(
    server: ReportServer, desk: Desk, answer: Answer
) -> None:
    answering(server, answer)
    desk.take(10.0)
    desk.take(10.0)
    assert desk.poster.counts == {"failed": 2}
    assert desk.said == [
        f"failed: {server.url} answers {answer[0]}: is this the agent?; further ones are counted"
    ]
    assert desk.heard == []


@pytest.mark.parametrize("status", [400, 499])
def test_every_status_of_the_four_hundreds_is_a_refusal(
    server: ReportServer, desk: Desk, status: int
) -> None:
    answering(server, (status, {}, {}))
    desk.take(10.0)
    assert desk.poster.counts == {"refused": 1}


def test_an_agent_that_is_away_is_said_once_and_tried_with_every_report(opened: Open) -> None:
    desk = opened("http://127.0.0.1:9")
    desk.take(10.0)
    desk.take(10.0)
    assert desk.poster.counts == {"failed": 2}
    assert desk.said == [
        "failed: no answer from http://127.0.0.1:9 ([Errno 111] Connection refused); "
        "further ones are counted"
    ]


def test_a_failure_without_words_is_told_by_its_name(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def speechless(*_: object) -> None:
        raise http.client.CannotSendRequest

    monkeypatch.setattr(desk.channel, "post", speechless)
    desk.take(10.0)
    assert f"no answer from {desk.channel.where} (CannotSendRequest)" in desk.said[0]


@pytest.mark.parametrize(
    ("retry_after", "pause"), [("3", 3.0), ("3600", 60.0), ("", 1.0), ("soon", 1.0), ("-5", 1.0)]
)
def test_an_agent_that_has_too_much_to_do_is_asked_once_more_when_it_says(
    server: ReportServer, desk: Desk, slept: list[float], retry_after: str, pause: float
) -> None:
    headers = {"Retry_After": retry_after} if retry_after else {}
    answering(server, refused(429, "too_many", "job_id", "slow down", **headers), accepted)
    desk.take(10.0)
    assert slept == [pause]
    assert desk.poster.counts == {"accepted": 1}
    assert server.reports[0] == server.reports[1], "the same report"


def test_an_agent_that_still_has_too_much_to_do_loses_that_report(
    server: ReportServer, desk: Desk, slept: list[float]
) -> None:
    answering(server, refused(429, "too_many", "job_id", "slow down", Retry_After="2"))
    desk.take(10.0)
    assert (len(server.reports), slept) == (2, [2.0])
    assert desk.poster.counts == {"refused": 1}


@pytest.mark.parametrize(("status", "kind"), [(401, "wrong_token"), (403, "not_yours")])
def test_a_token_that_was_renewed_is_read_again(
    server: ReportServer, opened: Open, tmp_path: Path, status: int, kind: str
) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    desk = opened(server.url, {"OFU_EXPORTER_TOKEN_FILE": str(file)})
    wrong = refused(status, kind, "authorization", "no")
    answering(server, wrong, accepted, wrong)
    file.write_text("new")
    desk.take(10.0)
    assert server.tokens == ["Bearer old", "Bearer new"]
    desk.take(10.0)
    assert len(server.tokens) == 3, "the same token is not tried twice"
    assert desk.poster.counts == {"accepted": 1, "refused": 1}


def test_a_report_that_had_to_wait_is_sent_again_with_its_token(
    server: ReportServer, opened: Open, tmp_path: Path, slept: list[float]
) -> None:
    file = tmp_path / "token"
    file.write_text("mine")
    desk = opened(server.url, {"OFU_EXPORTER_TOKEN_FILE": str(file)})
    answering(server, refused(429, "too_many", "job_id", "slow down"), accepted)
    desk.take(10.0)
    assert (server.tokens, slept) == (["Bearer mine"] * 2, [1.0])


def test_another_refusal_is_no_reason_to_send_it_again(
    server: ReportServer, opened: Open, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    desk = opened(server.url, {"OFU_EXPORTER_TOKEN_FILE": str(file)})
    file.write_text("new")
    answering(server, refused(404, "unknown_job", "job_id", "no"))
    desk.take(10.0)
    assert server.tokens == ["Bearer old"]
