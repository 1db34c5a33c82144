"""What a user sees of each fault of a host engine: the running agent on stand-ins for DCGM and NVML."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ofu_exporter.values.reasons import Reason
from tests.doubles import dcgm, nvml
from tests.end_to_end.test_faults import GPUS, down, measured
from tests.helpers.agent import agent, call, until

FLAGS = ("--interval", "0.4s", "--dcgm-interval", "0.1s", "--scheduler", "none")
ALONE = (*FLAGS, "--source", "dcgm")
A30: dict[str, dcgm.Value] = {"gpm": 0, "name": "NVIDIA A30", "compute": [8, 0], "tensor": 0.4}


@pytest.fixture
def engine(tmp_path: Path) -> dcgm.Scenario:
    scenario = dcgm.Scenario(tmp_path / "dcgm", GPUS)
    for index in range(GPUS):
        scenario.gpu(index, tensor=0.5, clock_mhz=[915], graphics=1, power=600)
    return scenario


def both(driver: nvml.Scenario, engine: dcgm.Scenario) -> dict[str, str]:
    libraries = (nvml.build().parent, dcgm.build().parent)
    return {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
        nvml.SCENARIO_VARIABLE: str(driver.path),
        dcgm.SCENARIO_VARIABLE: str(engine.path),
    }


def mixed(tmp_path: Path, engine: dcgm.Scenario) -> dict[str, str]:
    """A node with an A30 between H100s, both libraries on it."""
    driver = nvml.Scenario(tmp_path / "nvml", GPUS)
    for index in (0, 2):
        driver.gpu(index, tensor=0.5, clock_mhz=[915])
    driver.gpu(1, gpm=0, name="NVIDIA A30", device_id="20b7", cores=3584, compute=[8, 0])
    driver.gpu(1, max_clock_mhz=1440)
    engine.gpu(1, **A30, pci_id="20b710de", cycles=0, max_clock_mhz=1440, clock_mhz=[1440])
    engine.add("module 1")
    return both(driver, engine)


ALL = ["0", "1", "2"]


@pytest.mark.parametrize(
    ("reason", "broken", "mended"),
    [
        (Reason.LOST, "status 4", "status 1"),
        (Reason.NO_DRIVER, "status 7", "status 1"),
        (Reason.BLANK, "blank 1", "blank 0"),
        (Reason.IMPLAUSIBLE, "value 0", "value off"),
        (Reason.IMPLAUSIBLE, "clock_mhz 0", "clock_mhz 915"),
    ],
)
def test_one_gpu_is_down_with_its_reason_and_comes_back_by_itself(
    engine: dcgm.Scenario, reason: Reason, broken: str, mended: str
) -> None:
    with agent("run", *ALONE, env=engine.environment()) as running:
        until(lambda: measured(running) == ALL)
        engine.add(f"gpu 1 {broken}")
        until(lambda: down(running, reason))
        assert measured(running) == ["0", "2"]
        assert running.value("ofu_gpu_utilization_ratio", gpu="1") is None
        assert running.value("ofu_gpu_utilization_ratio", gpu="0") == pytest.approx(0.25, abs=1e-3)
        engine.add(f"gpu 1 {mended}")
        until(lambda: measured(running) == ALL)


def test_a_host_engine_that_was_restarted_is_read_on_and_nothing_from_before(
    engine: dcgm.Scenario,
) -> None:
    with agent("run", *ALONE, env=engine.environment()) as running:
        until(lambda: measured(running) == ALL)
        engine.add("engine 0")
        until(lambda: down(running, Reason.UNREACHABLE))
        assert measured(running) == []
        assert running.values("ofu_gpu_utilization_ratio") == []
        assert running.value("ofu_exporter_source_up", source="dcgm") == 0
        for index in range(GPUS):
            engine.gpu(index, tensor=0.25)
        engine.add("engine 1")
        until(lambda: measured(running) == ALL)
        assert running.values("ofu_gpu_tensor_active_ratio") == pytest.approx([0.25] * GPUS)


def test_a_host_engine_that_hangs_is_said_to_and_holds_up_no_stop(engine: dcgm.Scenario) -> None:
    with agent("run", *ALONE, env=engine.environment()) as running:
        until(lambda: measured(running) == ALL)
        engine.add("hang 60")
        until(lambda: down(running, Reason.HUNG))
        assert running.values("ofu_gpu_utilization_ratio") == []
        assert running.value("ofu_exporter_source_unavailable", source="dcgm", reason="hung") == 1
        assert running.get("/healthz")[0] == 200
        assert running.stop() == 0


def test_a_host_engine_that_hangs_costs_no_gpu_that_is_read_otherwise(
    tmp_path: Path, engine: dcgm.Scenario
) -> None:
    """It is asked for the A30 only, and by a thread of its own."""
    environment = mixed(tmp_path, engine)
    engine.add("hang 60")
    with agent("run", *FLAGS, "--dcgm-pre-hopper", env=environment) as running:
        until(
            lambda: running.value("ofu_exporter_source_unavailable", source="dcgm", reason="hung")
        )
        assert down(running, Reason.NOT_SUPPORTED)
        assert running.value("ofu_gpu_up", gpu="0") == 1
        begun = running.value("ofu_gpu_observed_seconds_total", gpu="0") or 0.0
        until(lambda: (running.value("ofu_gpu_observed_seconds_total", gpu="0") or 0) > begun + 1)
        engine.add("hang 0")
        until(lambda: running.value("ofu_gpu_info", gpu="1", source="dcgm"))
        until(lambda: measured(running) == ALL)
        assert running.stop() == 0


def test_an_a30_beside_an_h100_is_measured_when_asked_for_and_says_so_when_not(
    tmp_path: Path, engine: dcgm.Scenario
) -> None:
    environment = mixed(tmp_path, engine)
    done = call("check", *FLAGS, env=environment)
    assert done.returncode == 4
    assert "GPU 1: not_supported" in done.stdout
    assert "--dcgm-pre-hopper" in done.stdout
    done = call("check", *FLAGS, "--dcgm-pre-hopper", env=environment)
    assert done.returncode == 0, done.stdout
    assert "Source of GPU 1: dcgm" in done.stdout


@pytest.mark.parametrize("source", ["nvml", "dcgm"])
def test_a_gpu_in_mig_mode_without_an_instance_says_what_to_do(
    tmp_path: Path, engine: dcgm.Scenario, source: str
) -> None:
    driver = nvml.Scenario(tmp_path / "nvml", 1)
    driver.gpu(0, mig=1)
    engine.gpu(0, mig=1)
    flags = ("--interval", "0.4s", "--scheduler", "none", "--source", source)
    done = call("check", *flags, env=both(driver, engine))
    assert done.returncode == 4
    assert "no_gpu_instance (MIG is on and there is no GPU instance)" in done.stdout
    assert "nvidia-smi mig -cgi" in done.stdout


def test_cycles_summed_over_sms_that_dcgm_does_not_count_are_used(engine: dcgm.Scenario) -> None:
    """How many SMs an H100 has stands in the table of GPUs."""
    engine.add("gpu 0 cycles_per 132")
    with agent("run", *ALONE, env=engine.environment()) as running:
        until(lambda: running.value("ofu_gpu_info", gpu="0", clock_method="cycles"))
        assert running.value("ofu_gpu_sm_clock_hertz", gpu="0") == pytest.approx(915e6, rel=0.03)
        assert running.values("ofu_gpu_rejected_samples_total", reason="cycles_implausible") == []
