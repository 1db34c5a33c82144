"""Pulls of serving engines' counters, from pages that a real HTTP server serves."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from ofu_exporter.errors import ConfigError, OfuError
from ofu_exporter.reports import pulls
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.reports.pulls import LONGEST_SECONDS, Pulls
from ofu_exporter.reports.served_ledger import Ledger
from ofu_exporter.settings import PullSetting, Settings
from tests.helpers.agent import SOON, page_server, until
from tests.helpers.every import every
from tests.helpers.quiet_server import QuietHandler, answering

NOW = 1_700_000_000.0


def vllm(*flops: float | str) -> str:
    """A page of engines side by side, as vLLM writes it."""
    rows = [
        f'vllm:estimated_flops_per_gpu_total{{engine="{n}",model_name="m"}} {value}\n'
        for n, value in enumerate(flops)
    ]
    head = "# TYPE vllm:estimated_flops_per_gpu_total counter\n"
    return "vllm:num_requests_running 3.0\n" + head + "".join(rows)


class Bench:
    """Pulls on a clock of their own: one call of `pull` is one beat."""

    def __init__(self, url: str, **setting: Any) -> None:
        self.now = 0.0
        self.refusal: OfuError | None = None
        self.reports: list[dict[str, Any]] = []
        self.ledger = Ledger()
        self.pulls = Pulls(
            [PullSetting(job_id="ns/chat", url=url, **setting)],
            self._submit,
            wall=lambda: NOW + self.now,
            clock=lambda: self.now,
            ledger=self.ledger,
        )

    def _submit(self, report: dict[str, Any]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.reports.append(report)

    def pull(self, after: float = 15.0) -> str:
        """The outcome."""
        before = dict(self.pulls.engines[0].outcomes)
        self.now += after
        self.pulls.pull(self.pulls.engines[0])
        outcomes = self.pulls.engines[0].outcomes
        (changed,) = (name for name, n in outcomes.items() if n != before.get(name, 0))
        return changed


class Served:
    """What the engine's page says now."""

    page = ""
    url = ""


@pytest.fixture
def engine() -> Iterator[Served]:
    served = Served()
    with page_server(lambda: served.page) as url:
        served.url = url
        yield served


@pytest.fixture
def bench(engine: Served) -> Bench:
    return Bench(engine.url)


def test_two_values_make_a_report(engine: Served, bench: Bench) -> None:
    engine.page = vllm(1e15)
    assert bench.pull() == "begun"
    engine.page = vllm(1e15 + 15 * 300e12)
    assert bench.pull() == "reported"
    assert bench.reports == [
        {
            "job_id": "ns/chat",
            "tflops_per_gpu": 300.0,
            "start": NOW + 15,
            "end": NOW + 30,
            "framework": "vllm",
            "recompute": "none",
        }
    ]


def test_the_engines_of_one_job_are_counted_together(engine: Served) -> None:
    engine.page = vllm(1e15)
    settings = [PullSetting(job_id=job_id, url=engine.url) for job_id in ("a", "a", "b")]
    pulling = Pulls(settings, lambda _: None)
    for each in pulling.engines:
        pulling.pull(each)
    assert pulling.outcomes() == {("a", "begun"): 2, ("b", "begun"): 1}


def test_the_first_of_a_jobs_engines_reports_the_mean_over_the_gpus_of_all() -> None:
    """Reports of each alone would overlap, so that one of them stood for all of the job's GPUs."""
    now, said = 0.0, list[dict[str, Any]]()
    pages = {"one": vllm(1e15), "two": vllm(1e15, 1e15)}
    with page_server(lambda: pages["one"]) as one, page_server(lambda: pages["two"]) as two:
        urls = {"a": (one, two), "b": (one,)}
        settings = [PullSetting(job_id=job, url=url) for job, some in urls.items() for url in some]
        pulling = Pulls(settings, said.append, lambda: NOW + now, lambda: now)

        def pull() -> list[str]:
            before = [dict(each.outcomes) for each in pulling.engines]
            for each in reversed(pulling.engines):
                pulling.pull(each)
            return [
                next(name for name, n in each.outcomes.items() if n != earlier.get(name))
                for each, earlier in zip(pulling.engines, before, strict=True)
            ]

        assert pull() == ["begun"] * 3
        now = 15.0
        pages = {"one": vllm(1e15 + 15 * 600e12), "two": vllm(1e15, 1e15 + 15 * 300e12)}
        assert pull() == ["reported", "begun", "reported"], "the second of a came before the first"
        assert [(each["job_id"], each["tflops_per_gpu"]) for each in said] == [
            ("b", pytest.approx(600.0)),
            ("a", pytest.approx(300.0)),
        ]
        now = 30.0
        assert pull() == ["reported"] * 3
        now, pages["two"] = 45.0, "# no page of an engine"
        assert pull() == ["begun", "no_counter", "reported"], "one of them is not known"
        assert [each["job_id"] for each in said] == ["b", "a", "b", "a", "b"]


def test_outcomes_can_be_read_while_pulls_go_on(bench: Bench) -> None:
    """Far more of them than there are, so that a thread that counts is in time to disturb."""
    outcomes, ended = bench.pulls.engines[0].outcomes, threading.Event()
    outcomes.update({f"outcome {number}": 1 for number in range(100_000)})

    def count_more() -> None:
        for number in count(100_000):
            if ended.is_set():
                return
            outcomes[f"outcome {number}"] += 1

    thread = threading.Thread(target=count_more)
    thread.start()
    try:
        assert len(bench.pulls.outcomes()) >= 100_000
    finally:
        ended.set()
        thread.join()


def test_values_of_one_instant_make_no_rate(engine: Served, bench: Bench) -> None:
    engine.page = vllm(1e15)
    assert [bench.pull(), bench.pull(after=0.0)] == ["begun", "begun"]
    assert bench.pull(after=600.0) == "reported", "ten minutes are not too long"


def test_a_report_is_one_that_the_agent_takes(engine: Served) -> None:
    bench = Bench(engine.url, precision={"bf16": 0.3, "fp8": 0.7})
    for value in (1e15, 2e15):
        engine.page = vllm(value)
        bench.pull()
    taken = MfuReport.model_validate(bench.reports[0])
    assert (taken.job_id, taken.framework) == ("ns/chat", "vllm")


def test_sglang_and_a_precision(engine: Served) -> None:
    bench = Bench(engine.url, precision="fp8")
    for value in (1e12, 16e12):
        engine.page = f'sglang:estimated_flops_per_gpu_total{{tp_rank="0"}} {value}\n'
        bench.pull()
    assert bench.reports[0]["framework"] == "sglang"
    assert bench.reports[0]["precision"] == "fp8"
    assert bench.reports[0]["tflops_per_gpu"] == pytest.approx(1.0)


def test_the_engine_that_is_read_least_often_reports_so_that_no_rate_is_older_than_the_interval(
    engine: Served,
) -> None:
    now, said, engine.page = 0.0, list[dict[str, Any]](), vllm(1e15)
    settings = [PullSetting(job_id="a", url=engine.url, every=every) for every in (15.0, 60.0)]
    pulling = Pulls(settings, said.append, lambda: NOW + now, lambda: now)
    often, seldom = pulling.engines
    for each in (often, seldom):
        pulling.pull(each)
    for now in (15.0, 30.0, 45.0, 60.0):
        engine.page = vllm(1e15 + now * 100e12)
        pulling.pull(often)
    pulling.pull(seldom)
    now = 75.0
    engine.page = vllm(1e15 + now * 100e12)
    pulling.pull(often)
    assert [(each["start"], each["end"]) for each in said] == [(NOW, NOW + 60.0)]
    assert said[0]["tflops_per_gpu"] == pytest.approx(100.0)


def test_engines_are_averaged_since_each_is_per_gpu(engine: Served, bench: Bench) -> None:
    engine.page = vllm(1e15, 5e15)
    bench.pull()
    engine.page = vllm(1e15 + 15 * 100e12, 5e15 + 15 * 300e12)
    bench.pull()
    assert bench.reports[0]["tflops_per_gpu"] == pytest.approx(200.0)


def test_a_restarted_engine_begins_anew(engine: Served, bench: Bench) -> None:
    outcomes = []
    for values in ((5e15, 5e15), (1e12, 6e15), (2e12, 7e15)):
        engine.page = vllm(*values)
        outcomes.append(bench.pull())
    assert outcomes == ["begun", "begun", "reported"]
    engine.page = vllm(1e12, 9e15)
    assert bench.pull() == "begun", "whatever the other one did meanwhile"


def test_counters_of_two_processes_make_no_rate(engine: Served, bench: Bench) -> None:
    """Of an engine that counted more since its restart than before, or of two behind one address that answer by turns;
    a gateway may list its engines in any order."""
    first, second = (
        "".join(f"process_start_time_seconds {n}\n" for n in each) for each in ("17", "18")
    )
    engine.page = vllm(1e15) + first
    assert bench.pull() == "begun"
    engine.page = vllm(3e15) + second
    assert bench.pull() == "begun"
    engine.page = vllm(4e15) + "process_start_time_seconds 8\nprocess_start_time_seconds 1\n"
    assert bench.pull() == "reported"
    assert bench.reports[0]["tflops_per_gpu"] == pytest.approx(1e15 / 15 / 1e12)


def test_another_set_of_engines_begins_anew(engine: Served, bench: Bench) -> None:
    engine.page = vllm(1e15)
    bench.pull()
    engine.page = vllm(2e15, 1e15)
    assert bench.pull() == "begun"


def test_an_idle_engine_is_reported_and_one_that_never_counts_is_not(
    engine: Served, bench: Bench
) -> None:
    engine.page = vllm(0.0)
    assert [bench.pull(), bench.pull()] == ["served", "served"], "vLLM without the flag of MFU"
    engine.page = vllm(1e12)
    assert bench.pull() == "reported", "it begins to count"
    assert bench.pull() == "reported"
    assert bench.reports[-1]["tflops_per_gpu"] == 0.0


def test_a_failed_pull_makes_a_longer_interval_and_a_long_gap_none(
    engine: Served, bench: Bench
) -> None:
    engine.page = vllm(1e15)
    bench.pull()
    engine.page = "<html>"
    assert bench.pull() == "not_metrics"
    engine.page = vllm(1e15 + 30 * 100e12)
    assert bench.pull() == "reported"
    assert bench.reports[0]["tflops_per_gpu"] == pytest.approx(100.0)
    assert bench.reports[0]["start"] == NOW + 15
    engine.page = vllm(9e15)
    assert bench.pull(after=601.0) == "begun"


@pytest.mark.parametrize(
    ("page", "outcome"),
    [
        ("", "no_counter"),
        ("vllm:num_requests_running 1\n", "served"),
        (vllm("NaN"), "not_metrics"),
        (vllm(-1), "not_metrics"),
        ("<!DOCTYPE html>", "not_metrics"),
        (vllm(1e15) + "#" * 2000, "not_metrics"),
    ],
)
def test_what_is_no_counter_is_counted_as_what_it_is(
    engine: Served, bench: Bench, page: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulls, "MAX_PAGE_BYTES", 1000)
    engine.page = page
    assert bench.pull() == outcome
    assert bench.reports == []
    assert (engine.url in bench.pulls.engines[0].detail) == (outcome == "not_metrics")


def test_a_refusal_is_counted_and_the_next_goes_on_from_there(engine: Served, bench: Bench) -> None:
    engine.page = vllm(1e15)
    bench.pull()
    bench.refusal = ConfigError("no job ns/chat on this node")
    assert bench.pull() == "refused"
    assert bench.pulls.engines[0].detail == "no job ns/chat on this node"
    bench.refusal = None
    assert bench.pull() == "reported"
    assert bench.reports[0]["start"] == NOW + 30


def test_an_error_that_nobody_has_thought_of_is_logged_and_the_engine_is_pulled_again(
    engine: Served, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: dict[str, Any]) -> None:
        raise LookupError("gone")

    running = Pulls([PullSetting(job_id="a", url=engine.url)], broken, clock=count(0, 15).__next__)
    for value in (1e15, 2e15, 3e15):
        engine.page = vllm(value)
        running.pull(running.engines[0])
    assert running.engines[0].outcomes == {"begun": 1, "failed": 2}
    assert running.engines[0].detail == "LookupError: gone"
    lines = [record for record in caplog.records if record.exc_info]
    assert {line.message for line in lines} == {f"unexpected error while pulling from {engine.url}"}
    assert len(lines) == 2


def test_each_outcome_is_logged_once_and_only_trouble_as_a_warning(
    engine: Served, bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, pulls.__name__)
    engine.page = vllm(1e15)
    for _ in range(3):
        bench.pull()
    bench.refusal = ConfigError("no job ns/chat on this node")
    for _ in range(2):
        bench.pull()
    source = f"pull from {engine.url} for job ns/chat"
    told = [record for record in caplog.records if record.name == pulls.__name__]
    assert [(record.levelname, record.message.rstrip()) for record in told] == [
        ("INFO", f"{source}: begun"),
        ("INFO", f"{source}: reported"),
        ("WARNING", f"{source}: refused no job ns/chat on this node"),
    ]


def test_a_redirect_is_not_followed_and_nobody_is_unreachable() -> None:
    class Redirect(QuietHandler):
        def do_GET(self) -> None:
            self.reply(status=302, headers={"Location": "/metrics"})

    with answering(Redirect) as server:
        bench = Bench(f"http://user:secret@127.0.0.1:{server.server_port}/other")
        assert bench.pull() == "unreachable"
        assert "answers 302" in bench.pulls.engines[0].detail
        assert "secret" not in bench.pulls.engines[0].detail
    assert bench.pull() == "unreachable"


@pytest.mark.slow
def test_threads_pull_each_engine_and_end(engine: Served) -> None:
    reports: list[dict[str, Any]] = []
    values = iter(range(1, 1000))
    with page_server(lambda: vllm(next(values) * 1e12)) as other:
        settings = [
            PullSetting(job_id="down", url="http://127.0.0.1:1/metrics", every=1.0),
            PullSetting(job_id="up", url=other, every=1.0),
        ]
        running = Pulls(settings, reports.append)
        running.start()
        until(lambda: len(reports) >= 2)
        assert running.stop(SOON)
    down, up = running.engines
    assert set(down.outcomes) == {"unreachable"}
    assert up.outcomes["begun"] == 1
    assert {report["job_id"] for report in reports} == {"up"}
    assert reports[1]["start"] == pytest.approx(reports[0]["end"], abs=0.05)


def test_each_engine_is_pulled_at_its_own_pace(engine: Served) -> None:
    engine.page = vllm(1e15)
    running = Pulls(
        [
            PullSetting(job_id="slow", url=engine.url, every=300.0),
            PullSetting(job_id="quick", url=engine.url, every=1.0),
        ],
        lambda _: None,
    )
    running.start()
    until(lambda: sum(running.engines[1].outcomes.values()) > 1)
    assert sum(running.engines[0].outcomes.values()) == 1
    assert running.stop(SOON)


def test_pulls_that_one_took_the_time_of_are_not_made_up_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        bench.now += seconds
        return len(waits) > 3

    def pull(_: object) -> None:
        bench.now += 100.0 if len(waits) == 1 else 0.0

    monkeypatch.setattr(bench.pulls, "pull", pull)
    monkeypatch.setattr(bench.pulls, "_stop", SimpleNamespace(wait=wait))
    (engine,) = bench.pulls.engines
    bench.pulls._run(engine)
    assert waits == [0.0, 0.0, engine.setting.every, engine.setting.every]


def test_an_engine_that_hangs_does_not_hold_up_the_stop() -> None:
    asked, released = threading.Event(), threading.Event()

    def page() -> str:
        asked.set()
        released.wait(SOON)
        return ""

    with page_server(page) as url:
        running = Pulls([PullSetting(job_id="1", url=url)], lambda _: None)
        running.start()
        assert asked.wait(SOON)
        assert not running.stop(0.1)
        released.set()
        assert running.stop(SOON)


@every(
    [
        ({"job_id": "*"}, "job_id"),
        ({"job_id": "ns/*"}, "job_id"),
        ({"job_id": ""}, "job_id"),
        ({"job_id": "x" * 257}, "job_id"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"url": "127.0.0.1:8000/metrics"}, "url"),
        ({"every": "0.1s"}, "every"),
        ({"token": "x"}, "token"),
    ]
)
def test_a_setting_that_cannot_be_used_is_named(setting: dict[str, Any], field: str) -> None:
    good = {"job_id": "1", "url": "http://127.0.0.1:8000/metrics"}
    assert PullSetting.model_validate(good).every == 15.0
    with pytest.raises(ValidationError, match=field):
        PullSetting.model_validate({**good, **setting})


def test_the_example_in_the_documentation_is_accepted() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reporting.md").read_text()
    block = text.split("    pull:\n")[1].split("\n\n")[0]
    example = yaml.safe_load("pull:\n" + re.sub(r"^    ", "", block, flags=re.MULTILINE))
    assert Settings.model_validate(example).pull[0].every == 15.0


def test_an_engine_that_counts_tokens_alone_makes_no_report_and_is_counted(
    engine: Served, bench: Bench
) -> None:
    engine.page = "llamacpp:tokens_predicted_total 100\nllamacpp:requests_processing 1\n"
    assert bench.pull() == "served"
    engine.page = "llamacpp:tokens_predicted_total 160\nllamacpp:requests_processing 0\n"
    assert bench.pull() == "served"
    assert bench.reports == []
    served = bench.ledger.served()["ns/chat"]
    assert served.tokens == {("", "generation"): 60.0}
    assert served.running == {"": 0.0}


@pytest.mark.parametrize(
    ("page", "outcome"),
    [
        ("<html>", "not_metrics"),
        ("gateway_requests_total 9\n", "no_counter"),
        ("".join(f'vllm:num_requests_running{{e="{n}"}} 1\n' for n in range(2001)), "not_metrics"),
    ],
    ids=["no page", "a gateway without its engine", "too many series"],
)
def test_what_runs_is_not_known_while_the_engine_cannot_be_read(
    engine: Served, bench: Bench, page: str, outcome: str
) -> None:
    engine.page = "vllm:num_requests_running 3\n"
    bench.pull()
    assert bench.ledger.served()["ns/chat"].running == {"": 3.0}
    engine.page = page
    assert bench.pull() == outcome
    assert bench.ledger.served()["ns/chat"].running == {}


def test_a_trainers_gauge_becomes_its_reports(engine: Served) -> None:
    bench = Bench(engine.url, metric="trainer_mfu_percent", scale=0.01, precision="bf16")
    engine.page = 'trainer_mfu_percent{rank="0"} 40\ntrainer_mfu_percent{rank="1"} 42\n'
    assert bench.pull() == "begun"
    assert bench.pull() == "reported"
    (report,) = bench.reports
    assert report == {
        "job_id": "ns/chat",
        "mfu": pytest.approx(0.41),
        "start": NOW + 15,
        "end": NOW + 30,
        "precision": "bf16",
    }
    MfuReport.model_validate(report)


def test_a_gauge_that_goes_away_ends_its_reports_and_begins_anew(engine: Served) -> None:
    bench = Bench(engine.url, metric="mfu")
    engine.page = "mfu 0.4\n"
    bench.pull()
    engine.page = "mfu NaN\n"
    assert bench.pull() == "no_counter"
    engine.page = "mfu 0.4\n"
    assert bench.pull() == "begun"
    assert bench.pull(after=LONGEST_SECONDS + 1) == "begun"
    assert bench.reports == []


@pytest.mark.parametrize("metric", ["a b", "1a", "x{y}", "a" * 201])
def test_a_gauge_has_the_name_of_a_metric(metric: str) -> None:
    with pytest.raises(ValidationError, match="metric"):
        PullSetting(job_id="1", url="http://127.0.0.1/metrics", metric=metric)


def test_the_model_of_the_setting_goes_with_the_report_as_one_of_forward_passes(
    engine: Served,
) -> None:
    bench = Bench(engine.url, model={"config": {"architectures": ["X"]}, "seq_len": 4096})
    for flops in (0.0, 1e15, 2e15):
        engine.page = vllm(flops)
        bench.pull()
    report = MfuReport.model_validate(bench.reports[-1])
    assert report.model is not None
    assert (report.model.seq_len, report.model.forward_only) == (4096, True)
