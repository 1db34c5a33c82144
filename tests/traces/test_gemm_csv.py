"""A file of matrix sides: what it may say, and which line is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.hardware.tiles import Gemm
from ofu_exporter.traces import gemm_csv
from ofu_exporter.traces.gemm_csv import GemmRow


def test_lines_are_read(tmp_path: Path) -> None:
    file = tmp_path / "shapes.csv"
    file.write_text('kernel,k,n,m,batch,launches\n"f(int, int)",3,2,1,4,5\n,6,5,4,,\n')
    assert gemm_csv.read(file) == (
        GemmRow(Gemm(1, 2, 3, 4), "f(int, int)", 5),
        GemmRow(Gemm(4, 5, 6)),
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("m,n\n1,2\n", "the first line names no column k"),
        ("", "the first line names no column m, n, k"),
        ("m,n,k,l\n", "unknown column 'l'; known: m, n, k, batch, kernel, launches"),
        ("m,n,k\n1,2,3\n1,2\n", "line 3: k: '' is not a whole number of 0 or more"),
        ("m,n,k,batch\n1,2,3,-1\n", "line 2: batch: '-1' is not a whole number of 0 or more"),
        ("m,n,k\n1,2.5,3\n", "line 2: n: '2.5' is not a whole number of 0 or more"),
    ],
)
def test_what_cannot_be_used_is_named(text: str, error: str, tmp_path: Path) -> None:
    file = tmp_path / "shapes.csv"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        gemm_csv.read(file)
    assert str(caught.value).startswith(str(file))
    assert error in str(caught.value)


@pytest.mark.parametrize("content", [None, b"m,n,k\n\xff,1,1\n"])
def test_a_file_that_cannot_be_read_is_named(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "shapes.csv"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"shapes\.csv"):
        gemm_csv.read(file)
