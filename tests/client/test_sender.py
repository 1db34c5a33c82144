"""Reports are sent from a thread of their own, and no answer or none costs the program nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.client.channel import AgentAnswer
from ofu_exporter.client.sender import LONGEST_QUEUE, MOST_NOTICES, OnceLog
from tests.client.test_reporter import REFUSED, reporting, until_counted, warnings
from tests.doubles.report_agent import Reply, refusal, report_agent


@pytest.mark.parametrize(("status", "kind"), [(401, "wrong_token"), (403, "not_yours")])
def test_a_withdrawn_token_is_read_anew_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, kind: str
) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    monkeypatch.setenv("OFU_EXPORTER_TOKEN_FILE", str(file))
    valid = "Bearer old"

    def check(_: object, headers: Any) -> Reply | None:
        if headers["Authorization"] == valid:
            return None
        return refusal(status, "", "no such token", kind)

    with report_agent() as agent, reporting(agent.url) as reporter:
        agent.behave = check
        until_counted(reporter, "accepted")
        valid = "Bearer new"
        until_counted(reporter, "refused")
        file.write_text("new")
        until_counted(reporter, "accepted", reporter.counts["accepted"] + 1)


def test_an_agent_that_says_nothing_holds_up_neither_the_loop_nor_the_end() -> None:
    with report_agent() as agent:
        agent.behave = lambda *_: Reply(hang=True)
        with reporting(agent.url) as reporter:
            until_counted(reporter, "dropped")  # the queue has filled up behind the hanging one
            assert agent.reports
            reporter.close(0.01)
            assert reporter.counts["dropped"] > LONGEST_QUEUE
            waits = [thread for thread in threading.enumerate() if thread.name == "ofu-reporter"]
            assert waits
            agent.released.set()
        assert reporter.counts["failed"] == 1


def test_an_agent_that_is_away_costs_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with reporting(REFUSED) as reporter:
        until_counted(reporter, "failed", 3)
        until_counted(reporter, "dropped", 5)
        assert reporter.counts["accepted"] == 0
        assert reporter.last_answer is None
    (said,) = warnings(caplog)
    assert REFUSED in said
    assert "refused" in said


def test_it_goes_on_when_the_agent_is_there_again() -> None:
    with report_agent() as agent:
        agent.behave = lambda *_: Reply(vanish=True)
        with reporting(agent.url) as reporter:
            until_counted(reporter, "failed", 2)
            agent.behave = lambda *_: None
            until_counted(reporter, "accepted")


def test_the_agents_own_words_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    words = "54.27 is out of range; write 0.5427 or 54.27%"
    with report_agent() as agent:
        agent.behave = lambda *_: refusal(422, "mfu", words, "out_of_range")
        with reporting(agent.url) as reporter:
            until_counted(reporter, "refused", 4)
    assert reporter.counts["failed"] == 0
    (said,) = warnings(caplog)
    assert f"mfu: {words}" in said


def test_too_many_is_heeded_for_as_long_as_asked() -> None:
    with report_agent() as agent:
        agent.behave = lambda *_: refusal(429, "", "too many", "too_many", **{"Retry-After": "600"})
        with reporting(agent.url) as reporter:
            until_counted(reporter, "dropped", 20)
            assert reporter.counts["refused"] == 1
        assert len(agent.reports) == 1


def test_each_too_many_doubles_the_wait_and_any_other_answer_ends_that() -> None:
    with report_agent() as agent, reporting(agent.url) as reporter:
        sender = reporter._sender
        assert sender is not None
        once, again = (429, 1, 0.9), (429, 2, 1.9)
        for status, refused, waits in (once, again, (422, 0, 0.0), once, (200, 0, 0.0), once):
            begun, sender._quiet_until = time.monotonic(), 0.0
            sender._judge(AgentAnswer(status, b"{}", ""))
            assert (sender._misses, sender._quiet_until > 0) == (refused, status == 429)
            assert not waits or sender._quiet_until - begun >= waits * sender._every


@pytest.mark.parametrize(
    "reply",
    [
        Reply(500, {"detail": "oops"}),
        Reply(503, None),
        Reply(301, None, {"Location": "http://localhost:1/"}),
        Reply(200, ["no object"]),
        Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{'a': "),
        Reply(raw=b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000),
        Reply(raw=b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe{}"),
        Reply(raw=b"SSH-2.0-OpenSSH_9.2\r\n"),
        Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    ],
    ids=lambda reply: str(reply.raw or reply.status)[:40],
)
def test_what_is_no_answer_of_an_agent_fails_and_is_said_once(
    reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    with report_agent() as agent:
        agent.behave = lambda *_: reply
        with reporting(agent.url) as reporter:
            until_counted(reporter, "failed", 2)
        assert reporter.counts["accepted"] == reporter.counts["refused"] == 0
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize(
    "detail",
    [
        "only text",
        None,
        7,
        [],
        ["text"],
        [{}],
        [{"loc": "mfu", "msg": 3}],
        [{"loc": [], "msg": "m"}],
    ],
)
def test_a_refusal_of_any_shape_is_a_refusal(
    detail: object, caplog: pytest.LogCaptureFixture
) -> None:
    with report_agent() as agent:
        agent.behave = lambda *_: Reply(400, {"detail": detail})
        with reporting(agent.url) as reporter:
            until_counted(reporter, "refused", 2)
        assert reporter.counts["failed"] == 0
    assert ("only text" in caplog.text) == (detail == "only text")
    assert ("it gives no reason" in caplog.text) == (detail in (None, [], [{}]))


def test_so_many_causes_are_warned_of_and_each_once(caplog: pytest.LogCaptureFixture) -> None:
    notices = OnceLog()
    for number in range(2 * MOST_NOTICES):
        notices.say(str(number // 2), "a warning")
    notices.say("new", "one too many")
    notices.say("newer", "one too many")
    assert len(warnings(caplog)) == MOST_NOTICES
