"""The rated speeds of links belong to models of the table and are plausible."""

from __future__ import annotations

from ofu_exporter.hardware.gpu_models import ROWS, rate
from ofu_exporter.hardware.gpu_rows import LINKS
from tests.helpers.every import every
from tests.helpers.values import gpu


def test_every_rated_link_is_a_models_of_the_table() -> None:
    assert LINKS.keys() <= {row.key for row in ROWS}


def test_an_h100_has_450_gb_per_second_and_direction_and_its_instances_are_not_rated() -> None:
    rating, of_instance = rate(gpu()), rate(gpu(instance="1"))
    assert rating is not None
    assert rating.links is not None
    assert (rating.links.nvlink, round(rating.links.pcie / 1e9)) == (450e9, 63)
    assert of_instance is not None
    assert of_instance.links is None


@every(LINKS)
def test_nvlink_is_faster_than_pcie_where_there_is_any(key: str) -> None:
    links = LINKS[key]
    assert links.nvlink == 0.0 or links.nvlink > links.pcie
