"""The real `tail` command on logs that grow, rotate, are cut and hold garbage, against a real HTTP server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.doubles.report_server import ReportServer, refused, report_server
from tests.helpers.agent import COMMAND, SOON, agent, bare_environment, call, until


def megatron(
    step: int, elapsed: float, tflops: float | str = 395.76, at: float | None = None
) -> str:
    when = time.strftime("[%Y-%m-%d %H:%M:%S]", time.localtime(at))
    return (
        f" {when} iteration {step:8d}/ 5000 | elapsed time per iteration (ms): {1000 * elapsed} | "
        f"throughput per GPU (TFLOP/s/GPU): {tflops} |\n"
    )


class Tail:
    """A running `ofu-exporter tail`."""

    def __init__(self, *args: str, env: Mapping[str, str] | None = None) -> None:
        self.lines: list[str] = []
        self.errors: list[str] = []
        self.process = subprocess.Popen(
            # What a shell runs in its background ignores SIGINT, and so would all that it starts.
            ["env", "--default-signal=INT", *COMMAND, "tail", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=bare_environment({"PYTHONUNBUFFERED": "1", **(env or {})}),
        )
        self._readers = [
            threading.Thread(target=self._read, args=pair, daemon=True)
            for pair in ((self.process.stdout, self.lines), (self.process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream: Iterator[str], into: list[str]) -> None:
        into.extend(line.rstrip("\n") for line in iter(lambda: next(stream, ""), ""))

    def heard(self, text: str) -> str:
        """Wait for a text on standard error."""
        return until(lambda: [line for line in self.errors if text in line])

    def end(self, how: signal.Signals | None = None) -> int:
        if how is not None:
            self.process.send_signal(how)
        code = self.process.wait(SOON)
        for reader in self._readers:
            reader.join(SOON)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        return code


@contextlib.contextmanager
def tailing(*args: str, env: Mapping[str, str] | None = None) -> Iterator[Tail]:
    running = Tail(*args, env=env)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
        if running._readers[0].is_alive() or running.process.returncode is None:
            running.end()


@pytest.fixture
def server() -> Iterator[ReportServer]:
    with report_server() as running:
        yield running


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "train.log"


def append(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def test_a_log_that_comes_grows_is_rotated_and_cut(log: Path, server: ReportServer) -> None:
    with tailing(str(log), "--job", "42", "--url", server.url) as tail:
        tail.heard("waiting for")
        append(log, b"\xff\x00 garbage\n" + megatron(1, 12.0)[:-30].encode())
        append(log, megatron(1, 12.0)[-30:])
        until(lambda: len(server.reports) == 1)
        log.rename(log.with_suffix(".1"))
        append(log, megatron(900, 12.0, 494.7) + megatron(901, 12.0, "fast"))
        tail.heard("unreadable: throughput per GPU: 'fast' is not a number")
        os.truncate(log, 0)
        append(log, "a new beginning\n")
        assert tail.end(signal.SIGINT) == 0
    first, last = server.reports
    assert first == {
        "job_id": "42",
        "framework": "megatron",
        "tflops_per_gpu": pytest.approx(395.76),
        "step": 1,
        "start": pytest.approx(first["end"] - 12.0),
        "end": pytest.approx(time.time(), abs=60),
    }
    assert last["tflops_per_gpu"] == pytest.approx(494.7)
    assert last["start"] == pytest.approx(first["end"])
    little = "too little data: needs 60 s, has"
    assert tail.lines[0] == (
        f"MFU 40.0%, OFU 40.0%, +0.0 points: {little} 12; over 600 s +0.0 points: agree"
    )
    begin, _, end = tail.lines[1].partition(";")
    assert begin.startswith(f"MFU 50.0%, OFU 40.0%, +10.0 points: {little} ")
    assert end == " over 600 s +10.0 points: mfu_above_ofu, likely full_attention_counted"
    assert tail.errors[-1].endswith(": megatron: reports accepted 2, statements unreadable 1")


@pytest.mark.slow
def test_the_agent_itself_compares_what_a_log_says(log: Path) -> None:
    # 1003 serves chats: a job of the demo that does not report of itself
    with agent("demo", "--simulated-gpus", "6") as running:
        until(lambda: running.values("ofu_job_gpu_seconds_total", job_id="1003"))
        until(lambda: running.values("ofu_job_gpu_seconds_total", job_id="1003")[0] >= 3)
        append(log, megatron(1, 2.0))
        run = call("tail", str(log), "--once", "--job", "1003", "--url", running.url)
        assert "megatron: reports accepted 1" in run.stderr
        assert run.stdout.startswith("MFU 40.0%, OFU ")
        assert "; over 600 s " in run.stdout
        reports = {"job_id": "1003", "outcome": "accepted"}
        until(lambda: running.value("ofu_job_reports_total", **reports) == 1)


def test_facts_go_into_every_report(log: Path, server: ReportServer) -> None:
    append(log, megatron(1, 12.0))
    facts = ["--gpus", "256", "--peak-tflops", "1979", "--precision", "bf16=0.3,fp8=0.7"]
    run = call(
        *("tail", str(log), "--once", "--framework", "megatron", "--recompute", "full", *facts),
        env={"OFU_EXPORTER_URL": server.url, "SLURM_JOB_ID": "77", "OFU_EXPORTER_TOKEN": "secret"},
    )
    assert run.returncode == 0, run.stderr
    (report,) = server.reports
    assert {name: report[name] for name in report if name not in ("start", "end")} == {
        "job_id": "77",
        "tflops_per_gpu": pytest.approx(395.76),
        "step": 1,
        "gpus": 256,
        "peak_tflops": 1979.0,
        "precision": {"bf16": 0.3, "fp8": 0.7},
        "recompute": "full",
        "framework": "megatron",
    }
    assert server.tokens == ["Bearer secret"]


def test_short_iterations_are_averaged_to_ten_seconds(log: Path, server: ReportServer) -> None:
    began = time.time() - 60
    for n in range(60):
        append(log, megatron(n, 1.0, 300.0 + n % 2, at=began + n))
    assert call("tail", str(log), "--once", "--job", "1", "--url", server.url).returncode == 0
    assert 5 <= len(server.reports) <= 7
    for before, after in zip(server.reports, server.reports[1:], strict=False):
        assert after["start"] >= before["end"]
        assert after["tflops_per_gpu"] == pytest.approx(300.5, abs=0.06)


def test_standard_input_ends_with_its_writer(server: ReportServer) -> None:
    step = {"perf/mfu/actor": 0.5, "timing_s/update_actor": 30, "perf/time_per_step": 60}
    with tailing("-", "--job", "ns/run-1", "--url", server.url) as tail:
        assert tail.process.stdin is not None
        tail.process.stdin.write(json.dumps({"step": 3, "data": step}))  # without a line end
        tail.process.stdin.close()
        assert tail.end() == 0
    (report,) = server.reports
    assert (report["job_id"], report["step"]) == ("ns/run-1", 3)
    assert report["mfu"] == pytest.approx(0.25)
    assert tail.errors[-1].endswith("verl: reports accepted 1")


def test_an_old_log_says_what_cannot_be_sent(log: Path, server: ReportServer) -> None:
    append(log, megatron(1, 5.0, at=time.time() - 86400) * 3)
    run = call("tail", str(log), "--once", "--job", "1", "--url", server.url)
    assert run.returncode == 0
    assert server.reports == []
    assert "too_old: over 600 s old" in run.stderr
    assert "megatron: statements too_old 3" in run.stderr


def test_a_refusal_is_said_once_in_the_agents_words(log: Path, server: ReportServer) -> None:
    server.answer = lambda _: refused(404, "unknown_job", "job_id", "no job 9 on this node")
    for n in range(3):
        append(log, megatron(n, 12.0, at=time.time() - 60 + 12 * n))
    run = call("tail", str(log), "--once", "--job", "9", "--url", server.url)
    assert run.returncode == 0
    assert run.stdout == ""
    assert run.stderr.splitlines() == [
        "ofu-exporter tail: refused: status 404: job_id: no job 9 on this node; "
        "further ones are counted",
        "ofu-exporter tail: megatron: reports refused 3",
    ]


def test_an_agent_with_too_much_to_do_is_asked_again(log: Path, server: ReportServer) -> None:
    once = iter([refused(429, "too_many", "job_id", "too many", Retry_After="0")])
    then = server.answer
    server.answer = lambda report: next(once, None) or then(report)
    append(log, megatron(1, 12.0))
    run = call("tail", str(log), "--once", "--job", "9", "--url", server.url)
    assert "reports accepted 1" in run.stderr
    assert len(server.reports) == 2


def test_no_agent_costs_the_report_and_is_said(log: Path, server: ReportServer) -> None:
    append(log, megatron(1, 12.0))
    run = call("tail", str(log), "--once", "--job", "9", "--url", "http://127.0.0.1:1")
    assert run.returncode == 0
    assert "failed: no answer from http://127.0.0.1:1" in run.stderr


@pytest.mark.parametrize(
    ("args", "env", "message"),
    [
        (("missing.log", "--once", "--job", "1"), {}, "cannot read missing.log: no such file"),
        ((".", "--job", "1"), {}, "cannot read .: it is not a file"),
        (("n" * 300, "--once", "--job", "1"), {}, "cannot read nnnnnnnnnn"),
        (("-",), {"HOSTNAME": ""}, "--job is needed"),
        (("-", "--job", "1", "--framework", "caffe"), {}, "unknown log 'caffe'"),
        (("-", "--job", "1", "--url", "ftp://x"), {}, "--agent: ftp://x"),
        (("-", "--job", "1", "--precision", "a=b"), {}, "--precision: 'b' is not a number"),
        (("-", "--job", "1"), {"OFU_EXPORTER_RECIPE": "/none"}, "OFU_EXPORTER_RECIPE: "),
    ],
)
def test_what_cannot_be_used_is_named(
    args: tuple[str, ...], env: dict[str, str], message: str
) -> None:
    run = call("tail", *args, env={"SLURM_JOB_ID": "", **env})
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr
