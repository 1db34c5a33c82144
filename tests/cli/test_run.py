"""The real `run` and `demo`: what they serve without a GPU, and for how long."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from ofu_exporter.recordings.recording import RecordingHeader, RecordingWriter
from tests.helpers import rooms
from tests.helpers.agent import COMMAND, SOON, Agent, agent, bare_environment, call, until
from tests.helpers.values import gpu, reading


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Three seconds of two GPUs: what was over before the agent had opened it is not played."""
    path = tmp_path / "short.jsonl.gz"
    writer = RecordingWriter(
        path, RecordingHeader("nvml", True, "2026-11-23", gpus=("NVIDIA A100",)), 0.0
    )
    for device in (gpu(1), gpu(0)):
        writer.write([reading(n / 2, (n + 1) / 2, device=device) for n in range(6)])
    writer.close()
    return path


@pytest.mark.slow
def test_a_demonstration_of_a_recording_begins_anew_at_its_end(recording: Path) -> None:
    """The page of a recording that is over is empty, and a reader comes later than that."""
    with agent("demo", "--path", str(recording), "--interval", "0.2s") as running:
        assert running.logs("A recording of simulated NVIDIA A100 of 2026-11-23 is replayed")
        until(lambda: sum(running.values("ofu_gpu_observed_seconds_total")) >= 2.0)
        assert running.get("/readyz") == (200, "ok\n")


@pytest.mark.slow
def test_a_demonstration_ends_with_its_recording_where_that_is_asked_for(recording: Path) -> None:
    with agent("demo", "--path", str(recording), "--no-loop", "--interval", "0.2s") as running:
        until(lambda: running.get("/readyz")[0] == 200)
        until(lambda: running.values("ofu_gpu_unavailable", reason="recording_ended") == [1.0, 1.0])
        status, text = running.get("/readyz")
        assert status == 503
        assert "or add --loop" in text
        start = running.get("/")[1]
        assert "or add --loop" in start, "the page says what to do, and not only the reason's name"


@pytest.mark.slow
def test_a_demonstration_is_a_recording_of_an_h100_with_its_jobs_and_says_so() -> None:
    with agent("demo") as running:
        assert running.logs("A recording of NVIDIA H100 80GB HBM3 of 2026-11-23 is replayed")
        until(lambda: running.value("ofu_job_gpu_seconds_total", job_id="103"))
        assert running.value("ofu_exporter_simulated") == 1, "no GPU of this node is measured"
        note = "A recording of 2026-11-23 is replayed: no GPU of this machine is measured."
        assert note in running.get("/")[1]
        assert "The job is from a recording" in running.get("/jobs/103")[1]
        until(lambda: running.values("ofu_job_reports_total", job_id="103", outcome="accepted"))


@pytest.mark.slow
@pytest.mark.parametrize("flags", [("--simulated-gpus", "2"), ("--seed", "7")])
def test_an_option_of_the_simulation_asks_for_simulated_gpus(flags: tuple[str, str]) -> None:
    with agent("demo", *flags) as running:
        assert running.logs("Simulated data, no GPU is measured")
        until(lambda: running.values("ofu_gpu_up"))
        assert running.value("ofu_exporter_simulated") == 1


@pytest.mark.slow
def test_a_port_is_one_of_the_loopback_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    running = Agent(["demo", "--port", str(port)])
    try:
        assert running.url == f"http://127.0.0.1:{port}"
    finally:
        running.kill()


def test_a_port_and_an_address_cannot_both_be_given() -> None:
    done = call("demo", "--port", "9900", "--listen", ":9901")
    assert done.returncode == 2
    assert "--port and --listen both name the port: give one of them" in done.stderr


def test_a_recording_and_simulated_gpus_cannot_both_be_shown(recording: Path) -> None:
    done = call("demo", "--path", str(recording), "--simulated-gpus", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--simulated-gpus is an option of source simulate" in done.stderr
    done = call("demo", "--path", str(recording), "--source", "simulate")
    assert "--path is an option of source replay, but the source is simulate" in done.stderr


@pytest.mark.slow
def test_a_variable_that_is_no_setting_is_said_and_the_agent_runs() -> None:
    with agent("demo", env={"OFU_INTERVALL": "1s"}) as running:
        text = (
            "the variable OFU_INTERVALL is not a setting and is ignored; did you mean OFU_INTERVAL?"
        )
        assert sum(text in line for line in running.log) == 1


@pytest.mark.slow
def test_flags_have_the_names_of_other_exporters_too() -> None:
    command = [
        *(*COMMAND, "demo", "--web.listen-address=127.0.0.1:0", "--web.telemetry-path", "/ofu"),
        *("--log.level=warn", "--log.format=logfmt"),
    ]
    env = bare_environment({"OFU_INTERVALL": "1s", "PYTHONUNBUFFERED": "1"})
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as process:
        try:
            assert process.stdout is not None
            said = "".join(process.stdout.readline() for _ in range(5))
            found = re.search(r"^Metrics: (http://\S+)/ofu$", said, re.M)
            assert found
            assert said.endswith(f"\nPage: {found[1]}/\n")
            with urllib.request.urlopen(f"{found[1]}/ofu", timeout=SOON) as answer:
                assert b"ofu_exporter_build_info" in answer.read()
            with urllib.request.urlopen(f"{found[1]}/metrics", timeout=SOON) as answer:
                page = answer.read().decode()
            assert 'ofu_exporter_http_requests_total{code="200",path="/ofu"} 1.0' in page
        finally:
            process.terminate()
        _, log = process.communicate(timeout=SOON)
    (line,) = log.splitlines()
    assert line.startswith("time=20")
    assert ' level=warning logger=ofu_exporter.cli.settings msg="the variable OFU_INTERVALL' in line


@pytest.mark.parametrize("path", ["/healthz", "/v1/gpus", "/", "metrics", "/{x}", "/docs"])
def test_a_path_that_cannot_be_the_metrics_is_refused(path: str) -> None:
    done = call("demo", "--listen", "127.0.0.1:0", "--telemetry-path", path)
    assert done.returncode == 2
    assert "--telemetry-path" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_thread_that_hangs_does_not_hold_up_the_end() -> None:
    """As one does that looks up a job on a disk that has gone."""
    program = (
        "import threading; from ofu_exporter.cli.run import leave\n"
        "threading.Thread(target=threading.Event().wait).start(); leave()"
    )
    assert subprocess.run([COMMAND[0], "-c", program], timeout=SOON, check=False).returncode == 0


MOST_LINES = 27_000
NEEDED = ("sources.nvml", "schedulers.slurm")
NOT_FOR_AN_AGENT = ("fleet", "flops.trace.", "terminal", "traces", "validation")
ASKED = ("/metrics", "/", "/v1/gpus", "/v1/jobs", "/v1/node", "/readyz")


@pytest.mark.slow
def test_an_agent_with_nvml_and_slurm_loads_what_it_needs_and_no_more() -> None:
    """What a program loads can break it, costs memory, and has to be known by who takes it over."""
    python = (sys.executable, "-v", "-m", "ofu_exporter")
    with agent("run", "--source", "nvml", "--scheduler", "slurm", command=python) as running:

        def loaded() -> set[str]:
            line = r"import 'ofu_exporter\.(\S+)' # <"
            return {*re.findall(line, "\n".join(running.log))}

        until(lambda: {f"{driver}.driver" for driver in NEEDED} <= loaded())
        for path in ASKED:
            running.get(path)
        running.stop()
        modules = loaded()
    assert "serving.pages.node_page" in modules
    assert not [name for name in modules if name.startswith(NOT_FOR_AN_AGENT)]
    drivers = {name.removesuffix(".driver") for name in modules if name.endswith(".driver")}
    assert drivers == {*NEEDED}
    lines = sum(len(rooms.SOURCES[name].read_text().splitlines()) for name in modules)
    assert 10_000 < lines <= MOST_LINES
