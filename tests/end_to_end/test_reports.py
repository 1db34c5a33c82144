"""Reports to the running agent over real sockets: what is taken, what is refused, what is read back."""

from __future__ import annotations

import json
import math
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.jobs.reported_mfu import ReportedMfu
from ofu_exporter.jobs.totals import JobTotals
from tests.bench.process import resident_mib
from tests.helpers.agent import SOON, Agent, agent, until
from tests.helpers.job_node import Node, seconds
from tests.helpers.post import post


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path)
    made.start("7", "0", "1")
    return made


@pytest.fixture
def running(node: Node) -> Iterator[Agent]:
    """An agent whose job 7 was measured already."""
    with agent(*node.flags()) as started:
        until(lambda: seconds(started) > 1.0)
        yield started


def refusals(running: Agent, reason: str) -> float:
    return running.value("ofu_exporter_rejected_reports_total", reason=reason) or 0.0


def now(ago: float = 0.0) -> float:
    return time.time() - ago


def test_a_report_is_answered_with_the_ofu_of_the_same_seconds(running: Agent) -> None:
    answer = post(running, {"job_id": "7", "mfu": 0.4, "start": now(1), "step": 100})
    assert answer.status == 200
    assert answer.body["job_id"] == "7"
    assert answer.body["mfu"] == 0.4
    assert answer.body["peak_flops"] == pytest.approx(989.4e12, rel=1e-3)
    interval, horizon = answer.body["interval"], answer.body["horizon"]
    assert 0 < interval["ofu"] < 1
    assert interval["difference"] == pytest.approx(0.4 - interval["ofu"])
    assert 0 < interval["observed_seconds"] <= 2 * 1.1
    assert interval["verdict"] == horizon["verdict"] == "insufficient_data"
    assert answer.body["causes"] == []


def test_a_report_is_on_the_page_and_in_the_api(running: Agent) -> None:
    answer = post(running, {"job_id": "7", "mfu": 0.4, "start": now(0.8)})
    until(lambda: running.value("ofu_job_reported_mfu_ratio", job_id="7"))
    assert running.value("ofu_job_reported_mfu_ratio", job_id="7") == pytest.approx(0.4)
    assert running.value("ofu_job_reports_total", job_id="7", outcome="accepted") == 1
    assert running.value("ofu_job_report_peak_flops", job_id="7") == answer.body["peak_flops"]
    assert running.value("ofu_job_report_timestamp_seconds", job_id="7") == pytest.approx(
        answer.body["interval"]["end"]
    )
    verdict = running.value("ofu_job_divergence_verdict", job_id="7", verdict="insufficient_data")
    assert verdict == 1
    until(lambda: running.value("ofu_job_divergence_ratio", job_id="7"))
    (listed,) = json.loads(running.get("/v1/jobs")[1])
    one = json.loads(running.get("/v1/jobs/7")[1])
    for shown in (listed, one):
        assert shown["reported"]["mfu_ratio"] == pytest.approx(0.4)
        assert shown["reported"]["outcomes"] == {"accepted": 1}
    gpus = {gpu["gpu"]: gpu for gpu in json.loads(running.get("/v1/gpus")[1])}
    assert [gpus[index]["jobs"] for index in "0123"] == [["7"], ["7"], [], []]
    assert gpus["0"]["peak_flops"]["bf16"] == answer.body["peak_flops"]


REFUSED: dict[str, tuple[Any, int, str, str]] = {
    "percent": ({"job_id": "7", "mfu": 54.27}, 422, "body.mfu", "malformed"),
    "negative": ({"job_id": "7", "mfu": -0.1}, 422, "body.mfu", "malformed"),
    "a number as text": ({"job_id": "7", "mfu": "0.4"}, 422, "body.mfu", "malformed"),
    "NaN": (b'{"job_id": "7", "mfu": NaN}', 422, "body.mfu", "malformed"),
    "infinity": (b'{"job_id": "7", "mfu": 1e999}', 422, "body.mfu", "malformed"),
    "no field": ({"job_id": "7", "mfu": 0.4, "mfus": 1}, 422, "body.mfus", "malformed"),
    "nothing said": ({"job_id": "7"}, 422, "body", "malformed"),
    "no job": ({"mfu": 0.4}, 422, "body.job_id", "malformed"),
    "a list": ([], 422, "body", "malformed"),
    "nothing": (b"", 422, "body", "malformed"),
    "cut short": (b"{", 422, "body.1", "malformed"),
    "not UTF-8": (b'{"job_id": "\xff"}', 422, "body", "malformed"),
    "5000 digits": (b'{"job_id": "7", "gpus": ' + b"9" * 5000 + b"}", 422, "body", "malformed"),
    "deep": (b"[" * 100_000, 422, "body", "malformed"),
    # From Python 3.14 on, what ends the reading is the stack's size.
    "deep and closed": (b'{"a":' * 43_000 + b"1" + b"}" * 43_000, 422, "body", "malformed"),
    "backwards": (
        {"job_id": "7", "mfu": 0.4, "start": 1_800_000_000, "end": 1_700_000_000},
        422,
        "body.end",
        "malformed",
    ),
    "future": ({"job_id": "7", "mfu": 0.4, "end": 2e9}, 422, "body.end", "in_future"),
    "past": ({"job_id": "7", "mfu": 0.4, "start": 1.5e9}, 422, "body.start", "too_old"),
    "precision": (
        {"job_id": "7", "mfu": 0.4, "precision": "fp4"},
        422,
        "body.precision",
        "out_of_range",
    ),
    "shares": (
        {"job_id": "7", "mfu": 0.4, "precision": {"bf16": 0.5}},
        422,
        "body.precision",
        "out_of_range",
    ),
    "too fast": (
        {"job_id": "7", "tflops_per_gpu": 9e5},
        422,
        "body.tflops_per_gpu",
        "out_of_range",
    ),
    "no model": (
        {"job_id": "7", "tokens_per_second": 1e5},
        422,
        "body.tokens_per_second",
        "out_of_range",
    ),
    "not here": ({"job_id": "8", "mfu": 0.4}, 404, "body.job_id", "unknown_job"),
    "large": (b" " * (257 << 10), 413, "body", "too_large"),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """One agent for all that it refuses: none of it leaves anything."""
    made = Node(tmp_path_factory.mktemp("node"))
    made.start("7", "0", "1")
    with agent(*made.flags()) as started:
        until(lambda: seconds(started) > 0.0)
        yield started


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_refused_named_and_counted(shared: Agent, name: str) -> None:
    body, status, field, reason = REFUSED[name]
    before = refusals(shared, reason)
    answer = post(shared, body)
    assert (answer.status, answer.field, answer.reason) == (status, field, reason)
    assert set(answer.body["detail"][0]) == {"loc", "msg", "type"}
    assert refusals(shared, reason) == before + 1
    assert post(shared, {"job_id": "7", "precision": "bf16"}).status == 200


def test_a_percentage_is_named_as_the_likely_slip(shared: Agent) -> None:
    assert "out of range; write 0.5427" in post(shared, {"job_id": "7", "mfu": 54.27}).message


def test_what_is_not_said_to_be_json_is_refused(shared: Agent) -> None:
    before = refusals(shared, "not_json")
    for kind in ("application/x-www-form-urlencoded", "text/plain"):
        answer = post(shared, {"job_id": "7", "mfu": 0.4}, Content_Type=kind)
        assert (answer.status, answer.field) == (415, "header.content-type")
    assert refusals(shared, "not_json") == before + 2


@pytest.mark.parametrize(
    "header", [{"X_Forwarded_For": "10.0.0.9"}, {"Origin": "https://example.org"}]
)
def test_what_was_passed_on_is_not_from_here(shared: Agent, header: dict[str, str]) -> None:
    before = refusals(shared, "not_local")
    answer = post(shared, {"job_id": "7", "mfu": 0.4}, **header)
    assert (answer.status, answer.field, answer.reason) == (403, "peer", "not_local")
    assert refusals(shared, "not_local") == before + 1


def test_a_body_with_many_wrong_fields_gets_a_short_answer(shared: Agent) -> None:
    answer = post(shared, {"job_id": "7", "mfu": 0.4, **{f"x{number}": 1 for number in range(60)}})
    assert answer.status == 422
    assert len(answer.body["detail"]) == 10
    long = post(shared, {"job_id": "7", "mfu": 0.4, "y" * 100_000: 1})
    assert len(json.dumps(long.body)) < 2000


def test_refusals_of_a_job_are_counted_with_it(running: Agent) -> None:
    post(running, {"job_id": "7", "mfu": 0.4, "start": 1.5e9})
    until(lambda: running.value("ofu_job_reports_total", job_id="7", outcome="too_old") == 1)
    assert running.value("ofu_job_reported_mfu_ratio", job_id="7") is None


def test_the_same_interval_twice_is_a_conflict(running: Agent) -> None:
    report = {"job_id": "7", "mfu": 0.4, "start": now(0.9), "end": now(0.1)}
    assert post(running, report).status == 200
    again = post(running, report)
    assert (again.status, again.field, again.reason) == (409, "body.end", "overlap")
    assert "two processes report" in again.message


def test_only_who_has_the_token_may_report_where_tokens_are_on(node: Node, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("open-sesame-open-sesame\n")
    tokens.chmod(0o600)
    flags = ("--job-tokens", "--report-token-file", str(tokens))
    report = {"job_id": "7", "mfu": 0.4}
    with agent(*node.flags(), *flags) as running:
        until(lambda: seconds(running) > 0)
        bare = post(running, report)
        assert (bare.status, bare.field, bare.reason) == (401, "header.authorization", "no_token")
        wrong = post(running, report, Authorization="Bearer open-sesame-open-barley")
        assert (wrong.status, wrong.field, wrong.reason) == (403, "body.job_id", "not_yours")
        garbled = post(running, report, Authorization="Basic b3Blbg==")
        assert (garbled.status, garbled.reason) == (401, "wrong_token")
        assert post(running, report, Authorization="Bearer open-sesame-open-sesame").status == 200
        for reason in ("no_token", "not_yours", "wrong_token"):
            assert refusals(running, reason) == 1


def test_a_body_that_does_not_come_is_not_waited_for(running: Agent) -> None:
    """The request says that it has a body, and sends none of it."""
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), SOON) as connection:
        connection.sendall(
            b"POST /v1/mfu HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"Content-Length: 30\r\n\r\n{"
        )
        connection.settimeout(SOON)
        answer = b"".join(iter(lambda: connection.recv(1 << 12), b"")).decode()
    assert answer.startswith("HTTP/1.1 408")
    assert '"too_slow"' in answer
    assert refusals(running, "too_slow") == 1


def test_jobs_without_a_gpu_here_are_kept_where_the_site_says_so(node: Node) -> None:
    with agent(*node.flags(), "--unowned-reports") as running:
        until(lambda: running.value("ofu_gpu_up", gpu="0"))
        assert post(running, {"job_id": "head", "mfu": 0.4}).status == 200
        until(lambda: running.value("ofu_job_reported_mfu_ratio", job_id="head"))
        nothing = post(
            running, {"job_id": "head", "model_flops_per_second": 1e15, "peak_tflops": 9}
        )
        assert (nothing.status, nothing.field) == (422, "body.gpus")


def reported(running: Agent) -> ReportedMfu | None:
    """What is known of the job's reports; None before the job itself is seen."""
    status, body = running.get("/v1/jobs/7")
    return JobTotals.model_validate_json(body).reported if status == 200 else None


def test_what_was_reported_is_kept_over_a_restart(node: Node) -> None:
    with agent(*node.flags()) as running:
        until(lambda: seconds(running) > 3.0)
        end = now(0.1)
        assert (
            post(running, {"job_id": "7", "mfu": 0.4, "start": end - 0.6, "end": end}).status == 200
        )

        def compared() -> bool:
            known = reported(running)
            return known is not None and known.gpu_seconds > 1.1

        until(compared)
        assert running.stop() == 0
    with agent(*node.flags()) as running:
        until(lambda: running.value("ofu_job_reports_total", job_id="7", outcome="accepted"))
        known = reported(running)
        assert known is not None
        assert known.mfu_ratio == pytest.approx(0.4)
        assert known.gpu_seconds == pytest.approx(1.2, abs=0.02)
        settled = running.value("ofu_job_compared_gpu_seconds_total", job_id="7")
        assert settled == pytest.approx(known.gpu_seconds), "the counter goes on and does not fall"
        again = post(running, {"job_id": "7", "mfu": 0.4, "start": end - 0.6, "end": end})
        assert again.status == 409


def test_a_reload_changes_what_reports_are_compared_over(node: Node, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("horizon: 10m\n")
    with agent(*node.flags(), "--config", str(settings)) as running:
        until(lambda: seconds(running) > 0.5)
        horizon = post(running, {"job_id": "7", "mfu": 0.4}).body["horizon"]
        assert horizon["end"] - horizon["start"] == pytest.approx(600)
        settings.write_text("horizon: 5m\nmfu_above: 0.9\n")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: running.value("ofu_exporter_config_reloads_total", outcome="applied"))
        horizon = post(running, {"job_id": "7", "mfu": 0.4}).body["horizon"]
        assert horizon["end"] - horizon["start"] == pytest.approx(300)
        assert math.isfinite(horizon["mfu"] or 0.4)


def test_large_wrong_bodies_do_not_gather_in_memory(running: Agent) -> None:
    """The chart's limit is 256 MiB, and each of these is some 3 MiB once it is read."""
    body = json.dumps({f"field-{number}": 1 for number in range(14_000)}).encode()
    before = resident_mib(running.process.pid, "VmHWM")
    statuses = [post(running, body).status for _ in range(64)]
    assert statuses[:16] == [422] * 16
    assert {*statuses} <= {422, 429}, "after some the rest is refused unread"
    assert resident_mib(running.process.pid, "VmHWM") < before + 32
