"""What a user sees of each fault of the driver: the running agent on a stand-in for NVML."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ofu_exporter.values.reasons import Reason
from tests.doubles.nvml import Scenario
from tests.helpers.agent import Agent, agent, call, page_server, until
from tests.helpers.node import EPOCH, Node

FLAGS = (
    *("run", "--source", "nvml", "--interval", "0.2s", "--clock-interval", "0.1s"),
    *("--scheduler", "none"),
)
GPUS = 3


@pytest.fixture
def node(tmp_path: Path) -> Scenario:
    scenario = Scenario(tmp_path / "nvml", GPUS)
    for index in range(GPUS):
        scenario.gpu(index, tensor=0.5, clock_mhz=[915])
    return scenario


def measured(running: Agent) -> list[str]:
    return [str(i) for i in range(GPUS) if running.value("ofu_gpu_up", gpu=str(i)) == 1]


def down(running: Agent, reason: Reason, gpu: str = "1") -> bool:
    return running.value("ofu_gpu_unavailable", gpu=gpu, reason=reason.value) == 1


ONE_GPU: list[tuple[Reason, Callable[[Scenario], None], Callable[[Scenario], None]]] = [
    (Reason.LOST, lambda s: s.gpu(1, lost=1), lambda s: s.gpu(1, lost=0)),
    (
        Reason.LOST,
        lambda s: s.error("nvmlGpmSampleGet", 16, gpu=1),
        lambda s: s.error("nvmlGpmSampleGet", 0, gpu=1),
    ),
    (Reason.HUNG, lambda s: s.gpu(1, hang_seconds=60), lambda s: s.gpu(1, hang_seconds=0)),
    (
        Reason.NO_PERMISSION,
        lambda s: s.error("nvmlGpmSampleGet", 17, gpu=1),
        lambda s: s.error("nvmlGpmSampleGet", 0, gpu=1),
    ),
    (
        Reason.COUNTER_BUSY,
        lambda s: s.error("nvmlGpmSampleGet", 19, gpu=1),
        lambda s: s.error("nvmlGpmSampleGet", 0, gpu=1),
    ),
    (
        Reason.BLANK,
        lambda s: s.error("nvmlGpmMetricsGet", 27, gpu=1),
        lambda s: s.error("nvmlGpmMetricsGet", 0, gpu=1),
    ),
    (Reason.IMPLAUSIBLE, lambda s: s.gpu(1, clock_mhz=[0]), lambda s: s.gpu(1, clock_mhz=[915])),
    (
        Reason.IMPLAUSIBLE,
        lambda s: s.gpu(1, tensor=0, graphics=1, power=600),
        lambda s: s.gpu(1, tensor=0.5),
    ),
    (
        Reason.IMPLAUSIBLE,
        lambda s: s.gpu(1, dead=1, graphics=1, power=650),
        lambda s: s.gpu(1, dead=0),
    ),
]


@pytest.mark.parametrize(("reason", "break_", "mend"), ONE_GPU)
def test_one_gpu_is_down_with_its_reason_and_comes_back_by_itself(
    node: Scenario,
    reason: Reason,
    break_: Callable[[Scenario], None],
    mend: Callable[[Scenario], None],
) -> None:
    with agent(*FLAGS, env=node.environment()) as running:
        until(lambda: measured(running) == ["0", "1", "2"])
        break_(node)
        until(lambda: down(running, reason))
        assert measured(running) == ["0", "2"]
        assert running.value("ofu_gpu_utilization_ratio", gpu="1") is None
        assert running.value("ofu_gpu_utilization_ratio", gpu="0") == pytest.approx(0.25, abs=1e-3)
        mend(node)
        until(lambda: measured(running) == ["0", "1", "2"])
        assert running.stop() == 0


def test_samples_that_are_not_believed_are_counted(node: Scenario) -> None:
    node.gpu(1, clock_mhz=[0])
    with agent(*FLAGS, env=node.environment()) as running:
        until(lambda: running.value("ofu_gpu_rejected_samples_total", reason="clock_zero"))
        assert running.value("ofu_gpu_observed_seconds_total", gpu="1") is None


@pytest.mark.parametrize("code", [9, 18])
def test_a_driver_replaced_under_the_agent_ends_it_with_a_code_of_its_own(
    node: Scenario, code: int
) -> None:
    """A process never lets go of the library that it has loaded: only a new one can use the new driver."""
    with agent(*FLAGS, env=node.environment()) as running:
        until(lambda: measured(running) == ["0", "1", "2"])
        node.unloaded(code)
        assert running.ended() == 6
        assert running.logs("the driver was replaced. ")


def test_one_gpu_whose_driver_is_gone_does_not_end_the_agent(node: Scenario) -> None:
    with agent(*FLAGS, env=node.environment()) as running:
        until(lambda: measured(running) == ["0", "1", "2"])
        node.error("nvmlGpmSampleGet", 9, gpu=1)
        until(lambda: down(running, Reason.DRIVER_REPLACED))
        assert measured(running) == ["0", "2"]
        assert running.process.poll() is None


@pytest.mark.parametrize(
    ("code", "reason"),
    [(4, "no_permission"), (9, "no_driver"), (18, "driver_mismatch"), (12, "no_library")],
)
def test_a_driver_that_cannot_be_used_from_the_start_is_waited_for(
    node: Scenario, code: int, reason: str
) -> None:
    """Not ended: a restart would find the same."""
    node.unloaded(code)
    with agent(*FLAGS, env=node.environment()) as running:
        until(lambda: running.value("ofu_exporter_source_unavailable", reason=reason) == 1)
        assert reason in running.get("/readyz")[1]
        node.unloaded(0)
        until(lambda: measured(running) == ["0", "1", "2"])


PAGE = (
    'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu="1",UUID="{uuid}",modelName="NVIDIA A30"}} 0.{digits}\n'
    'DCGM_FI_DEV_SM_CLOCK{{gpu="1",UUID="{uuid}",modelName="NVIDIA A30"}} 1440\n'
)


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    return "" if done.returncode else done.stdout


def test_a_node_with_an_a30_and_h100s_measures_each_by_what_can(node: Scenario) -> None:
    node.gpu(1, gpm=0, name="NVIDIA A30", device_id="20b7", cores=3584, compute=[8, 0])
    node.gpu(1, max_clock_mhz=1440)
    digits = iter(range(500, 10**6))

    def page() -> str:
        return PAGE.format(uuid="GPU-00000000-0000-0000-0000-000000000001", digits=next(digits))

    with page_server(page) as url:
        flags = (*FLAGS[:1], *FLAGS[3:], "--url", url, "--collect-interval", "0.2s")
        with agent(*flags, env=node.environment()) as running:
            until(lambda: measured(running) == ["0", "1", "2"])
            for gpu, source, method in [("0", "nvml", "polled"), ("1", "dcgm-exporter", "point")]:
                info = {"gpu": gpu, "source": source, "clock_method": method}
                assert running.value("ofu_gpu_info", **info) == 1
            assert running.value("ofu_exporter_source_up", source="nvml") == 1
            assert running.value("ofu_exporter_source_up", source="dcgm-exporter") == 1
            assert "nvml, dcgm-exporter" in running.get("/")[1]
        # An exporter that this busy machine lets not answer at once is said to hang, and `check` is run again.
        shown = until(lambda: succeeded(call("check", *flags[1:], env=node.environment())))
        assert "Source of GPU 1: dcgm-exporter" in shown


# --- the node's clock is set ---------------------------------------------------------------------------


@pytest.mark.parametrize("step", [-3600.0, -2.0, 2.0, 86400.0])
def test_a_clock_that_is_set_is_counted_and_costs_no_window(step: float) -> None:
    node = Node(1)
    node.run(0.0, 50.0)
    before = node.last.gpus[0]
    node.set_clock(step)
    node.run(50.0, 100.0)
    after = node.last.gpus[0]
    assert node.last.clock_steps == 1
    assert after.observed_seconds == before.observed_seconds + 50.0 == 100.0
    assert after.utilization_seconds == pytest.approx(2 * before.utilization_seconds)


def test_a_clock_that_time_servers_keep_is_not_set() -> None:
    node = Node(1)
    for n in range(100):
        node.set_clock(0.0025 * (n % 3 - 1))
        node.run(5.0 * n, 5.0 * (n + 1))
    assert node.last.clock_steps == 0
    assert node.epoch == pytest.approx(EPOCH, abs=1.0)


def test_a_container_that_lost_its_device_files_is_made_anew(node: Scenario) -> None:
    """As after `systemctl daemon-reload`: every call answers 999. One such GPU beside good ones is no reason for it."""
    with agent(*FLAGS, env=node.environment()) as running:
        until(lambda: len(measured(running)) == GPUS)
        node.error("nvmlGpmSampleGet", 999, gpu=1)
        until(lambda: down(running, Reason.NO_DEVICE_FILES))
        assert running.get("/healthz") == (200, "ok\n")
        node.unloaded(999)
        until(lambda: running.get("/healthz")[0] == 503)
        assert running.get("/healthz")[1].startswith("no_device_files: The driver answers with")
        assert running.get("/-/healthy")[0] == 503
        assert all(down(running, Reason.NO_DEVICE_FILES, str(gpu)) for gpu in range(GPUS))
