"""A GPU may be named as NVML does, in short, or as a cloud does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flops.counting import LLAMA
from tests.helpers.in_process import call

PACE = ("--gpus", "8", "--tokens-per-second", "8e4")


@pytest.mark.parametrize(
    ("short", "taken"),
    [
        ("H100", "NVIDIA H100 80GB HBM3 (not for H100-SXM5-96GB, H100-PCIe-80GB, H100-NVL)"),
        ("h100-pcie", "NVIDIA H100 PCIe"),
        ("H100 NVL", "NVIDIA H100 NVL"),
        ("L40", "NVIDIA L40"),
        ("B200", "NVIDIA B200"),
    ],
)
def test_a_short_name_of_a_gpu_is_taken_and_said_once_a_session(
    short: str, taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    done = call("mfu", LLAMA, "--seq-len", "8", "--gpu", short, *PACE)
    assert done.returncode == 0
    assert done.stderr == f"--gpu {short} means {taken}\n"
    name = taken.partition(" (")[0]
    assert done.stdout == call("mfu", LLAMA, "--seq-len", "8", "--gpu", name, *PACE).stdout
    assert call("mfu", LLAMA, "--seq-len", "8", "--gpu", short, *PACE).stderr == ""


def test_a_short_name_is_said_each_time_if_that_cannot_be_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))
    for _ in range(2):
        assert "means" in call("mfu", LLAMA, "--seq-len", "8", "--gpu", "H100", *PACE).stderr


def test_a_name_of_nvml_is_taken_as_it_is() -> None:
    assert call("mfu", LLAMA, "--seq-len", "8", "--gpu", "NVIDIA H100", *PACE).stderr == ""
    for wrong in ("", "H", "-", "X100"):
        assert "gpu: " in call("mfu", LLAMA, "--seq-len", "8", "--gpu", wrong, *PACE).stderr
