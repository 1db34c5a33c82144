"""A table of Nsight Systems: kernels, times and counts, and no shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.traces import formats
from ofu_exporter.traces.formats import NO_SHAPE, KernelLaunches
from tests.traces.formats.tracing import ADD, FLASH, H100, NVJET, rounded

SUM = f"""\
Generating SQLite file report.sqlite from report.nsys-rep
Processing [report.sqlite] with [cuda_gpu_kern_sum.py]...

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
60.0,6000000,3,2000000.0,2000000.0,1,2,0.0,{NVJET}
30.0,"3,000,000",2,1500000.0,1500000.0,1,2,0.0,"{FLASH}"
10.0,1000000,5,200000.0,200000.0,1,2,0.0,"{ADD}"
"""
TRACE = f"""\
Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,Device,Ctx,Strm,Name
100,2000000,1,2,39,1,{H100} (0),1,7,{NVJET}
200,3000000,2,2,39,1,{H100} (0),1,7,{NVJET}
"""


def test_a_table_by_kernel(tmp_path: Path) -> None:
    path = tmp_path / "sum.csv"
    path.write_text(SUM)
    profile = formats.read(path)
    assert profile.format == "nsys_csv"
    assert rounded(profile) == (
        KernelLaunches(NVJET, 3, 6e-3, why=NO_SHAPE),
        KernelLaunches(FLASH, 2, 3e-3, why=NO_SHAPE),
    )
    assert profile.other_seconds == pytest.approx(1e-3)


def test_a_table_by_launch(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    profile = formats.read(path)
    assert rounded(profile) == (KernelLaunches(NVJET, 2, 5e-3, why=NO_SHAPE),)


def test_what_is_no_number_is_named(tmp_path: Path) -> None:
    path = tmp_path / "sum.csv"
    path.write_text(SUM.replace("6000000", "soon"))
    with pytest.raises(ConfigError, match=r"sum\.csv: 'soon' is not a number"):
        formats.read(path)
