"""`flops` and `mfu`: every term and total, as a table and as JSON, and one clear line for what can't be used."""

from __future__ import annotations

import csv
import json
import re

import pytest

from tests.flops.counting import CONFIGS, LLAMA
from tests.helpers.in_process import as_json, call, shown

QWEN_VL = str(CONFIGS / "qwen3-vl-8b.json")
H100 = "NVIDIA H100 80GB HBM3"
KEYS = [
    "family",
    "convention",
    "parameters",
    "terms",
    "model_flops_per_token",
    "hardware_flops_per_token",
    "model_flops_per_step",
    "hardware_flops_per_step",
    "mfu",
    "hfu",
    "tflops_per_gpu",
    "peak_tflops",
    "warnings",
]


def test_the_report_of_a_model() -> None:
    out = as_json("flops", LLAMA, "--seq-len", "8192")
    assert list(out) == KEYS
    assert (out["family"], out["convention"]) == ("decoder", "model")
    assert out["parameters"] == {"total": 8030261248, "active": 8030261248, "embedding": 525336576}
    assert out["model_flops_per_step"] == 421_645_529_382_912
    assert out["model_flops_per_token"] * 8192 == out["model_flops_per_step"]
    assert sum(term["flops_per_token"] for term in out["terms"]) == out["model_flops_per_token"]
    assert out["hardware_flops_per_token"] == out["model_flops_per_token"]
    assert out["hardware_flops_per_step"] == out["model_flops_per_step"]
    assert (out["mfu"], out["hfu"], out["peak_tflops"], out["warnings"]) == (None, None, None, [])


STEP = ("--step-seconds", "1", "--batch-size", "8")
MFU = ("mfu", LLAMA, "--seq-len", "8192", "--gpu", H100, "--gpus", "256")


def test_the_mfu_of_a_job() -> None:
    out = as_json(*MFU, "--tokens-per-second", "2e6")
    assert list(out) == KEYS
    assert out["peak_tflops"] == pytest.approx(989.4, abs=0.1)
    tflops = out["model_flops_per_token"] * 2e6 / 256 / 1e12
    assert out["tflops_per_gpu"] == pytest.approx(tflops)
    assert out["mfu"] == pytest.approx(
        out["model_flops_per_token"] * 2e6 / 256 / (out["peak_tflops"] * 1e12)
    )
    mixed = as_json(*MFU, "--tokens-per-second", "2e6", "--precision", "bf16=0.3,fp8=0.7")
    assert mixed["peak_tflops"] == pytest.approx(989.4 / (0.3 + 0.7 / 2), abs=0.2)


def test_mistakes_are_named() -> None:
    sparse = as_json(*MFU, "--tokens-per-second", "2e6", "--peak-tflops", "1979")
    assert "sparse" in sparse["warnings"][0]
    above = as_json(*MFU, "--tokens-per-second", "2e7")
    assert "over 100 %" in above["warnings"][0]


def test_the_cause_of_a_reported_mfu_is_named() -> None:
    right = as_json(*MFU, "--tokens-per-second", "2e6")["mfu"]
    reported = as_json(*MFU, "--tokens-per-second", "2e6", "--reported-mfu", str(right * 1.1252))
    causes = " ".join(reported["warnings"])
    assert "full_attention_counted makes it 1.125" in causes
    assert "other_convention" in causes


def test_a_table_for_people() -> None:
    text = shown(*MFU, "--tokens-per-second", "2e6", "--recompute", "full")
    assert "LlamaForCausalLM, family decoder, convention model" in text
    assert "8,030,261,248 total" in text
    assert "attention.core" in text
    assert re.search("Model FLOPs per step: +421,645,529,382,912\n", text)
    assert "dense TFLOP/s per GPU\n402.1 model TFLOP/s per GPU\n" in text
    cloud = shown(
        *(each.replace("NVIDIA H100 80GB HBM3", "p5.48xlarge") for each in MFU),
        "--tokens-per-second",
        "2e6",
        "--precision",
        "bf16-mixed",
    )
    assert "402.1 model TFLOP/s per GPU" in cloud
    assert "Hint: " in text


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["flops", LLAMA], "LlamaForCausalLM needs --seq-len N"),
        (
            ["flops", QWEN_VL, "--seq-len", "4096"],
            "Qwen3VLForConditionalGeneration needs --length image=N (--length image=0 for text alone)",
        ),
        (["flops", LLAMA, "--seq-len", "0"], "--seq-len must be at least 1"),
        (
            ["flops", "t5-3b", "--length", "source=0", "--length", "target=100"],
            "--length source must be at least 1",
        ),
        (
            ["flops", LLAMA, "--seq-len", "4096", "--padded-to", "100"],
            "--padded-to 100 is shorter than a sequence (4096)",
        ),
        (["flops", LLAMA, "--seq-len", "8", "--moments", "8,64"], "give the lengths in one way"),
        (["flops", LLAMA, "--moments", "8"], "--moments: '' is not a number"),
        (["flops", LLAMA, "--length", "tokens"], "--length: 'tokens' is not STREAM=N"),
        (["flops", LLAMA, "--lengths", "/nonexistent"], "--lengths /nonexistent: No such file"),
        (["flops", LLAMA, "--lengths", "/dev/zero"], "--lengths /dev/zero: it is not a file"),
        (
            ["flops", LLAMA, "--seq-len", "8", "--recompute", "some"],
            "--recompute: 'some' is not known",
        ),
        (
            ["flops", LLAMA, "--seq-len", "8", "--convention", "x"],
            "unknown convention 'x'; known: ",
        ),
        (
            ["flops", LLAMA, "--seq-len", "8", "--lora-targets", "x"],
            "--lora-targets needs --lora-rank",
        ),
        (["flops", "/nonexistent.json"], "/nonexistent.json"),
        (
            ["flops", LLAMA, "--seq-len", "8", "--executed", "--recompute", "full"],
            "--recompute describes a count by formulas and cannot be used with --executed",
        ),
        ([*MFU], "give exactly one of tokens_per_second"),
        ([*MFU, "--step-seconds", "1"], "--step-seconds needs --batch-size"),
        ([*MFU, *STEP, "--precision", "bf16=x"], "--precision: 'x' is not a number"),
        ([*MFU, *STEP, "--precision", "bf16=0.5"], "precision: the shares"),
        ([*MFU, *STEP, "--precision", "bf16=.5,bf16=.5"], "--precision: bf16 is given"),
    ],
)
def test_what_cannot_be_used_is_one_line(args: list[str], line: str) -> None:
    done = call(*args)
    assert done.returncode == 2
    assert done.stderr.startswith(f"ofu-exporter: {line}")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


MIXTRAL = str(CONFIGS / "mixtral-8x7b.json")


def test_several_configurations_are_rows_of_a_table() -> None:
    lines = shown("flops", LLAMA, MIXTRAL, "--seq-len", "4096").splitlines()
    assert len(lines) == 3
    assert lines[1].split()[:2] == [LLAMA, "8,030,261,248"]
    assert lines[2].split()[2] == "12,879,925,248"


def test_csv_has_a_row_for_each_configuration() -> None:
    (row,) = csv.DictReader(
        shown("flops", LLAMA, "--seq-len", "8192", "--format", "csv").splitlines()
    )
    assert row["model_flops_per_step"] == "421645529382912"
    assert (row["architecture"], row["mfu"], row["error"]) == ("LlamaForCausalLM", "", "")
    (job,) = csv.DictReader(
        shown(*MFU, "--tokens-per-second", "2e6", "--format", "csv").splitlines()
    )
    assert 0 < float(job["mfu"]) < 1


def test_a_configuration_that_cannot_be_counted_costs_no_other_its_row() -> None:
    args = ["flops", LLAMA, "/nonexistent.json", "--seq-len", "8", "--format"]
    done = call(*args, "json")
    assert done.returncode == 2
    first, second = json.loads(done.stdout)
    assert (first["parameters"], first["error"]) == (8030261248, None)
    assert second["error"].startswith("/nonexistent.json")
    assert second["parameters"] is None
