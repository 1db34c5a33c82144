"""`explain`: the verdict and the causes as a table and as JSON, as documented, and one line for what can't be used."""

from __future__ import annotations

import csv
import io
import re

import pytest

from ofu_exporter.ofu.divergence import compare_sums
from ofu_exporter.values.reading import Window
from ofu_exporter.values.reported import Compared
from tests.flops.counting import CONFIGS
from tests.helpers.in_process import as_json, call, shown

LLAMA = ("--config", str(CONFIGS / "llama-3-8b.json"), "--seq-len", "8192")
H100 = ("--gpu", "NVIDIA H100 80GB HBM3")
CYCLES = ("--clock", "cycles")


def test_the_verdict_is_the_agents_which_allows_for_a_clock_that_was_read() -> None:
    numbers = ("explain", "--mfu", "0.26", "--ofu", "0.34")
    told = [as_json(*numbers, *args)["verdict"] for args in ((), ("--clock", "read"), CYCLES)]
    of_window = Window(0, 600, 0.3, {}, 1.4e9, 0.34, clock_method="polled").overstated
    agents = compare_sums(Compared(156, 204, 600, overstated_seconds=600 * of_window))
    assert agents
    assert told == [agents.verdict, "agree", "mfu_below_ofu"]
    assert "OFU may be 3.91% lower" in shown(*numbers)
    assert "may be" not in shown(*numbers, *CYCLES) + shown(
        "explain", "--mfu", "0.5", "--ofu", "0.3"
    )


def test_json() -> None:
    out = as_json("explain", "--mfu", "0.26", "--ofu", "0.34", *CYCLES)
    assert list(out) == ["observed_ratio", "verdict", "advice", "tied", "not_tried", "causes"]
    assert out["not_tried"]["hybrid_as_dense"] == ["config"]
    assert out["observed_ratio"] == pytest.approx(0.26 / 0.34)
    assert out["verdict"] == "mfu_below_ofu"
    assert list(out["causes"][0]) == [*("cause", "expected_ratio", "misfit", "rarity", "evidence")]
    assert out["causes"][0]["cause"] == "activation_recompute"


def test_agreement_and_no_cause_are_empty_lists() -> None:
    agree = as_json("explain", "--mfu", "0.33", "--ofu", "0.34")
    assert (agree["verdict"], agree["causes"]) == ("agree", [])
    unknown = as_json("explain", "--mfu", "700%", "--ofu", "0.34", "--ofu-stderr", "0.001")
    assert (unknown["verdict"], unknown["causes"]) == ("mfu_above_ofu", [])


@pytest.mark.parametrize("ofu", ["0", "0.0001", "0.02", "0.03"])
def test_gpus_that_did_next_to_nothing_have_no_cause_in_the_report(ofu: str) -> None:
    out = as_json("explain", "--mfu", "0.5", "--ofu", ofu, *LLAMA, *H100, "--precision", "bf16")
    assert (out["verdict"], out["causes"]) == ("mfu_above_ofu", [])
    assert "the GPUs did almost nothing" in out["advice"]
    assert "GPUs did almost nothing" in shown("explain", "--mfu", "0.5", "--ofu", ofu)


def test_an_error_as_large_as_ofu_tells_nothing() -> None:
    out = as_json("explain", "--mfu", "0.9", "--ofu", "0.2", "--ofu-stderr", "0.1")
    assert "OFU may be 0" in out["advice"]


def test_a_throughput_that_cannot_be_is_no_percentage() -> None:
    args = (*LLAMA, *H100, "--gpus", "256", "--precision", "bf16", "--tokens-per-second", "2e9")
    out = as_json("explain", "--mfu", "0.4", "--ofu", "0.4", *args)
    assert "needs an OFU of at least 40640" in out["advice"]


def test_more_than_100_percent_is_named() -> None:
    assert "MFU over 100 % is impossible" in shown("explain", "--mfu", "170%", "--ofu", "0.4")


def test_facts_exclude() -> None:
    out = as_json("explain", "--mfu", "0.26", "--ofu", "0.34", *CYCLES, "--recompute", "none")
    assert "activation_recompute" not in str(out["causes"])
    told = as_json("explain", "--mfu", "0.2", "--ofu", "0.4", *H100, "--precision", "bf16")
    assert told["causes"][0]["cause"] == "sparse_peak"
    right = as_json(
        "explain",
        "--mfu",
        "0.2",
        "--ofu",
        "0.4",
        *H100,
        "--precision",
        "bf16",
        "--peak-tflops",
        "989.4",
    )
    assert "peak" not in str([each["cause"] for each in right["causes"]])


def test_the_throughput_tells_a_small_mistake() -> None:
    args = (*LLAMA, *H100, "--gpus", "256", "--precision", "bf16")
    noisy = as_json("explain", "--mfu", "0.431", "--ofu", "0.41", "--ofu-stderr", "0.01", *args)
    assert (noisy["verdict"], noisy["causes"]) == ("agree", [])
    exact = as_json(
        "explain", "--mfu", "0.431", "--ofu", "0.41", *args, "--tokens-per-second", "2e6"
    )
    assert exact["causes"][0]["cause"] == "embedding_counted"
    assert "MFU from the throughput: 40.64%" in shown(
        "explain", "--mfu", "0.431", "--ofu", "0.41", *args, "--tokens-per-second", "2e6"
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--mfu", "54.27", "--ofu", "0.2558"), "mfu: 54.27 is out of range; write 0.5427"),
        (("--mfu", "0.5427", "--ofu", "25.58"), "ofu: 25.58 is out of range; write 0.2558"),
        (("--mfu", "1.7", "--ofu", "0.3"), "mfu: 1.7 is .* write 0.017 or 1.7%, or 170%"),
        (("--mfu", "0.3", "--ofu", "5.7"), "ofu: 5.7 is .* write 0.057 or 5.7%"),
        (("--mfu", "0.3", "--ofu", "0.4", "--tile-overhead", "2"), "--tile-overhead: 2 is .* 0.02"),
        (
            ("--mfu", "0.3", "--ofu", "0.4", "--peak-tflops", "989e12"),
            "--peak-tflops: .* if it is FLOP/s, give 989",
        ),
        (
            ("--mfu", "0.3", "--ofu", "0.4", "--forward-only", "--recompute", "full"),
            "recompute: a forward-only pass",
        ),
        (("--mfu", "nan", "--ofu", "0.3"), "mfu: nan is not"),
        (("--mfu", "-1", "--ofu", "0.3"), "mfu: -1.0 is not"),
        (("--mfu", "0.3", "--ofu", "0.3", "--ofu-stderr", "2"), "--ofu-stderr: 2 is .* write 0.02"),
        (("--mfu", "0.3", "--ofu", "0.3", "--seq-len", "8"), "--seq-len needs --config"),
        (("--mfu", "0.3", "--ofu", "0.3", "--gpus", "0"), "gpus: 0 is not"),
        (("--mfu", "0.3", "--ofu", "0.3", "--gpu", "H1000"), "gpu: 'H1000' is not known"),
        (("--mfu", "0.3", "--ofu", "0.3", "--precision", "bf17"), "bf17"),
        (("--mfu", "0.3", "--ofu", "0.3", "--peak-tflops", "nan"), "--peak-tflops: 'nan' is not"),
        (("--mfu", "0.3", "--ofu", "0.3", "--tile-overhead", "-1"), "--tile-overhead: -1.0"),
        (("--mfu", "0.3", "--ofu", "0.3", "--tokens-per-second", "1e6"), "needs --config, --gpu"),
        (
            ("--mfu", "0.3", "--ofu", "0.4", *LLAMA, "--forward-only", "--recompute", "full"),
            "recompute: a forward-only pass",
        ),
        (("--mfu", "0.3", "--ofu", "0.4", *LLAMA, "--freeze", "vision"), "frozen: no part vision"),
        (("--mfu", "0.3", "--ofu", "0.4", "--pack-length", "8"), "--pack-length needs --config"),
        (
            ("--mfu", "0.3", "--ofu", "0.4", *LLAMA, "--pack-length", "8"),
            "--pack-length: 8 is shorter than a sequence of 8192",
        ),
    ],
)
def test_what_cannot_be_used(args: tuple[str, ...], message: str) -> None:
    result = call("explain", *args)
    assert result.returncode == 2
    assert re.search(message, result.stderr), result.stderr
    assert "Traceback" not in result.stderr


def test_accumulation_and_packs_that_are_told_are_tried() -> None:
    out = as_json("explain", "--mfu", "0.05", "--ofu", "0.41", *H100, "--accumulation", "8")
    assert out["causes"][0]["cause"] == "gradient_accumulation"
    args = (*LLAMA[:2], "--seq-len", "1024", "--batch-size", "64", "--pack-length", "8192")
    out = as_json("explain", "--mfu", "0.46", "--ofu", "0.41", *args, *H100, "--precision", "bf16")
    assert "pack_as_one_sequence" in {each["cause"] for each in out["causes"]}


def test_what_would_tell_causes_apart_is_named_by_its_options() -> None:
    text = shown("explain", "--mfu", "0.2", "--ofu", "0.4", *H100, "--precision", "bf16")
    assert re.search(r"^\d+ causes fit equally well.*--peak-tflops.* can tell", text, re.M)
    assert "Order: misfit²/2 + rarity" in text


def test_csv_has_a_row_for_each_cause_and_one_where_there_is_none() -> None:
    found = [
        *csv.DictReader(
            io.StringIO(
                shown("explain", "--mfu", "0.26", "--ofu", "0.34", *CYCLES, "--format", "csv")
            )
        )
    ]
    assert [row["cause"] for row in found] == [
        each["cause"]
        for each in as_json("explain", "--mfu", "0.26", "--ofu", "0.34", *CYCLES)["causes"]
    ]
    assert {row["verdict"] for row in found} == {"mfu_below_ofu"}
    (agree,) = csv.DictReader(
        io.StringIO(shown("explain", "--mfu", "0.33", "--ofu", "0.34", "--format", "csv"))
    )
    assert (agree["verdict"], agree["cause"]) == ("agree", "")
