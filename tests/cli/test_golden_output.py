"""What commands print that need neither a GPU nor a server, golden in each format, with their exit codes and errors."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import click
import pytest

from ofu_exporter.cli import cli
from tests.cli.test_help import commands
from tests.flops.counting import CONFIGS, LLAMA
from tests.helpers.in_process import call
from tests.helpers.rounding import without_last_digits
from tests.traces.planted import EXAMPLE, PLANTS, clean, planted

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "traces"
H100 = ("--gpu", "NVIDIA H100 80GB HBM3")
STEP = ("--seq-len", "8192")
V3 = (str(CONFIGS / "deepseek-v3.json"), *STEP)
MFU = ("mfu", LLAMA, *STEP, *H100, "--gpus", "64")
FACTS = (*("--config", LLAMA), *STEP, *H100, "--gpus", "64", "--precision", "bf16")
EXPLAINED = [
    (*("--mfu", mfu, "--ofu", ofu), *facts)
    for (mfu, ofu), facts in product(
        (("0.3", "0.31"), ("0.26", "0.34"), ("0.68", "0.34"), ("45%", "0.3"), ("0.4", "0.05")),
        (
            (),
            ("--clock", "read", "--ofu-stderr", "0.02"),
            (*H100, "--precision", "fp8", "--recompute", "full"),
            FACTS,
            (*FACTS, "--recompute", "selective", "--lora-rank", "16", "--padded-to", "16384"),
            (*FACTS, "--tokens-per-second", "500k", "--batch-size", "64", "--tile-overhead", "2%"),
            (
                "--config",
                *V3,
                "--gpu",
                "NVIDIA H200",
                "--accumulation",
                "4",
                "--repeats",
                "2",
                "--mtp",
            ),
        ),
    )
]
COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "explain": [("explain", *each) for each in EXPLAINED],
    "flops": [
        ("flops", *V3),
        ("flops", *V3, "--mtp", "--recompute", "full", "--recompute-layers", "7"),
        ("flops", LLAMA, *V3, "--batch-size", "4"),
        ("flops", LLAMA, *STEP, "--convention", "megatron", "--padded-vocab-size", "131072"),
        *(("flops", LLAMA, *STEP, "--convention", paper) for paper in ("kaplan", "chinchilla")),
        ("flops", LLAMA, *STEP, "--lora-rank", "8", "--lora-targets", "q_proj,v_proj"),
        ("flops", LLAMA, "--moments", "4000,2e7", "--repeats", "3"),
        ("flops", LLAMA, "--seq-len", "0"),
        ("flops", LLAMA, *STEP, "--convention", "nobodys"),
        ("flops", str(CONFIGS / "qwen3-vl-8b.json"), *STEP, "--length", "patches=900"),
        ("flops", str(CONFIGS / "vit-l-16.json"), "--forward-only"),
        (*MFU, "--step-seconds", "1.5", "--batch-size", "16"),
        (*MFU, "--tokens-per-second", "700k", "--precision", "bf16=0.3,fp8=0.7"),
        (*MFU, "--samples-per-second", "90", "--reported-mfu", "0.8", "--padded-to", "10000"),
        (*MFU, "--step-seconds", "0.001"),
        (*MFU, "--tokens-per-second", "700k", "--peak-tflops", "1979"),
    ],
    "list": [("list", name) for name in ("sources", "schedulers", "conventions", "gpus")],
    "tile": [
        ("tile", row["name"], "--m", "3000", "--n", "2176", "--k", "4096", *more)
        for row, more in zip(
            csv.DictReader((TRACES / "kernel_names.csv").read_text().splitlines()),
            20 * ((), ("--row-major",), ("--batch", "3")),
            strict=False,
        )
    ],
}


FORMATS = ((), ("--format", "json"), ("--format", "csv"))
Golden = Callable[[str, str], None]


def printed(args: tuple[str, ...], formats: Sequence[tuple[str, ...]] = FORMATS) -> Iterator[str]:
    """What a command prints; of the project's files by their names from its root, where it is run."""
    root = f"{Path.cwd()}/"
    given = tuple(each.removeprefix(root) for each in args)
    for more in formats:
        done = call(*given, *more)
        said = without_last_digits(f"{done.stdout}{done.stderr}")
        yield f"$ {' '.join((*given, *more))}  # {done.returncode}\n{said}"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_what_it_did(
    name: str, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    golden(f"cli-{name}.txt", "\n".join(t for args in COMMANDS[name] for t in printed(args)))


def test_the_commands_are_listed_with_what_each_does(golden: Golden) -> None:
    every = commands(cli, click.Context(cli, info_name="ofu-exporter"))
    lines = (f"{ctx.command_path}: {each.get_short_help_str(200)}\n" for each, ctx in every)
    golden("cli-help.txt", "".join(lines))


@pytest.mark.slow
def test_a_profile_says_what_it_did(
    tmp_path: Path, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {f"{n}-{planted(n).finding}.json": planted(n) for n in range(len(PLANTS))}
    made["clean.json"] = clean(3)
    for name, job in made.items():
        job.maker.write(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    lines = [text for name in made for text in printed(("profile", name), FORMATS[1:2])]
    monkeypatch.chdir(ROOT)
    for args in ((str(EXAMPLE), "--ofu", "0.3"), (str(TRACES / "formats"),)):
        lines += printed(("profile", *args))
    golden("cli-profile.txt", "\n".join(lines))
