"""What is said of a validation: how much of it was run, on what, and what was left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ofu_exporter.validation.accuracy import ErrorBounds
from ofu_exporter.validation.findings import Findings, plain, text
from ofu_exporter.validation.storage import ResultsHeader
from ofu_exporter.values.gpu import Gpu
from tests.validation.simulation import bench, product

CREATED = "2026-01-01T00:00:00+00:00"


def test_what_was_not_run_is_said_with_how_long_it_takes(tmp_path: Path) -> None:
    gpu = Gpu(index="0", uuid="GPU-0", name="NVIDIA H100 PCIe")
    header = ResultsHeader(gpu, "nvml", False, CREATED, {"torch": "2.9", "cublas": "13"})
    whole = Findings(header, bench(tmp_path).rating, ErrorBounds(), 4, ())
    first, second = text(whole).splitlines()[:2]
    assert first == "NVIDIA H100 PCIe (GPU-0), source nvml, cublas 13, torch 2.9"
    assert second == "0 of 4 products could be compared"
    assert "are left" not in text(whole)
    left = tuple(product(seconds=each) for each in (120.0, 354.0, 60.0))
    cut = replace(whole, left_out=left, refused={"fp8": "no such kernel"})
    assert "3 products are left, the longest of 5.9 minutes: run the same" in text(cut)
    assert "Not run: fp8: no such kernel" in text(cut)
    assert (plain(cut)["left_out"], plain(cut)["refused"]) == (3, {"fp8": "no such kernel"})
    assert text(replace(cut, header=replace(header, simulated=True))).startswith("SIMULATED")
