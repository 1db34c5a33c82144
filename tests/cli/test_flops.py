"""`flops` and `mfu`: every term and total, as a table and as JSON, and one clear line for what can't be used."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from tests.flops.counting import CONFIGS
from tests.helpers.in_process import as_json, call, shown

LLAMA = str(CONFIGS / "llama-3-8b.json")
QWEN_VL = str(CONFIGS / "qwen3-vl-8b.json")
H100 = "NVIDIA H100 80GB HBM3"
PACE = ("--gpus", "8", "--tokens-per-second", "8e4")
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


def test_a_batch_is_so_many_sequences() -> None:
    one, many = (
        as_json("flops", LLAMA, "--seq-len", "4096", "--batch-size", size) for size in ("1", "512")
    )
    assert many["model_flops_per_step"] == 512 * one["model_flops_per_step"]
    assert many["model_flops_per_token"] == one["model_flops_per_token"]


@pytest.mark.parametrize(
    ("args", "times_megatron"),
    [
        (["--convention", "megatron"], 1),
        (["--convention", "kempner"], 1.1252),
        (["--full-attention"], 1.1252),
        (["--causal"], 1),
        (["--forward-only"], 1 / 3),
    ],
)
def test_what_changes_the_count(args: list[str], times_megatron: float) -> None:
    out = as_json("flops", LLAMA, "--seq-len", "8192", *args)
    assert out["model_flops_per_step"] / 421_645_529_382_912 == pytest.approx(
        times_megatron, abs=5e-5
    )


def test_recomputation() -> None:
    full = as_json(
        "flops", LLAMA, "--seq-len", "4096", "--recompute", "full", "--convention", "palm"
    )
    assert 3 * full["hardware_flops_per_token"] == 4 * full["model_flops_per_token"]
    some = as_json(
        "flops", LLAMA, "--seq-len", "4096", "--recompute", "full", "--recompute-layers", "8"
    )
    assert 1 < some["hardware_flops_per_token"] / some["model_flops_per_token"] < 1.1


def test_packed_lengths(tmp_path: Path) -> None:
    file = tmp_path / "lengths"
    file.write_text("1024\n3072\n")
    packed = as_json("flops", LLAMA, "--lengths", str(file))
    moments = as_json(
        "flops", LLAMA, "--batch-size", "2", "--moments", f"2048,{(1024**2 + 3072**2) / 2}"
    )
    assert packed["model_flops_per_step"] == moments["model_flops_per_step"]
    equal = as_json("flops", LLAMA, "--seq-len", "2048", "--batch-size", "2")
    assert packed["model_flops_per_step"] > equal["model_flops_per_step"]


def test_padding(tmp_path: Path) -> None:
    file = tmp_path / "lengths"
    file.write_text("1024\n3072\n")
    padded = as_json("flops", LLAMA, "--lengths", str(file), "--padded-to", "4096")
    assert padded["hardware_flops_per_token"] > 1.9 * padded["model_flops_per_token"]


def test_what_is_known_is_listed() -> None:
    assert "DeepseekV3ForCausalLM                      closed form deepseek; executed" in shown(
        "list", "architectures"
    )
    text = shown("list", "conventions")
    assert (
        "kaplan      Kaplan et al. (OpenAI): the rows of their table 1, in FLOPs per token.\n"
        in text
    )


def test_streams_frozen_parts_and_adapters() -> None:
    streams = ("--length", "latent=4096", "--length", "prompt=77", "--repeats", "20")
    image = as_json("flops", str(CONFIGS / "qwen-image.json"), *streams)
    assert image["family"] == "qwen_image"
    seen = (str(CONFIGS / "qwen2-vl-7b.json"), "--seq-len", "1024", "--length", "image=1024")
    trained, frozen = as_json("flops", *seen), as_json("flops", *seen, "--freeze", "vision")
    assert frozen["model_flops_per_step"] < trained["model_flops_per_step"]
    adapted = as_json(
        "flops", LLAMA, "--seq-len", "64", "--lora-rank", "8", "--lora-targets", "q_proj"
    )
    assert [term["name"] for term in adapted["terms"]][-1] == "attention.q_proj.lora"


@pytest.mark.parametrize(
    ("tokens", "image", "warnings"),
    [
        ("1000", "2304", []),
        ("576", "2304", []),
        ("100", "2304", ["image: 576 tokens of patches are more than all 100 of the sequences"]),
        ("100", "101", ["image: 101 patches are no multiple of the 4 that become one token"]),
    ],
)
def test_an_image_that_does_not_fit_its_sequence_is_told(
    tokens: str, image: str, warnings: list[str]
) -> None:
    """Four patches are a token of the sequence (Qwen2.5-VL, arXiv:2502.13923, section 2.1)."""
    model = str(CONFIGS / "qwen2.5-vl-7b.json")
    told = as_json("flops", model, "--seq-len", tokens, "--length", f"image={image}")["warnings"]
    assert len(told) == len(warnings)
    assert all(text.startswith(start) for text, start in zip(told, warnings, strict=True))


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


@pytest.mark.slow
def test_what_torch_executes_of_a_model() -> None:
    pytest.importorskip("transformers", reason="pip install --group test-torch")
    step = ("flops", LLAMA, "--seq-len", "256", "--batch-size", "8")
    executed, counted = as_json(*step, "--executed"), as_json(*step, "--full-attention")
    assert executed["executed_flops_per_step"] == counted["model_flops_per_step"]
    assert executed["executed_flops_per_token"] == counted["model_flops_per_token"]
    assert executed["parameters"]["total"] == counted["parameters"]["total"]
    assert {each["name"] for each in executed["operators"]} == {"bmm", "mm"}
    assert "every pair" in executed["warnings"][0]
    text = shown(*step, "--executed", "--forward-only")
    assert "LlamaForCausalLM, as torch executes it" in text
    assert re.search(r"\nmm +[\d,]+ +0\n", text)


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


@pytest.mark.parametrize(
    ("short", "taken"),
    [
        ("H100", "NVIDIA H100 80GB HBM3 (not for H100-SXM5-96GB, H100-PCIe-80GB, H100-NVL)"),
        ("h100-pcie", "NVIDIA H100 PCIe"),
        ("H100 NVL", "NVIDIA H100 NVL"),
        ("L40", "NVIDIA L40"),
        ("B200", "NVIDIA B200"),
    ],
)
def test_a_short_name_of_a_gpu_is_taken_and_said_once_a_session(
    short: str, taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    done = call("mfu", LLAMA, "--seq-len", "8", "--gpu", short, *PACE)
    assert done.returncode == 0
    assert done.stderr == f"--gpu {short} means {taken}\n"
    name = taken.partition(" (")[0]
    assert done.stdout == call("mfu", LLAMA, "--seq-len", "8", "--gpu", name, *PACE).stdout
    assert call("mfu", LLAMA, "--seq-len", "8", "--gpu", short, *PACE).stderr == ""


def test_a_short_name_is_said_each_time_if_that_cannot_be_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))
    for _ in range(2):
        assert "means" in call("mfu", LLAMA, "--seq-len", "8", "--gpu", "H100", *PACE).stderr


@pytest.mark.parametrize("written", ["12,000", "12k", "12_000", "1.2e4"])
def test_a_rate_is_read_as_people_write_it(written: str) -> None:
    gpu = ("--gpu", "NVIDIA L40", "--gpus", "1")
    rates = ("12000", written)
    done = [
        call("mfu", LLAMA, "--seq-len", "8", *gpu, "--tokens-per-second", rate) for rate in rates
    ]
    assert done[0].returncode == 0
    assert done[0].stdout == done[1].stdout


def test_a_number_is_read_with_commas_between_thousands_alone() -> None:
    plain, grouped, wrong = (
        call("flops", LLAMA, "--seq-len", length) for length in ("8192", "8,192", "8,19")
    )
    assert plain.returncode == 0
    assert plain.stdout == grouped.stdout
    assert "'8,19' is not a valid integer" in wrong.stderr


def test_a_name_of_nvml_is_taken_as_it_is() -> None:
    assert call("mfu", LLAMA, "--seq-len", "8", "--gpu", "NVIDIA H100", *PACE).stderr == ""
    for wrong in ("", "H", "-", "X100"):
        assert "gpu: " in call("mfu", LLAMA, "--seq-len", "8", "--gpu", wrong, *PACE).stderr


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("flops", LLAMA), "--seq-len"),
        (("flops", LLAMA), "--length=tokens="),
        (
            ("mfu", LLAMA, "--seq-len", "8", "--gpu", "NVIDIA L40", "--tokens-per-second", "1"),
            "--gpus",
        ),
        (("explain", "--mfu", "60%", "--ofu", "40%"), "--accumulation"),
    ],
)
def test_a_number_that_no_float_holds_is_refused(command: tuple[str, ...], option: str) -> None:
    many = "1" + 400 * "0"
    done = call(*command, *((option + many,) if "=" in option else (option, many)))
    assert done.returncode == 2
    assert "... is above 9007199254740992" in done.stderr
    assert "Traceback" not in done.stderr
