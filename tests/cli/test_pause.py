"""`pause` and `resume` for users of other profilers, and `check` on a node with DCGM."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.doubles.dcgm import Scenario, Value
from tests.helpers.agent import agent, call, until

pytestmark = pytest.mark.slow

A100: dict[str, Value] = {"gpm": 0, "cycles": 0, "compute": [8, 0], "name": "NVIDIA A100-SXM4-80GB"}


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return Scenario(tmp_path / "scenario")


@pytest.fixture
def flags(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """Those of an agent that heeds a pause, beside the host engine."""
    file = ("--pause-file", str(tmp_path / "pause"))
    with agent("run", "--source", "simulate", "--scheduler", "none", *file) as running:
        yield (*file, "--agent", running.url, "--dcgm-address", "127.0.0.1:5555")


def test_pause_and_resume_say_what_they_did(scenario: Scenario, flags: tuple[str, ...]) -> None:
    scenario.gpu(0, **A100)
    for command, word in [("pause", "Paused"), ("resume", "Resumed")]:
        done = call(command, *flags, env=scenario.environment())
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{word}: the host engine at 127.0.0.1:5555" in done.stdout
        assert f"{word}: the agent" in done.stdout


def test_the_host_engine_of_gpus_since_hopper_needs_no_pause(
    scenario: Scenario, flags: tuple[str, ...]
) -> None:
    done = call("pause", *flags, env=scenario.environment())
    assert done.returncode == 0
    assert "Nothing to do for the host engine: since Hopper" in done.stdout


def test_without_a_host_engine_the_line_says_so(scenario: Scenario, flags: tuple[str, ...]) -> None:
    done = call("pause", *flags[:-1], "127.0.0.1:1", env=scenario.environment())
    assert done.returncode == 3
    assert "DCGM at 127.0.0.1:1" in done.stderr
    assert "nv-hostengine" in done.stderr


def test_without_the_library_the_line_says_so(tmp_path: Path, flags: tuple[str, ...]) -> None:
    for name in ("libdcgm.so.4", "libdcgm.so.3"):
        (tmp_path / name).touch()
    done = call("resume", *flags, env={"LD_LIBRARY_PATH": str(tmp_path)})
    assert done.returncode == 3
    assert "libdcgm.so.4" in done.stderr


@pytest.mark.parametrize(
    ("address", "words"),
    [("embedded", "pause the agent without this option"), ("nowhere:port", "HOST:PORT")],
)
def test_what_cannot_be_paused_is_refused(
    scenario: Scenario, address: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "pause"
    flags = ("--pause-file", str(file), "--dcgm-address", address)
    done = call("pause", *flags, env=scenario.environment())
    assert done.returncode == 2
    assert words in done.stderr
    assert not file.exists()


def test_check_shows_what_a_host_engine_says_of_each_gpu(scenario: Scenario) -> None:
    scenario.gpu(0, tensor=0.5, hmma=0.5)
    scenario.gpu(1, **A100)
    scenario.gpu(2, status=4)
    arguments = ("--source", "dcgm", "--interval", "1s", "--dcgm-interval", "250ms")
    done = call("check", *arguments, "--format", "json", env=scenario.environment())
    assert done.returncode == 4, done.stderr
    answer = json.loads(done.stdout)
    assert answer["source"] == "dcgm"
    first, second, third = answer["gpus"]
    assert first["tensor_active_ratio"] == pytest.approx(0.5)
    assert first["clock_method"] == "polled"
    assert (second["reason"], third["reason"]) == ("not_supported", "lost")
    assert "--dcgm-pre-hopper" in second["detail"]


def test_auto_prefers_the_page_to_a_host_engine_that_has_no_counters(
    scenario: Scenario, tmp_path: Path
) -> None:
    scenario.gpu(0, **A100)
    (tmp_path / "libnvidia-ml.so.1").touch()  # unreadable, and before one that is really there
    arguments = ("--interval", "1s", "--url", "http://127.0.0.1:9/metrics")
    found = scenario.environment()
    path = f"{tmp_path}:{found['LD_LIBRARY_PATH']}"
    environment = {**found, "OFU_SCHEDULER": "none", "LD_LIBRARY_PATH": path}
    done = call("check", *arguments, "--format", "json", env=environment)
    answer = json.loads(done.stdout)
    # No page either: the host engine's reason is what is shown.
    assert (answer["source"], answer["gpus"][0]["reason"]) == ("dcgm", "not_supported")


def test_an_agent_outlives_its_host_engine(scenario: Scenario) -> None:
    scenario.gpu(0, tensor=0.5)
    arguments = ("run", "--source", "dcgm", "--interval", "500ms", "--dcgm-interval", "100ms")
    with agent(*arguments, env=scenario.environment()) as running:
        until(lambda: running.value("ofu_gpu_up", gpu="0") == 1.0)
        scenario.add("engine 0")
        until(lambda: running.value("ofu_gpu_unavailable", reason="unreachable") == 1.0)
        assert running.values("ofu_gpu_utilization_ratio") == []
        scenario.add("engine 1")
        until(lambda: running.value("ofu_gpu_up", gpu="0") == 1.0)
        assert running.stop() == 0


def test_the_agent_says_which_file_it_looks_for(tmp_path: Path) -> None:
    """A file that no agent looks for would pause nothing; one of another agent would pause that."""
    own = tmp_path / "own"
    flags = ("run", "--source", "simulate", "--scheduler", "none", "--pause-file", str(own))
    with agent(*flags) as running:
        assert json.loads(running.get("/v1/node")[1])["pause_file"] == str(own)
        other = tmp_path / "other"
        done = call("pause", "--pause-file", str(other), "--agent", running.url)
        assert done.returncode == 3
        assert f"looks for {own} and not for {other}" in done.stderr
        assert not other.exists()
        done = call("pause", "--agent", running.url)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"the agent at {running.url} on " in done.stdout
        assert own.exists()
        assert call("resume", "--agent", running.url).returncode == 0
        assert not own.exists()


def test_a_demonstration_has_a_pause_file_of_its_own_for_all_who_pause_at_once(
    tmp_path: Path,
) -> None:
    env = {"XDG_RUNTIME_DIR": str(tmp_path)}
    with agent("demo", env=env, command=(sys.executable, "-m", "ofu_exporter")) as running:
        said = json.loads(running.get("/v1/node")[1])["pause_file"]
        assert said == str(tmp_path / "ofu-exporter" / "demo-pause")
        with ThreadPoolExecutor(4) as at_once:
            done = [*at_once.map(lambda _: call("pause", "--agent", running.url), range(4))]
        assert {(each.returncode, each.stderr) for each in done} == {(0, "")}
        assert [path.name for path in Path(said).parent.iterdir()] == ["demo-pause"]
