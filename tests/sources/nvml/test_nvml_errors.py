"""An error of the driver or of its library is a reason with advice."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest

from ofu_exporter.errors import SourceError
from ofu_exporter.values.reasons import Reason
from tests.doubles import nvml as double
from tests.helpers.nvml_node import START, NvmlNode, failure
from tests.sources.nvml.test_driver import OPEN, run


def test_a_library_too_old_for_its_binding_is_a_mismatch(
    bench: NvmlNode, monkeypatch: pytest.MonkeyPatch
) -> None:

    if not hasattr(pynvml, "NVMLLibraryMismatchError"):
        pytest.skip("this binding is from before that error")

    def too_old() -> None:
        raise pynvml.NVMLLibraryMismatchError("unversioned call")

    monkeypatch.setattr(pynvml, "nvmlInit", too_old)
    with pytest.raises(SourceError) as caught:
        bench.open()
    assert caught.value.reason is Reason.DRIVER_MISMATCH


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetUUID",
        "nvmlGpmQueryDeviceSupport",
        "nvmlGpmSampleGet",
    ],
)
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (3, Reason.NOT_SUPPORTED),
        (4, Reason.NO_PERMISSION),
        (10, Reason.FAILED),
        (13, Reason.DRIVER_TOO_OLD),
        (15, Reason.LOST),
        (16, Reason.LOST),
        (17, Reason.NO_PERMISSION),
        (19, Reason.COUNTER_BUSY),
        (999, Reason.NO_DEVICE_FILES),
        (998, Reason.FAILED),
    ],
)
def test_a_gpu_that_cannot_be_read_says_why_at_each_read(
    bench: NvmlNode, call: str, code: int, reason: Reason
) -> None:
    bench.scenario.error(call, code, gpu=0)
    (probe,) = bench.open()
    for _ in range(2):
        error = failure(probe.read)
        assert (error.reason, bench.samples_alive) == (reason, 0)
        assert error.__cause__ is not None
    bench.scenario.error(call, 0, gpu=0)
    assert probe.read() == ()
    assert bench.window(probe).start == START


def test_a_node_without_the_library_says_so(tmp_path: Path) -> None:
    # An unreadable library comes before a real one that this machine may have.
    (tmp_path / double.SONAME).touch()
    done = run(OPEN, {"LD_LIBRARY_PATH": str(tmp_path)})
    assert done.returncode == 1
    assert Reason.NO_LIBRARY.advice in done.stderr


READ = "probe.read()"


def test_a_library_from_before_gpm_says_which_function_it_lacks(tmp_path: Path) -> None:
    scenario = double.Scenario(tmp_path / "scenario")
    done = run(OPEN + READ, scenario.environment(hidden="nvmlGpm*"))
    assert done.returncode == 1
    assert "undefined symbol: nvmlGpmQueryDeviceSupport" in done.stderr.splitlines()[-1]
    assert Reason.DRIVER_TOO_OLD.advice in done.stderr
    assert "no GPM counters for this GPU" not in done.stderr


def test_a_gpu_before_hopper_is_not_told_to_update_its_driver(tmp_path: Path) -> None:
    scenario = double.Scenario(tmp_path / "scenario")
    scenario.gpu(0, name="NVIDIA A100-SXM4-80GB", device_id="20b2", compute=[8, 0], gpm=0)
    done = run(OPEN + READ, scenario.environment(hidden="nvmlGpm*"))
    assert Reason.NOT_SUPPORTED.advice in done.stderr


def test_a_library_that_cannot_even_begin_says_which_function_it_lacks(tmp_path: Path) -> None:
    scenario = double.Scenario(tmp_path / "scenario")
    done = run(OPEN, scenario.environment(hidden="nvmlInit*"))
    assert "undefined symbol: nvmlInitWithFlags" in done.stderr.splitlines()[-1]
    assert Reason.DRIVER_TOO_OLD.advice in done.stderr


def test_a_library_without_what_is_not_needed_measures(tmp_path: Path) -> None:
    scenario = double.Scenario(tmp_path / "scenario")
    scenario.gpu(0, tensor=0.5)
    hidden = "nvmlDeviceGetVirtualizationMode; nvmlDeviceGetUtilizationRates; nvmlDeviceGetPower*"
    code = "import time; probe.read(); time.sleep(0.12); print(probe.read()[0].tensor_active)"
    done = run(OPEN + code, scenario.environment(hidden))
    assert float(done.stdout) == pytest.approx(0.5)
