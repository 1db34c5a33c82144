"""The rated bandwidths of memory belong to models of the table, and follow from what a card is."""

from __future__ import annotations

from ofu_exporter.hardware.gpu_models import ROWS, rate
from ofu_exporter.hardware.memory_rows import MEMORY_BYTES_PER_SECOND
from tests.helpers.every import every
from tests.helpers.values import gpu


def test_every_bandwidth_is_a_models_of_the_table() -> None:
    assert MEMORY_BYTES_PER_SECOND.keys() <= {row.key for row in ROWS}


def test_an_h100_has_one_and_its_instances_have_none() -> None:
    rating, of_instance = rate(gpu()), rate(gpu(instance="1"))
    assert rating is not None
    assert of_instance is not None
    assert rating.memory_bytes_per_second == 3.35e12
    assert of_instance.memory_bytes_per_second is None


@every(MEMORY_BYTES_PER_SECOND)
def test_a_peak_is_from_50_to_600_flops_a_byte(key: str) -> None:
    """The balance of every tensor GPU of one device: a bandwidth per board or in another unit is outside."""
    row = next(row for row in ROWS if row.key == key)
    peak = row.peak_flops("bf16") or row.peak_flops("fp16")
    assert peak is not None
    assert 50 < peak / MEMORY_BYTES_PER_SECOND[key] < 600
