"""The agent lets go of the GPUs and takes them again, whatever its source: real processes, real files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles import dcgm, nvml
from tests.helpers.agent import Agent, agent, call, page_server, until

pytestmark = pytest.mark.slow

PACE = ("--interval", "0.2s", "--clock-interval", "0.1s", "--scheduler", "none")
GPUS = 2


@pytest.fixture
def node(tmp_path: Path) -> nvml.Scenario:
    scenario = nvml.Scenario(tmp_path / "nvml", GPUS)
    for index in range(GPUS):
        scenario.gpu(index, tensor=0.5, clock_mhz=[915])
    return scenario


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pause"


@pytest.fixture
def running(node: nvml.Scenario, file: Path) -> Iterator[Agent]:
    flags = ("run", "--source", "nvml", *PACE, "--pause-file", str(file))
    with agent(*flags, env=node.environment()) as running:
        yield running


def ups(running: Agent) -> list[float]:
    return running.values("ofu_gpu_up")


def is_released(running: Agent) -> bool:
    return running.value("ofu_exporter_released") == 1.0


def measured(running: Agent) -> bool:
    return ups(running) == [1.0] * GPUS


def paused_by_command(running: Agent, file: Path, *more: str) -> str:
    done = call("pause", "--pause-file", str(file), "--agent", running.url, *more)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_pause_shuts_the_driver_down_and_a_resume_takes_it_again(
    node: nvml.Scenario, file: Path, running: Agent
) -> None:
    until(lambda: measured(running))
    pid = running.process.pid
    assert node.is_held_by(pid)
    assert "holds no GPU until `ofu-exporter resume`" in paused_by_command(running, file)
    assert not node.is_held_by(pid)
    assert running.value("ofu_exporter_paused") == 1.0
    assert running.value("ofu_exporter_source_unavailable", reason="paused") == 1.0
    assert running.values("ofu_gpu_unavailable", reason="paused") == [1.0] * GPUS
    assert running.values("ofu_gpu_utilization_ratio") == []
    status, text = running.get("/readyz")
    assert (status, "paused" in text) == (503, True)
    before = running.values("ofu_gpu_observed_seconds_total")
    time.sleep(1.0)
    assert running.values("ofu_gpu_observed_seconds_total") == before
    done = call("resume", "--pause-file", str(file), "--agent", running.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert not is_released(running)
    until(lambda: measured(running))
    assert node.is_held_by(pid)
    assert running.values("ofu_gpu_observed_seconds_total") >= before
    assert running.stop() == 0


def test_the_file_alone_is_enough(node: nvml.Scenario, file: Path, running: Agent) -> None:
    until(lambda: measured(running))
    file.touch()
    until(lambda: is_released(running))
    assert not node.is_held_by(running.process.pid)
    file.unlink()
    until(lambda: measured(running))


def test_an_agent_that_starts_in_a_pause_does_not_touch_the_driver(
    node: nvml.Scenario, file: Path
) -> None:
    file.touch()
    flags = ("run", "--source", "nvml", *PACE, "--pause-file", str(file))
    with agent(*flags, env=node.environment()) as running:
        until(lambda: is_released(running))
        assert not Path(f"{node.path}.device").exists()
        file.unlink()
        until(lambda: measured(running))
        assert running.stop() == 0


def test_gpus_may_be_divided_anew_in_a_pause(
    node: nvml.Scenario, file: Path, running: Agent
) -> None:
    until(lambda: measured(running))
    paused_by_command(running, file)
    node.gpu(1, mig=1)
    node.instance(1, 1, "3g.40gb", 60, tensor=0.5)
    node.instance(1, 2, "3g.40gb", 60, tensor=0.5)
    file.unlink()
    until(lambda: running.value("ofu_gpu_up", gpu="1", gpu_instance="2") == 1.0)
    assert sorted(ups(running)) == [1.0] * 3


def test_another_driver_after_a_pause_ends_the_agent_so_that_it_is_started_anew(
    node: nvml.Scenario, file: Path, running: Agent
) -> None:
    until(lambda: measured(running))
    paused_by_command(running, file)
    node.unloaded(
        18
    )  # NVML_ERROR_LIB_RM_VERSION_MISMATCH: the library of the process is the old one
    file.unlink()
    assert running.ended() == 6


def test_a_call_that_hangs_is_not_said_to_be_let_go_of(
    node: nvml.Scenario, file: Path, running: Agent
) -> None:
    until(lambda: measured(running))
    node.gpu(1, hang_seconds=60)
    until(lambda: running.value("ofu_gpu_unavailable", gpu="1", reason="hung") == 1.0)
    done = call("pause", "--pause-file", str(file), "--agent", running.url, "--wait", "3s")
    assert done.returncode == 3
    assert "a call of the driver does not return" in done.stderr
    assert running.value("ofu_exporter_paused") == 1.0
    assert running.value("ofu_exporter_released") == 0.0
    assert running.value("ofu_exporter_source_unavailable", reason="hung") == 1.0
    assert node.is_held_by(running.process.pid)
    node.gpu(1, hang_seconds=0)
    until(lambda: is_released(running))
    assert not node.is_held_by(running.process.pid)
    assert running.stop() == 0


def test_a_pause_that_was_forgotten_ends_by_itself(
    node: nvml.Scenario, file: Path, running: Agent
) -> None:
    until(lambda: measured(running))
    assert "at most for 4s" in paused_by_command(running, file, "--for", "4s")
    assert not node.is_held_by(running.process.pid)
    until(lambda: measured(running))
    assert file.exists()
    assert running.logs("is older than 4s and is now ignored")


def test_a_pause_that_states_no_time_is_over_at_the_limit(node: nvml.Scenario, file: Path) -> None:
    file.touch()
    os.utime(file, (time.time() - 3600,) * 2)
    flags = ("run", "--source", "nvml", *PACE, "--pause-file", str(file), "--pause-limit", "50m")
    with agent(*flags, env=node.environment()) as running:
        until(lambda: measured(running))
        file.touch()
        until(lambda: is_released(running))


def test_a_reload_in_a_pause_stays_paused(tmp_path: Path, node: nvml.Scenario, file: Path) -> None:
    settings = tmp_path / "ofu.yaml"
    settings.write_text(f"source: nvml\nscheduler: none\ninterval: 0.2s\npause_file: {file}\n")
    with agent("run", "--config", str(settings), env=node.environment()) as running:
        until(lambda: measured(running))
        file.touch()
        until(lambda: is_released(running))
        settings.write_text(settings.read_text().replace("0.2s", "0.3s"))
        os.kill(running.process.pid, 1)
        assert running.logs("configuration applied")
        until(lambda: is_released(running))
        assert not node.is_held_by(running.process.pid)
        file.unlink()
        until(lambda: measured(running))


@pytest.mark.parametrize("address", ["127.0.0.1:5555", "embedded"])
def test_a_host_engine_is_let_go_of_and_read_again(
    tmp_path: Path, file: Path, address: str
) -> None:
    scenario = dcgm.Scenario(tmp_path / "scenario")
    scenario.gpu(0, tensor=0.5)
    if address == "embedded":
        scenario.add("engine 0")  # none runs beside it
    flags = ("run", "--source", "dcgm", "--interval", "500ms", "--dcgm-interval", "100ms")
    more = ("--scheduler", "none", "--pause-file", str(file), "--dcgm-address", address)
    with agent(*flags, *more, env=scenario.environment()) as running:
        until(lambda: running.value("ofu_gpu_up", gpu="0") == 1.0)
        paused_by_command(running, file)
        assert running.value("ofu_gpu_unavailable", gpu="0", reason="paused") == 1.0
        file.unlink()
        until(lambda: running.value("ofu_gpu_up", gpu="0") == 1.0)
        assert running.stop() == 0


def test_another_exporter_is_asked_no_more_in_a_pause(file: Path) -> None:
    asked: list[float] = []

    def page() -> str:
        asked.append(time.monotonic())
        return (
            'DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3"} 915\n'
            'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3"} 0.5\n'
        )

    with page_server(page) as url:
        flags = ("run", "--source", "dcgm-exporter", "--url", url, *PACE)
        with agent(*flags, "--pause-file", str(file)) as running:
            until(lambda: len(asked) > 2)
            paused_by_command(running, file)
            before = len(asked)
            time.sleep(1.0)
            assert len(asked) == before
            file.unlink()
            until(lambda: len(asked) > before)


@pytest.mark.parametrize("source", ["simulate"])
def test_what_is_made_up_is_paused_like_the_rest(source: str, file: Path) -> None:
    flags = ("run", "--source", source, *PACE, "--pause-file", str(file))
    with agent(*flags) as running:
        until(lambda: 1.0 in ups(running))
        paused_by_command(running, file)
        assert 1.0 not in ups(running)
        file.unlink()
        until(lambda: 1.0 in ups(running))


def test_without_an_agent_the_line_says_what_was_done(file: Path) -> None:
    flags = ("--pause-file", str(file), "--agent", "http://127.0.0.1:9", "--wait", "0s")
    done = call("pause", *flags)
    assert done.returncode == 3
    assert f"{file} is written, but no agent answers" in done.stderr
    assert file.exists()
    done = call("resume", *flags)
    assert done.returncode == 3
    assert "is gone, but no agent answers" in done.stderr
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--for", "soon"), "--for: 'soon' is not a duration"),
        (("--wait", "-1"), "--wait: '-1' is not a duration"),
        (("--pause-file", "/proc/no/file"), "/proc/no"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_done(
    arguments: tuple[str, ...], words: str, file: Path
) -> None:
    done = call("pause", "--pause-file", str(file), *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert not file.exists()


def test_of_several_who_pause_each_ends_its_own(file: Path) -> None:
    """One that crashed is over after the time that it stated."""
    flags = ("--source", "simulate", "--scheduler", "none", "--pause-file", str(file))
    with agent("run", *flags) as running:
        for more in ((), ("--by=mig",), ("--by=ncu", "--for=1h")):
            assert "there already" not in paused_by_command(running, file, *more)
        assert "is there already" in paused_by_command(running, file, "--by=ncu", "--for=1h")
        file.with_name(f"{file.name}.ncu~").touch()  # an editor's, which pauses nothing
        first = call("resume", "--agent", running.url, "--by=mig").stdout
        assert f"stays paused by {file}, {file}.ncu.\n" in first
        assert running.value("ofu_exporter_released") == 1.0
        os.utime(f"{file}.ncu", (0, 0))
        assert "takes the GPUs again" in call("resume", "--agent", running.url).stdout
        assert running.value("ofu_exporter_paused") == 0.0
        assert call("pause", "--agent", running.url, "--by=../x").returncode == 2
    away = call("resume", "--pause-file", str(file), "--agent", "http://127.0.0.1:9", "--wait=0s")
    assert (away.returncode, "no agent answers" in away.stderr) == (3, True)
