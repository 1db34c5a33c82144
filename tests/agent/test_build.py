"""The parts of the agent as its settings make them."""

from __future__ import annotations

from ofu_exporter.agent.build import custom_rows
from ofu_exporter.settings import GpuSetting


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
