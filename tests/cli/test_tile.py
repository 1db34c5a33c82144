"""`tile`: the cost of a product as a table and as JSON, and one line for what can't be used."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.helpers.in_process import as_json, call, shown

NVJET = "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_TNT"
XMMA = "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1"


def sides(m: int, n: int, k: int) -> tuple[str, ...]:
    return ("--m", str(m), "--n", str(n), "--k", str(k))


def test_json() -> None:
    out = as_json("tile", NVJET, *sides(2176, 3000, 4096))
    assert list(out) == [
        "effective",
        "executed_flops",
        "theoretical_flops",
        "overhead_ratio",
        "bound",
    ]
    assert out["effective"] == [2304, 3072, 4096]
    assert out["executed_flops"] == 2 * 2304 * 3072 * 4096
    assert out["theoretical_flops"] == 2 * 2176 * 3000 * 4096
    assert out["overhead_ratio"] == pytest.approx(0.084235, abs=1e-6)
    assert out["bound"] == "exact"


def test_a_table_says_what_the_name_does_not() -> None:
    text = shown("tile", XMMA, *sides(100, 100, 100))
    assert "Family xmma, sm90, tf32\nTile 128 x 128 x 32, stages ?, cluster ? x ?\n" in text
    assert "Overhead:     at least 109.715% (lower)\n" in text
    assert "Lower bound: the name does not carry the cluster\n" in text


def test_a_batch_multiplies() -> None:
    one, three = (as_json("tile", NVJET, *sides(100, 100, 100), "--batch", batch) for batch in "13")
    assert three["executed_flops"] == 3 * one["executed_flops"]
    assert three["overhead_ratio"] == one["overhead_ratio"]


def test_groups_from_options_and_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "groups.csv"
    file.write_text("m,n,k\n100,4096,1024\n0,4096,1024\n700,4096,1024\n")
    groups = [f"--group={line}" for line in file.read_text().split()[1:]]
    out = as_json("tile", NVJET, *groups)
    assert out == as_json("tile", NVJET, "--groups", str(file))
    assert out["effective"] == [[256, 4096, 1024], [0, 4096, 1024], [768, 4096, 1024]]
    assert "Effective:    3 groups\n" in shown("tile", NVJET, *groups)


def test_row_major_sides_are_swapped() -> None:
    assert as_json("tile", NVJET, *sides(100, 300, 64), "--row-major") == as_json(
        "tile", NVJET, *sides(300, 100, 64)
    )


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["gemv2T_kernel_val", *sides(1, 1, 1)], "kernel 'gemv2T_kernel_val' fits no known"),
        ([NVJET], "give the product in one way: --m, --n and --k, --group M,N,K or --groups"),
        ([NVJET, *sides(1, 1, 1), "--group", "1,1,1"], "give the product in one way"),
        ([NVJET, "--m", "1"], "the product needs --n, --k too"),
        ([NVJET, *sides(1, 0, 1)], "the product has no FLOPs"),
        ([NVJET, *sides(1, -1, 1)], "n: -1 is not a whole number"),
        ([NVJET, "--group", "1,2,3", "--batch", "2"], "--batch is for --m, --n and --k"),
        ([NVJET, "--group", "1,2"], "--group: '1,2' is not M,N,K"),
        ([NVJET, "--groups", "nowhere.csv"], "nowhere.csv: "),
    ],
)
def test_what_cannot_be_used_is_one_line(args: list[str], line: str) -> None:
    done = call("tile", *args)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"ofu-exporter: {line}")


def test_csv_is_the_same_in_one_row() -> None:
    out = as_json("tile", NVJET, *sides(2176, 3000, 4096))
    (row,) = csv.DictReader(
        io.StringIO(shown("tile", NVJET, *sides(2176, 3000, 4096), "--format", "csv"))
    )
    assert (int(row["executed_flops"]), row["bound"]) == (out["executed_flops"], out["bound"])
    assert json.loads(row["effective"]) == out["effective"]
