"""The parts of the agent as its settings make them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ofu_exporter.agent import build, tracing
from ofu_exporter.agent.build import build_attribution, custom_rows, report_policy, what_is_sampled
from ofu_exporter.ofu.divergence import Thresholds
from ofu_exporter.settings import Configured, GpuSetting, Settings
from tests.helpers.agent import agent, until


def setting(clock_hz: float, **more: str) -> GpuSetting:
    return GpuSetting.model_validate({"tensor_clock_hz": clock_hz, **more})


def test_every_row_of_the_users_has_a_key_of_its_own() -> None:
    """By its key a rating is found on the page, so no two rows may share one, nor the table's."""
    made = custom_rows(
        [
            setting(1e9, name="NVIDIA Z999", pci_device_id="2330"),
            setting(2e9, name="NVIDIA Z999", pci_device_id="2331"),
            setting(3e9, name="NVIDIA Z999", pci_device_id="2332"),
            setting(4e9, name="H100-SXM5-80GB"),
        ]
    )
    assert [row.key for row in made] == [
        "NVIDIA Z999",
        "NVIDIA Z999 (2)",
        "NVIDIA Z999 (3)",
        "H100-SXM5-80GB (2)",
    ]
    assert [row.tensor_clock_hz for row in made] == [1e9, 2e9, 3e9, 4e9]


def test_every_threshold_is_the_setting_of_its_name() -> None:
    given = Settings(mfu_above=0.01, mfu_below=0.03, mfu_above_relative=0.1, mfu_below_relative=0.2)
    wanted = Thresholds(above=0.01, below=0.03, above_relative=0.1, below_relative=0.2)
    assert report_policy(given).thresholds == wanted


def test_how_long_an_answer_is_believed_is_a_setting_and_a_change_of_it_is_seen() -> None:
    configured = [Configured(Settings(owner_max_age=age), {}) for age in (7.0, 8.0)]
    assert [build_attribution(each)._max_age for each in configured] == [7.0, 8.0]
    assert what_is_sampled(configured[0]) != what_is_sampled(configured[1])


@pytest.mark.parametrize("is_abstract", [False, True])
def test_traces_are_asked_for_in_a_folder_or_by_an_abstract_name(
    is_abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The abstract name is one for the whole machine, so this binds none."""
    bound: list[Path | None] = []

    class Socket:
        def __init__(self, folder: Path | None, _: object) -> None:
            bound.append(folder)

        def start(self) -> None:
            pass

    monkeypatch.setattr(tracing, "TraceSocket", Socket)
    given = Settings(
        trace_folder=tmp_path, trace_socket_folder=tmp_path / "s", trace_abstract_name=is_abstract
    )
    tracing.Tracing(given, lambda: None, lambda *_: None).start()
    assert bound == [None if is_abstract else tmp_path / "s"]


@pytest.mark.parametrize(
    ("descriptors", "connections"), [(10, 16), (34, 17), (1000, 500), (1 << 20, 512)]
)
def test_half_of_the_descriptors_are_for_connections(
    descriptors: int, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "raise_descriptor_limit", lambda: descriptors)
    assert build.connection_limit().most == connections


@pytest.mark.slow
def test_a_bad_row_of_the_users_costs_a_reload_and_no_window(tmp_path: Path) -> None:
    file = tmp_path / "ofu.yaml"
    base = "source: simulate\nsimulated_gpus: 1\ninterval: 200ms\n"
    row = "{name: Z9, tensor_clock_hz: 1.5e9, flops_per_cycle_per_sm: {bf61: 4096}}"
    file.write_text(base)
    with agent("run", "--config", str(file)) as running:
        until(lambda: running.values("ofu_gpu_up") == [1])
        file.write_text(f"{base}gpus: [{row}]\n")
        running.process.send_signal(signal.SIGHUP)
        until(lambda: running.value("ofu_exporter_config_reloads_total", outcome="failed") == 1)
        assert running.logs("no precision bf61")
        assert running.values("ofu_gpu_up") == [1]
        file.write_text(base.replace("1", "2", 1))
        running.process.send_signal(signal.SIGHUP)
        until(lambda: running.values("ofu_gpu_up") == [1, 1])
