"""A training loop's reporter: what it sends, what it never does to the loop, and what it says of trouble."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ofu_exporter.client import Reporter
from ofu_exporter.client.reporter import _text
from tests.doubles.report_agent import report_agent
from tests.helpers.agent import until

EVERY = 0.02
REFUSED = "http://127.0.0.1:1"
"""Nothing listens there."""


@contextlib.contextmanager
def reporting(url: str, **options: Any) -> Iterator[Reporter]:
    """A reporter for quick tests, closed with time enough."""
    reporter = Reporter(**{"job_id": "7", "url": url, "every": EVERY, **options})
    try:
        yield reporter
    finally:
        reporter.close(20.0)


def until_counted(reporter: Reporter, outcome: str, least: int = 1) -> None:
    """Report until that number of reports had the outcome."""

    def counted() -> bool:
        reporter.report(mfu=0.4)
        return reporter.counts[outcome] >= least

    until(counted)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


# What is sent


@pytest.mark.slow
def test_reports_carry_the_facts_and_contiguous_intervals() -> None:
    every = 0.2  # a queue of eight overflows where the sender is held up for longer
    facts: dict[str, Any] = {
        "gpus": 256,
        "precision": {"bf16": 0.5, "fp8": 0.5},
        "recompute": "full",
        "accumulation": 8,
        "pack_length": 16384,
    }
    with report_agent() as agent:
        with reporting(agent.url, **facts, framework=None, every=every) as reporter:
            until_counted(reporter, "accepted", 5)
        assert reporter.counts["refused"] == reporter.counts["failed"] == 0
    for report in agent.reports:
        assert {name: report[name] for name in facts} == facts
        assert "framework" not in report
        assert report["job_id"] == "7"
        assert report["mfu"] == pytest.approx(0.4)
    for before, after in zip(agent.reports, agent.reports[1:], strict=False):
        assert before["end"] == after["start"]
    assert all(one["end"] - one["start"] >= every for one in agent.reports[:-1])


def test_the_answer_can_be_read() -> None:
    with report_agent() as agent, reporting(agent.url) as reporter:
        assert reporter.last_answer is None
        until_counted(reporter, "accepted")
        assert reporter.last_answer is not None
        assert reporter.last_answer["horizon"]["ofu"] == 0.3


def test_close_sends_the_rest() -> None:
    with report_agent() as agent:
        with reporting(agent.url, every=3600.0) as reporter:
            reporter.report(mfu=0.3)
            reporter.report(mfu=0.4, step=12)
        assert [one["step"] for one in agent.reports] == [12]
        assert reporter.counts["accepted"] == 1
        reporter.report(mfu=0.4)
        reporter.close()
    assert len(agent.reports) == 1


def test_a_step_alone_and_an_event_are_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFU_RUN", "llama")
    with report_agent() as agent:
        with reporting(agent.url, flops_per_token=6e9) as reporter:
            reporter.report(step=3)
            reporter.event("checkpoint", time.time() - 5.0, step=3)
            reporter.event("checkpoint", time.time() + 60.0)
            reporter.event("checkpoint", "soon")  # type: ignore[arg-type]
        alone, event = agent.reports
        assert alone.keys() == {"job_id", "run", "step", "end"}
        assert (event["event"], event["step"], event["run"]) == ("checkpoint", 3, "llama")
        assert event["end"] - event["start"] == pytest.approx(5.0, abs=1.0)
        assert reporter.counts["dropped"] == 1


@pytest.mark.parametrize("run", ["llama", None])
def test_steps_of_a_stage_are_told_apart_from_those_before(run: str | None) -> None:
    with report_agent() as agent:
        with reporting(agent.url, every=60.0, run=run) as reporter:
            reporter.stage("short")
            for step in (1, 2):
                reporter.report(step=step)
            reporter.stage("long")
            reporter.event("evaluation", time.time() - 5.0)
            reporter.report(step=1)
            reporter.stage("x" * 300)
            reporter.stage("\n")
        told = [(each.get("step"), each["run"]) for each in agent.reports]
        short, long = f"{run or 7}/short", f"{run or 7}/long"
        assert told == [(1, short), (2, short), (None, long), (1, long)]


def test_the_rest_is_sent_when_the_program_ends_without_a_word() -> None:
    program = (
        "import sys; from ofu_exporter.client import Reporter\n"
        "r = Reporter('7', sys.argv[1], every=3600)\n"
        "r.report(mfu=0.4); r.report(mfu=0.4, step=3)"
    )
    with report_agent() as agent:
        subprocess.run(
            [sys.executable, "-W", "error", "-c", program, agent.url], check=True, timeout=300
        )
    assert [one["step"] for one in agent.reports] == [3]


@pytest.mark.parametrize(
    ("values", "sent"),
    [
        ({"mfu": 0.4}, {"mfu"}),
        ({"model_flops_per_second": 1e15}, {"model_flops_per_second"}),
        ({"tflops_per_gpu": 400.0}, {"tflops_per_gpu"}),
        ({"tokens_per_second": 1e5}, {"tokens_per_second", "flops_per_token"}),
        ({"mfu": 0.4, "tokens_per_second": 1e5}, {"mfu", "tokens_per_second"}),
    ],
)
def test_each_way_to_say_it(values: dict[str, float], sent: set[str]) -> None:
    with report_agent() as agent:
        with reporting(agent.url, flops_per_token=4.8e10) as reporter:
            reporter.report(**values)  # type: ignore[arg-type]
            reporter.report(**values)  # type: ignore[arg-type]
        assert reporter.counts["accepted"] == 1
    assert agent.reports[0].keys() - {"job_id", "start", "end"} == sent


def test_over_a_unix_socket(tmp_path: Path) -> None:
    with report_agent(socket_path=tmp_path / "s") as agent, reporting(agent.url) as reporter:
        until_counted(reporter, "accepted", 2)


# What it never does to the loop


class Evil:
    """A value that fights back."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __float__(self) -> float:
        raise self.error

    def __repr__(self) -> str:
        raise self.error

    __str__ = __repr__


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


anything = st.one_of(
    st.none(),
    st.floats(),
    st.integers(),
    st.booleans(),
    st.text(),
    st.binary(),
    st.complex_numbers(),
    st.decimals(),
    st.fractions(),
    st.lists(st.integers()),
    st.builds(object),
    st.sampled_from([Evil(ValueError()), Evil(Unprintable()), Evil(MemoryError()), 10**400]),
)


@pytest.mark.slow
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300
)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "mfu",
                "model_flops_per_second",
                "tflops_per_gpu",
                "tokens_per_second",
                "step",
                "start",
            ]
        ),
        anything,
    )
)
def test_nothing_that_is_reported_raises(values: dict[str, Any]) -> None:
    with reporting(REFUSED) as reporter:
        reporter.report(**values)
        reporter.report(**values)


@pytest.mark.slow
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50
)
@given(
    st.dictionaries(
        st.sampled_from(
            ["job_id", "url", "token", "every", "gpus", "precision", "model", "peak_tflops"]
        ),
        anything,
    )
)
def test_nothing_that_it_is_made_with_raises(options: dict[str, Any]) -> None:
    with reporting(**{"url": REFUSED, **options}) as reporter:
        reporter.report(mfu=0.4)


def test_a_fact_that_there_is_none_of_is_said_and_the_others_are_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A job that was queued for a day must not end at a misspelt name."""
    with report_agent() as agent:
        surplus: Any = ["bf16"]
        made = Reporter("7", agent.url, None, 0.01, *surplus, gpu=8, gpus=4, enabled=True)  # type: ignore[call-arg]
        with made as reporter:
            until_counted(reporter, "accepted")
        assert agent.reports[0]["gpus"] == 4
        assert "gpu" not in agent.reports[0]
    assert "Reporter() has no argument gpu=..., a value without a name: left out" in caplog.text


def test_an_argument_that_there_is_none_of_costs_only_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with report_agent() as agent:
        with reporting(agent.url) as reporter:
            odd: Any = {"loss": 2.5}
            bare: Any = [0.4]

            def accepted() -> int:
                reporter.report(*bare, mfu=0.4, **odd)
                return reporter.counts["accepted"]

            until(accepted)
        assert agent.reports[0]["mfu"] == pytest.approx(0.4)
        assert "loss" not in agent.reports[0]
    text = "report() has no argument loss=..., a value without a name: left out"
    assert caplog.text.count(text) == 1


def test_a_log_handler_that_raises_costs_the_training_nothing() -> None:
    class Angry(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError(record.getMessage())

    handler = Angry()
    logging.getLogger("ofu_exporter.client").addHandler(handler)
    try:
        odd: Any = {"loss": 2.5}
        with report_agent() as agent, reporting(agent.url, **odd) as reporter:
            reporter.report(mfu=0.4, **odd)
            reporter.report(mfu="high")  # type: ignore[arg-type]
            until_counted(reporter, "accepted")
        assert reporter.counts["dropped"] == 1
        with reporting(REFUSED) as reporter:
            until_counted(reporter, "failed")
        assert Reporter(url="ftp://x").disabled
    finally:
        logging.getLogger("ofu_exporter.client").removeHandler(handler)


def test_a_fact_that_json_cannot_carry_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with report_agent() as agent:
        with reporting(
            agent.url, gpus=object(), peak_tflops=float("nan"), recompute="none"
        ) as reporter:
            until_counted(reporter, "accepted")
        assert agent.reports[0].keys().isdisjoint({"gpus", "peak_tflops"})
        assert agent.reports[0]["recompute"] == "none"
    assert len(warnings(caplog)) == 2


FORKS = """
import os, sys
from ofu_exporter.client import Reporter
reporter = Reporter("7", sys.argv[1], every=0.001)
reporter.report(mfu=0.1)
children = []
for _ in range(20):
    reporter.report(mfu=0.1)
    child = os.fork()
    if child == 0:
        for _ in range(1000):
            reporter.report(mfu=0.9)
        reporter.close(60)
        sys.exit(0 if reporter.counts is not None else 1)  # with atexit
    children.append(child)
codes = [os.waitpid(child, 0)[1] for child in children]
reporter.report(mfu=0.1)
reporter.close(20)
print(codes == [0] * 20, reporter.counts["accepted"] > 0)
"""


@pytest.mark.slow
def test_a_forked_worker_neither_sends_nor_hangs() -> None:
    with report_agent() as agent:
        command = [sys.executable, "-c", FORKS, agent.url]
        told = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)
    assert told.stdout.split() == ["True", "True"]
    assert {round(one["mfu"], 6) for one in agent.reports} == {0.1}


def test_several_threads_may_report() -> None:
    with report_agent() as agent:
        with reporting(agent.url) as reporter:
            threads = [
                threading.Thread(target=until_counted, args=(reporter, "accepted", 3))
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert reporter.counts["refused"] == 0


def test_a_call_waits_a_moment_for_that_of_another_thread_and_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with report_agent() as agent, reporting(agent.url) as reporter:
        with reporter._lock:
            other = threading.Thread(target=reporter.report, kwargs={"mfu": 0.4})
            other.start()
            other.join()
        assert reporter.counts["dropped"] == 1
    assert "another thread is reporting" in caplog.text


# What it says of trouble


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "no value"),
        ({"mfu": float("nan")}, "mfu is not a finite number"),
        ({"mfu": "0.4"}, "mfu is not a number"),
        ({"mfu": 0.4, "tflops_per_gpu": 400.0}, "say one of"),
        ({"tokens_per_second": 1e5}, "flops_per_token or model"),
    ],
)
def test_a_call_that_says_nothing_usable_is_dropped_and_said_once(
    values: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with reporting(REFUSED, every=3600.0) as reporter:
        for _ in range(3):
            reporter.report(**values)
        assert reporter.counts["dropped"] == 3
    (said,) = warnings(caplog)
    assert why in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"job_id": None}, "no job id"),
        ({"url": "ftp://node"}, "ftp://node"),
        ({"every": float("nan")}, "finite"),
        ({"token": "two\nlines"}, "header"),
        ({"url": "https://localhost", "ca": "/no/such/file"}, "No such file"),
    ],
)
def test_settings_that_cannot_be_used_disable_it_and_are_said_once(
    options: dict[str, Any],
    why: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HOSTNAME", raising=False)
    if "ca" in options:
        monkeypatch.setenv("OFU_EXPORTER_CA_FILE", options.pop("ca"))
    with reporting(**{"url": REFUSED, **options}) as reporter:
        reporter.report(mfu=0.4)
        reporter.event("checkpoint", 0.0)
        reporter.stage("rl")
        assert why in reporter.disabled
        assert set(reporter.counts.values()) == {0}
    (said,) = warnings(caplog)
    assert why in said


def test_only_the_process_with_local_rank_0_reports(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    with reporting(REFUSED) as reporter:
        assert "another process" in reporter.disabled
        reporter.report(mfu=0.4)
    with reporting(REFUSED, enabled=True) as reporter:
        assert not reporter.disabled
    assert not warnings(caplog)


def test_an_error_whose_text_raises_is_said_by_its_name() -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert _text(OddError()) == "OddError"
    assert _text(ValueError("no")) == "ValueError: no"
