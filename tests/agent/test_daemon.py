"""The agent as a process: starts on anything, survives everything, stops at once."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from functools import partial
from pathlib import Path

import httpx
import pytest

from ofu_exporter.schedulers.slurm import job_files
from ofu_exporter.schedulers.slurm.job_files import JobFile
from ofu_exporter.support.boot import boot_id
from ofu_exporter.values.job import Claim, Job
from tests.doubles.nvml import Scenario
from tests.doubles.slow_disk import slow_disk
from tests.helpers.agent import (
    COMMAND,
    SIMULATED,
    SOON,
    Agent,
    agent,
    bare_environment,
    page_server,
    until,
)
from tests.helpers.prometheus_server import free_port

pytestmark = pytest.mark.slow

QUICK = ("--interval", "0.2s", "--clock-interval", "0.1s")


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    """Two H100s behind the C double of NVML."""
    node = Scenario(tmp_path / "nvml.scenario")
    for index in range(2):
        node.gpu(index, uuid=f"GPU-double-{index}", tensor=0.5, clock_mhz=1464)
    return node


def measured(running: Agent) -> int:
    return sum(map(int, running.values("ofu_gpu_up")))


def test_real_pynvml_over_a_driver_double_gives_ofu(scenario: Scenario) -> None:
    with agent("run", "--source", "nvml", *QUICK, env=scenario.environment()) as running:
        until(lambda: measured(running) == 2)
        assert running.value("ofu_gpu_utilization_ratio", gpu="0") == pytest.approx(0.4, rel=1e-3)
        assert running.value("ofu_model_tensor_clock_hertz", domain="low_precision") == 1830e6
        assert running.stop() == 0


def test_auto_takes_the_driver_where_it_has_the_counters(scenario: Scenario) -> None:
    with agent("run", *QUICK, env=scenario.environment()) as running:
        until(lambda: measured(running) == 2)
        assert running.value("ofu_exporter_source_up", source="nvml") == 1


def test_auto_takes_the_page_where_the_driver_has_no_counters(scenario: Scenario) -> None:
    for index in range(2):
        scenario.gpu(index, gpm=0)
    page = (
        'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-a",modelName="NVIDIA A100-SXM4-80GB"} 0.5\n'
        'DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a",modelName="NVIDIA A100-SXM4-80GB"} 1410\n'
    )
    with (
        page_server(lambda: page) as url,
        agent("run", "--url", url, *QUICK, env=scenario.environment()) as running,
    ):
        until(lambda: running.value("ofu_exporter_source_up", source="dcgm-exporter"))
        until(lambda: running.value("ofu_gpu_utilization_ratio", uuid="GPU-a") == 0.5)


def test_a_lost_gpu_ends_alone_and_comes_back_by_itself(scenario: Scenario) -> None:
    with agent("run", "--source", "nvml", *QUICK, env=scenario.environment()) as running:
        until(lambda: measured(running) == 2)
        scenario.gpu(1, lost=1)
        until(lambda: running.value("ofu_gpu_unavailable", gpu="1", reason="lost"))
        assert running.value("ofu_gpu_utilization_ratio", gpu="1") is None
        assert running.value("ofu_gpu_up", gpu="0") == 1
        scenario.gpu(1, lost=0)
        until(lambda: measured(running) == 2)


def test_a_call_that_hangs_costs_the_others_nothing_nor_the_stop(scenario: Scenario) -> None:
    with agent("run", "--source", "nvml", *QUICK, env=scenario.environment()) as running:
        until(lambda: measured(running) == 2)
        scenario.gpu(1, hang_seconds=60)
        until(lambda: running.value("ofu_gpu_unavailable", gpu="1", reason="hung"))
        assert running.value("ofu_gpu_up", gpu="0") == 1
        assert running.get("/readyz")[0] == 200
        began = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - began < 10
        assert running.logs("a driver call did not return in time")


def test_without_a_driver_the_agent_runs_and_says_why() -> None:
    with agent("run", "--source", "nvml", *QUICK) as running:
        until(lambda: running.value("ofu_exporter_source_unavailable", reason="no_library"))
        code, text = running.get("/readyz")
        assert code == 503
        assert "Install the NVIDIA driver" in text
        assert running.get("/healthz") == (200, "ok\n")
        assert running.stop() == 0


def test_auto_never_falls_back_to_simulation() -> None:
    with agent("run", "--url", "http://127.0.0.1:1/metrics", *QUICK) as running:
        until(lambda: running.values("ofu_exporter_source_unavailable"))
        assert running.values("ofu_gpu_up") == []
        assert running.value("ofu_exporter_simulated") == 0
        assert running.logs("no source can be used: nvml: ")


def test_demo_says_where_it_is_that_it_is_simulated_and_what_to_tell_prometheus() -> None:
    with agent(*SIMULATED) as running:
        until(lambda: measured(running) == 8)
        assert running.value("ofu_exporter_simulated") == 1
        target = running.url.removeprefix("http://")
        assert running.logs("Simulated data")
        assert running.logs(f"targets: ['{target}']")


def test_stopping_is_quick_and_clean() -> None:
    with agent("run", "--source", "simulate") as running:
        until(lambda: running.get("/healthz")[0] == 200)
        keep = socket.create_connection(
            (running.url.split(":")[1][2:], int(running.url.split(":")[2]))
        )
        with keep:
            keep.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            keep.recv(100)
            assert running.stop() == 0, running.log


def test_a_reload_puts_new_settings_in_force_and_keeps_the_totals(tmp_path: Path) -> None:
    file = tmp_path / "ofu.yaml"
    file.write_text("source: simulate\nsimulated_gpus: 2\ninterval: 200ms\n")
    with agent("run", "--config", str(file)) as running:
        until(lambda: (running.value("ofu_gpu_observed_seconds_total", gpu="0") or 0) > 0.5)
        before = running.value("ofu_gpu_observed_seconds_total", gpu="0") or 0
        file.write_text("source: simulate\nsimulated_gpus: 3\ninterval: 300ms\n")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: measured(running) == 3)
        assert (running.value("ofu_gpu_observed_seconds_total", gpu="0") or 0) >= before
        assert running.value("ofu_exporter_config_reloads_total", outcome="applied") == 1


def test_a_reload_of_other_settings_ends_no_window(tmp_path: Path) -> None:
    file = tmp_path / "ofu.yaml"
    sampled = "source: simulate\nsimulated_gpus: 1\ninterval: 200ms\n"
    file.write_text(sampled)
    with agent("run", "--config", str(file)) as running:
        until(lambda: measured(running) == 1)
        file.write_text(f"{sampled}allowed_hosts: gpu.example\nmfu_above: 0.5\n")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: running.value("ofu_exporter_config_reloads_total", outcome="applied") == 1)
        assert sum("reading source" in line for line in running.log) == 1
        file.write_text(sampled.replace("200ms", "300ms"))
        running.process.send_signal(signal.SIGHUP)
        until(lambda: running.value("ofu_exporter_config_reloads_total", outcome="applied") == 2)
        until(lambda: sum("reading source" in line for line in running.log) == 2)


def test_a_reload_without_their_scheduler_ends_its_jobs(tmp_path: Path) -> None:
    file, jobs = tmp_path / "ofu.yaml", tmp_path / "jobs"
    jobs.mkdir(mode=0o755)
    claim = Claim(Job("slurm", "7"), ("0",))
    job_files.write(jobs, JobFile(claim, None, boot_id()))
    sampled = "source: simulate\nsimulated_gpus: 1\ninterval: 200ms\n"
    file.write_text(f"{sampled}scheduler: slurm\njob_dir: {jobs}\n")
    with agent("run", "--config", str(file)) as running:
        until(lambda: running.logs("job 7 holds GPU 0"))
        file.write_text(f"{sampled}scheduler: none\n")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: running.logs("job 7 has ended"))


def test_a_reload_has_the_state_file_written_at_another_interval(tmp_path: Path) -> None:
    file = tmp_path / "ofu.yaml"
    state = f"source: simulate\nsimulated_gpus: 1\nstate_file: {tmp_path / 'state'}\n"
    file.write_text(f"{state}state_interval: 1h\n")
    with agent("run", "--config", str(file)) as running:
        file.write_text(f"{state}state_interval: 100ms\n")
        running.process.send_signal(signal.SIGHUP)
        written = partial(running.value, "ofu_exporter_state_writes_total", outcome="written")
        until(lambda: (written() or 0) > 2)


def test_a_source_that_hangs_while_it_is_opened_is_let_go_of_at_a_reload(tmp_path: Path) -> None:
    """A recording on a disk that hangs, as a file on a server does that is away."""
    path, file = tmp_path / "hangs" / "recording.jsonl", tmp_path / "ofu.yaml"
    path.parent.mkdir()
    path.touch()
    file.write_text(f"source: replay\npath: {path}\n")
    hangs = 25
    began = time.monotonic()
    with agent("run", "--config", str(file), env=slow_disk(path.parent, seconds=hangs)) as running:
        until(lambda: running.value("ofu_exporter_source_unavailable", source="replay") is None)
        file.write_text("source: simulate\nsimulated_gpus: 1\ninterval: 30s\n")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: running.value("ofu_exporter_source_up", source="simulate"))
        assert time.monotonic() - began < hangs, "it still hangs"
        while (
            time.monotonic() - began < hangs + 2
        ):  # the call returns: nobody has written a recording
            time.sleep(0.05)
            assert running.value("ofu_exporter_source_up", source="simulate") == 1
            assert running.values("ofu_exporter_source_up", source="replay") == []
        assert sum("did not return in time" in line for line in running.log) == 1
        assert not running.logged("no source can be used")
        assert running.stop() == 0


def test_a_state_file_on_a_disk_that_hangs_costs_the_totals_alone(tmp_path: Path) -> None:
    state = tmp_path / "hangs" / "state"
    flags = ("--source", "simulate", "--simulated-gpus", "2", "--state-file", str(state), *QUICK)
    with agent("run", *flags, env=slow_disk(state.parent, seconds=1000)) as running:
        until(lambda: measured(running) == 2)
        assert running.logs("its file system does not answer; totals begin anew")
        assert running.value("ofu_exporter_state_writes_total", outcome="failed") == 1


def test_a_bad_reload_leaves_the_last_good_settings(tmp_path: Path) -> None:
    file = tmp_path / "ofu.yaml"
    file.write_text("source: simulate\nsimulated_gpus: 2\ninterval: 200ms\n")
    with agent("run", "--config", str(file)) as running:
        until(lambda: measured(running) == 2)
        file.write_text("source: simulate\nsimulated_gpu: 4\n")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: running.value("ofu_exporter_config_reloads_total", outcome="failed") == 1)
        assert measured(running) == 2
        assert running.logs("simulated_gpu in")
        assert running.logs("did you mean simulated_gpus?")
        assert running.value("ofu_exporter_config_last_reload_successful") == 0
        file.write_text("source: simulate\nsimulated_gpus: 4\ninterval: 200ms\n")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: running.value("ofu_exporter_config_last_reload_successful") == 1)


def test_a_changed_file_is_read_without_a_signal(tmp_path: Path) -> None:
    file = tmp_path / "ofu.yaml"
    file.write_text("source: simulate\nsimulated_gpus: 1\ninterval: 200ms\n")
    with agent("run", "--config", str(file)) as running:
        until(lambda: measured(running) == 1)
        file.write_text("source: simulate\nsimulated_gpus: 2\ninterval: 200ms\n")
        until(lambda: measured(running) == 2)


def test_a_row_of_the_users_rates_a_card_that_the_table_lacks(
    scenario: Scenario, tmp_path: Path
) -> None:
    scenario.gpu(0, name="NVIDIA Z999", device_id="1234")
    file = tmp_path / "ofu.yaml"
    file.write_text(
        "source: nvml\ninterval: 200ms\nclock_interval: 100ms\n"
        "gpus:\n  - name: NVIDIA Z999\n    tensor_clock_hz: 2.928e9\n"
    )
    with agent("run", "--config", str(file), env=scenario.environment()) as running:
        until(lambda: measured(running) == 2)
        assert running.value("ofu_gpu_info", gpu="0", rating="configured") == 1
        assert running.value("ofu_gpu_utilization_ratio", gpu="0") == pytest.approx(0.25, rel=1e-3)


def test_json_logs_are_one_object_a_line() -> None:
    import json

    with agent("run", "--source", "simulate", *QUICK, "--log-format", "json") as running:
        until(lambda: measured(running) == 8)
        running.stop()
        lines = [json.loads(line) for line in running.log]
    assert {"time", "level", "logger", "message"} <= set(lines[0])


def test_a_standard_error_that_nobody_reads_freezes_neither_http_nor_the_stop() -> None:
    out, into = os.pipe()
    os.set_blocking(into, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(into, b"x" * 4096)
    os.set_blocking(into, True)
    port = free_port()
    args = ("run", "--source", "simulate", "--listen", f"127.0.0.1:{port}")
    environment = bare_environment()
    with subprocess.Popen([*COMMAND, *args], stderr=into, env=environment) as running:
        try:
            until(lambda: answers(f"http://127.0.0.1:{port}/metrics"))
            running.send_signal(signal.SIGTERM)
            assert running.wait(SOON) == 0
        finally:
            running.kill()
            os.close(out)
            os.close(into)


def answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return "ofu_gpu_up" in httpx.get(url, timeout=SOON).text
    return False


def test_a_page_that_goes_away_takes_its_values_with_it() -> None:
    row = '{gpu="0",UUID="GPU-a",modelName="NVIDIA A100-SXM4-80GB"}'
    pages = [f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{row} 0.5\nDCGM_FI_DEV_SM_CLOCK{row} 1410\n"]
    half = pytest.approx(0.5)  # a part of a window is a product and a quotient of floats
    gone = threading.Event()
    page = lambda: "<html>login</html>" if gone.is_set() else pages[0]  # noqa: E731
    with (
        page_server(page) as url,
        agent("run", "--source", "dcgm-exporter", "--url", url, *QUICK) as running,
    ):
        until(lambda: running.value("ofu_gpu_utilization_ratio", gpu="0") == half)
        gone.set()
        until(lambda: running.value("ofu_gpu_unavailable", gpu="0", reason="not_metrics"))
        assert running.value("ofu_gpu_utilization_ratio", gpu="0") is None
        gone.clear()
        until(lambda: running.value("ofu_gpu_utilization_ratio", gpu="0") == half)


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(3))
def test_reloads_without_end_do_not_disturb_the_end(turn: int) -> None:
    with agent("run", "--source", "simulate", *QUICK) as running:
        until(lambda: running.values("ofu_gpu_utilization_ratio"))
        ended = threading.Event()

        def hang_up() -> None:
            while not ended.is_set():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(running.process.pid, signal.SIGHUP)

        asking = threading.Thread(target=hang_up)
        asking.start()
        try:
            assert running.stop() == 0, turn
        finally:
            ended.set()
            asking.join()
        # Python's own words on a signal that comes between the last look at signals and SIG_IGN.
        tracebacks = sum(line.startswith("Traceback") for line in running.log)
        assert tracebacks == sum("ignored due to race" in line for line in running.log)
