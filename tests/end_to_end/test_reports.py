"""Reports to the running agent over real sockets: what is taken, what is refused, what is read back."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.jobs.reported_mfu import ReportedMfu
from ofu_exporter.jobs.totals import JobTotals
from tests.helpers.agent import Agent, agent, until
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
    "not UTF-8": (b'{"job_id": "\xff"}', 422, "body", "malformed"),
    # From Python 3.14 on, what ends the reading is the stack's size.
    "deep and closed": (b'{"a":' * 43_000 + b"1" + b"}" * 43_000, 422, "body", "malformed"),
    "no field": ({"job_id": "7", "mfu": 0.4, "mfus": 1}, 422, "body.mfus", "malformed"),
    "future": ({"job_id": "7", "mfu": 0.4, "end": 2e9}, 422, "body.end", "in_future"),
    "past": ({"job_id": "7", "mfu": 0.4, "start": 1.5e9}, 422, "body.start", "too_old"),
    "too fast": (
        {"job_id": "7", "tflops_per_gpu": 9e5},
        422,
        "body.tflops_per_gpu",
        "out_of_range",
    ),
    "not here": ({"job_id": "8", "mfu": 0.4}, 404, "body.job_id", "unknown_job"),
    "large": (b" " * (257 << 10), 413, "body", "too_large"),
}
"""One of each reason; what else is refused stands beside each room's code."""


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


def test_refusals_of_a_job_are_counted_with_it(running: Agent) -> None:
    post(running, {"job_id": "7", "mfu": 0.4, "start": 1.5e9})
    until(lambda: running.value("ofu_job_reports_total", job_id="7", outcome="too_old") == 1)
    assert running.value("ofu_job_reported_mfu_ratio", job_id="7") is None


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
