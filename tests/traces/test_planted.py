"""What a trace is found to have lost is what it was made to lose."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ofu_exporter.hardware import tiles
from ofu_exporter.hardware.gpu_rows import CHIPS
from ofu_exporter.hardware.tiles import Gemm
from ofu_exporter.traces import job, kernel_names
from ofu_exporter.traces.findings import kinds
from ofu_exporter.traces.findings.kernels import _SLOWER
from tests.traces.planted import PLANTS, clean, planted
from tests.traces.trace_maker import PRODUCT, Maker

MOST_POINTS = 0.02


@pytest.mark.parametrize("seed", range(40))
def test_the_first_finding_is_what_was_planted(seed: int, tmp_path: Path) -> None:
    made = planted(seed)
    result, _ = job.read([made.maker.write(tmp_path / "trace.json")])
    first = result.findings[0]
    assert first.finding == made.finding
    assert first.share == pytest.approx(made.share, abs=MOST_POINTS)
    assert sum(each.share for each in result.findings) <= 1


@pytest.mark.parametrize("seed", range(30))
def test_a_sound_job_has_no_finding(seed: int, tmp_path: Path) -> None:
    result, _ = job.read([clean(seed).maker.write(tmp_path / "trace.json")])
    assert result.findings == ()


def test_every_finding_is_planted() -> None:
    planted_or_below = PLANTS.keys() | {"slow_rank", "padding"}
    assert planted_or_below ^ {kind.name for kind in kinds()} == set(), (
        "a finding has a job that loses time so: PLANTS of planted.py"
    )


def test_every_finding_has_its_own_place_in_the_order() -> None:
    places = Counter(kind.order for kind in kinds())
    assert [order for order, number in places.items() if number > 1] == []


def test_of_every_chip_it_is_said_whether_kernels_for_older_ones_run_slower_on_it() -> None:
    """Not on Volta, for which there are no older ones, nor where kernels for Ampere run as fast."""
    chips = {chip.compute_capability for chip in CHIPS.values()}
    capabilities = {10 * each[0] + each[1] for each in chips if each}
    assert capabilities - _SLOWER.keys() == {70, 86, 89, 120, 121}, (
        "a new chip on which they do stands in _SLOWER of findings/kernels.py, another one here"
    )


def test_the_case_of_the_paper_with_its_counts(tmp_path: Path) -> None:
    """VI-A: TORCH_DISTRIBUTED_DEBUG=DETAIL, 240 checks of collectives; without it OFU was 2.5 times as high."""
    maker = Maker(rank=0)
    for check in range(240):
        maker.kernel(PRODUCT, 4000)
        maker.wait()
        maker.pause("gloo:all_gather", 1000, "cpu_op")
        for _ in range(64):
            maker.pause("gloo:send", 50, "cpu_op")
        for _ in range(31 + check % 2):
            maker.pause("gloo:recv", 56, "cpu_op")
    maker.kernel(PRODUCT, 4000)
    result, _ = job.read([maker.write(tmp_path / "trace.json.gz")])
    first = result.findings[0]
    assert first.finding == "cpu_collectives"
    assert first.share == pytest.approx(maker.idle / maker.span(), abs=MOST_POINTS)
    for said in ("240 gloo:all_gather", "15,360 gloo:send", "7,560 gloo:recv"):
        assert said in first.evidence
    assert "TORCH_DISTRIBUTED_DEBUG" in first.remedy


def test_products_whose_tiles_are_half_empty_are_padding(tmp_path: Path) -> None:
    """Tiles of 128 rows stand two in a cluster, of which a product of 128 rows fills one."""
    maker = Maker()
    for _ in range(50):
        maker.kernel(PRODUCT, 100)
        operator = next(e for e in reversed(maker.events) if e["cat"] == "cpu_op")
        operator["args"]["Input Dims"] = [[256, 4096], [4096, 128]]
        maker.events[-1]["args"]["External id"] = operator["args"]["External id"]
    (profile,) = [each for each in job.read([maker.write(tmp_path / "t.json")])[1]]
    (launches,) = profile.launches
    cost = tiles.cost(kernel_names.parse(PRODUCT), [Gemm(128, 256, 4096)])
    assert launches.gemm == Gemm(128, 256, 4096)
    result, _ = job.read([tmp_path / "t.json"])
    assert cost.overhead_ratio == 1.0
    assert [(each.finding, round(each.share, 2)) for each in result.findings][:1] == [
        ("padding", 0.5)
    ]
