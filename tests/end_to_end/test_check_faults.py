"""What `check` says of each kind of fault: run on the stand-in for NVML, and kept in tests/golden/check_faults.txt."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.doubles.nvml import SONAME, Scenario
from tests.helpers.agent import call

FLAGS = (
    *("check", "--source", "nvml", "--scheduler", "none"),
    *("--interval", "1s", "--clock-interval", "250ms"),
)


def broken(folder: Path) -> Scenario:
    """A node on which each GPU but the first has another trouble; the last is divided by MIG."""
    node = Scenario(folder / "node", 9)
    for index in range(9):
        node.gpu(index, tensor=0.5, hmma=0.5, clock_mhz=[1352])
    node.gpu(1, lost=1)
    node.gpu(2, hang_seconds=600)
    node.error("nvmlDeviceGetHandleByIndex_v2", 17, gpu=3)
    node.error("nvmlGpmSampleGet", 19, gpu=4)
    node.error("nvmlGpmMetricsGet", 27, gpu=5)
    node.gpu(6, clock_mhz=[0])
    node.gpu(7, gpm=0, name="NVIDIA A100-SXM4-80GB", device_id="20b2", cores=6912, compute=[8, 0])
    node.gpu(7, max_clock_mhz=1410)
    node.gpu(8, mig=1)
    node.instance(8, 1, "3g.40gb", sms=60, tensor=0.8)
    return node


def whole_nodes(folder: Path) -> list[dict[str, str]]:
    """Environments of nodes whose driver cannot be used at all."""
    environments = []
    for number, code in enumerate((9, 18, 4)):
        node = Scenario(folder / str(number), 1)
        node.unloaded(code)
        environments.append(node.environment())
    # An unreadable library comes before a real one that this machine may have.
    (folder / SONAME).touch()
    return [*environments, {"LD_LIBRARY_PATH": str(folder)}]


def told(folder: Path) -> list[str]:
    """What is shown, without what differs from run to run."""
    one = call(*FLAGS, env=broken(folder).environment())
    assert one.returncode == 4
    lines = one.stdout.splitlines()
    lines += ["", "No GPU can be measured where the driver cannot be used at all:", ""]
    for environment in whole_nodes(folder):
        done = call(*FLAGS, env=environment)
        assert done.returncode == 3
        lines += done.stdout.splitlines()[1:]
    text = "\n".join(lines)
    text = text.replace("An error of the test double", "...")
    text = re.sub(r"\d+ clock_zero", "3 clock_zero", text)
    text = re.sub(r"(windows? of) [\d.]+ s", r"\1 1 s", text)
    text = re.sub(r"±[\d.]+", "±0.11", text)  # the clock is read at chance places
    return re.sub(r"returned for \d+ s", "returned for 4 s", text).splitlines()


def test_check_says_what_is_wrong_with_each_gpu_and_what_to_do(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    golden("check_faults.txt", "\n".join(told(tmp_path)) + "\n")
