"""`check`: every input of every GPU's OFU, or why not and what to do."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.nvml import Scenario
from tests.helpers.agent import call, page_server
from tests.helpers.job_node import Node

ROW = '{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"}'
MIG = (
    '{gpu="1",UUID="GPU-b",modelName="NVIDIA A100-SXM4-80GB",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"}'
)
PAGE = (
    f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{ROW} 0.5\n"
    f"DCGM_FI_DEV_SM_CLOCK{ROW} 1464\n"
    f"DCGM_FI_PROF_TENSOR_UTIL_RATIO{MIG} 0.25\n"
    f"DCGM_FI_DEV_SM_CLOCK_HERTZ{MIG} 1410000000\n"
    'DCGM_FI_DEV_SM_CLOCK{gpu="2",UUID="GPU-c",modelName="NVIDIA L4"} 210\n'
)

pytestmark = pytest.mark.slow


def check(url: str, *args: str) -> tuple[int, dict[str, Any]]:
    done = call("check", "--source", "dcgm-exporter", "--url", url, "--format", "json", *args)
    return done.returncode, json.loads(done.stdout)


def test_every_input_is_shown() -> None:
    with page_server(lambda: PAGE) as url:
        code, report = check(url)
    assert code == 4, "GPU 2 is not measured"
    assert report["source"] == "dcgm-exporter"
    first, mig, _ = report["gpus"]
    assert first["gpu"] == "0"
    assert first["uuid"] == "GPU-a"
    assert first["gpu_instance"] is None
    assert first["model"] == "NVIDIA H100 80GB HBM3"
    assert first["tensor_active_ratio"] == 0.5
    assert first["sm_clock_hz"] == 1464e6
    assert first["tensor_clock_hz"] == 1830e6
    assert first["utilization_ratio"] == pytest.approx(0.4)
    assert (first["clock_method"], first["available"], first["reason"]) == ("point", True, None)
    assert (mig["gpu_instance"], mig["utilization_ratio"]) == ("7", 0.25)


def test_what_cannot_be_read_is_said_once_and_in_the_table() -> None:
    """The log of an agent beside the table would say everything twice; it comes when it is asked for."""
    args = ("check", "--source", "dcgm-exporter", "--url", "http://127.0.0.1:9/metrics")
    done = call(*args, env={"OFU_LOG_LEVEL": "debug"})
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.count("Connection refused") == 1
    assert "Start the other exporter" in done.stdout
    loud = call(*args, "--log-level", "info")
    assert loud.stdout == done.stdout
    assert "no source can be used" in loud.stderr


def test_a_table_comes_without_log_lines_and_an_ignored_variable_is_said() -> None:
    flags = ("--source", "simulate", "--simulated-gpus", "1", "--interval", "0.2s")
    done = call("check", *flags, env={"OFU_INTERVALL": "1s"})
    assert done.returncode == 0
    assert done.stdout.startswith("Source: simulate")
    assert done.stderr == (
        "ofu-exporter: the variable OFU_INTERVALL is not a setting and is ignored; "
        "did you mean OFU_INTERVAL?\n"
    )


def test_what_was_not_measured_is_null_and_what_was_is_shown() -> None:
    with page_server(lambda: PAGE) as url:
        _, report = check(url)
    third = report["gpus"][2]
    assert third["sm_clock_hz"] == 210e6
    for field in ("tensor_active_ratio", "utilization_ratio", "clock_method"):
        assert third[field] is None
    assert (third["available"], third["reason"]) == (False, "no_tensor_counter")
    assert "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" in third["advice"]


def test_all_measured_exits_with_0() -> None:
    with page_server(lambda: "".join(PAGE.splitlines(keepends=True)[:2])) as url:
        assert check(url)[0] == 0


@pytest.mark.parametrize(
    ("page", "content_type", "reason"),
    [("<html>", "text/html", "not_metrics"), ("up 1\n", "text/plain", "no_gpu")],
)
def test_something_else_at_the_address_is_named(page: str, content_type: str, reason: str) -> None:
    with page_server(lambda: page, content_type) as url:
        code, report = check(url)
    assert (code, report["gpus"], report["reason"]) == (3, [], reason)


def test_nobody_at_the_address_is_named() -> None:
    code, report = check("http://127.0.0.1:1/metrics")
    assert (code, report["reason"]) == (3, "unreachable")
    assert "http://127.0.0.1:1/metrics" in report["detail"]


def test_the_table_is_for_people() -> None:
    with page_server(lambda: PAGE) as url:
        text = call("check", "--source", "dcgm-exporter", "--url", url).stdout
    assert "50.0%   -      1464 MHz  1830/1980 MHz  40.0%  point" in text
    assert "GPU 2: no_tensor_counter. The source has no tensor activity" in text


def test_a_gpu_without_a_model_is_measured_and_has_a_dash_for_it() -> None:
    nameless = PAGE.replace(',modelName="NVIDIA H100 80GB HBM3"', "")
    with page_server(lambda: nameless) as url:
        text = call("check", "--source", "dcgm-exporter", "--url", url).stdout
    (row,) = (line.split() for line in text.splitlines() if line.startswith("0 "))
    assert row[:6] == ["0", "-", "50.0%", "-", "1464", "MHz"]


def test_a_gpu_without_a_row_shows_activity_and_clock_and_the_row_to_write(tmp_path: Path) -> None:
    node = Scenario(tmp_path / "nvml")
    node.gpu(0, name="NVIDIA Z999", device_id="1234", tensor=0.5, hmma=0.5, clock_mhz=990)
    quick = ("--source", "nvml", "--interval", "0.3s", "--clock-interval", "0.1s")
    text = call("check", *quick, env=node.environment()).stdout
    assert "NVIDIA Z999  50.0%   hmma 50.0%  990 MHz   -             -" in text
    row = 'gpus: [{name: "NVIDIA Z999", pci_device_id: "1234", tensor_clock_hz: HZ}]'
    assert "GPU 0: unknown_model (the model is not in the table; write `" + row in text
    assert "at most 1980000000" in text


def test_a_vgpu_says_that_it_is_one(tmp_path: Path) -> None:
    node = Scenario(tmp_path / "nvml")
    node.gpu(0, name="NVIDIA H100-8C", device_id="1234", gpm=0, virtualization=2)
    quick = ("--source", "nvml", "--interval", "0.3s", "--clock-interval", "0.1s")
    text = call("check", *quick, env=node.environment()).stdout
    assert "GPU 0: vgpu (NVIDIA H100-8C is a vGPU, not a whole GPU). A vGPU has no" in text
    assert "add a row" not in text
    assert "gpus:" not in text


def test_without_driver_or_page_each_source_is_named() -> None:
    done = call("check", "--url", "http://127.0.0.1:1/metrics")
    assert done.returncode == 3
    assert "nvml: NVML Shared Library Not Found" in done.stdout
    assert "dcgm-exporter: http://127.0.0.1:1/metrics" in done.stdout
    assert "Clock reads" not in done.stdout


def test_the_job_of_each_gpu_is_shown(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.start("7", "0", "1", "GPU-elsewhere")
    node.start("8", "1")
    flags = (*node.flags()[1:], "--interval", "0.5s")
    text = call("check", *flags).stdout
    rows = [line.split() for line in text.splitlines()]
    assert [row[-1] for row in rows if row and row[0] in "023"] == ["7", "-", "-"]
    assert "GPU 1: several jobs have it; its OFU is credited to none" in text
    assert text.count("several jobs") == 1
    assert "Scheduler slurm: not believed: 1 contested, 1 unknown_device" in text
    report = json.loads(call("check", *flags, "--format", "json").stdout)
    assert [gpu["job_ids"] for gpu in report["gpus"]] == [["7"], ["7", "8"], [], []]


def test_a_scheduler_that_does_not_answer_is_named_with_advice(tmp_path: Path) -> None:
    flags = ("--source", "simulate", "--interval", "0.2s", "--scheduler", "kubernetes")
    done = call("check", *flags, "--kubelet-socket", str(tmp_path / "none.sock"))
    assert done.returncode == 0
    assert "Scheduler kubernetes: absent" in done.stdout


def test_how_far_to_trust_a_window_is_said() -> None:
    flags = ("--source", "simulate", "--interval", "0.5s", "--clock-interval", "0.1s")
    done = call("check", *flags, "--scheduler", "none", "--format", "json")
    for gpu in json.loads(done.stdout)["gpus"]:
        budget = gpu["error_budget"]
        expected = 196 * gpu["utilization_stderr_ratio"]
        assert budget["clock_interval_95_points"] == pytest.approx(expected)
        assert budget["observed_seconds"] == pytest.approx(budget["window_seconds"])
        assert budget["tensor_clock"] == "published"
        assert (budget["covariance"], budget["fp64_pipe"]) == ("none", "dfma")
    text = call("check", *flags, "--scheduler", "none").stdout
    assert "Clock reads: ±" in text
    assert "Tiles: OFU counts padding to whole tiles" in text


def test_the_error_of_a_single_clock_read_is_not_known() -> None:
    with page_server(lambda: PAGE) as url:
        text = call("check", "--source", "dcgm-exporter", "--url", url).stdout
        _, report = check(url)
    assert "Clock reads: one a window, so their error is not known." in text
    budget = report["gpus"][0]["error_budget"]
    assert budget["clock_interval_95_points"] is None
    assert (budget["covariance"], budget["fp64_pipe"]) == ("not known", None)
    assert report["gpus"][2]["error_budget"] is None


def test_a_name_in_a_page_cannot_command_the_terminal() -> None:
    name = "NVIDIA H100\x1b[2J\x9b31m\\nGPU 9 forged"  # \n is an escape of the page's own
    with page_server(lambda: PAGE.replace("NVIDIA H100 80GB HBM3", name)) as url:
        text = call("check", "--source", "dcgm-exporter", "--url", url).stdout
    assert "\\x1b[2J\\x9b31m" in text
    assert all(line.isprintable() for line in text.split("\n"))
    assert not any(line.startswith("GPU 9") for line in text.split("\n"))


def test_csv_has_a_row_for_each_gpu() -> None:
    with page_server(lambda: PAGE) as url:
        done = call("check", "--source", "dcgm-exporter", "--url", url, "--format", "csv")
    first, mig, blind = csv.DictReader(io.StringIO(done.stdout))
    assert (first["gpu"], first["tensor_active_ratio"]) == ("0", "0.5")
    assert (mig["gpu_instance"], mig["utilization_ratio"]) == ("7", "0.25")
    assert (blind["gpu"], blind["utilization_ratio"]) == ("2", ""), "unknown, and not 0"
