"""Writes docs/models.md: for each model type of transformers, and the denoisers that people train, who answers.

`python -m tests.helpers.model_table` builds every model of its default configuration on the meta device, which takes
a quarter of an hour; `--only NAME ...` prints the rows of some, `--kept FILE` lets a run that was broken off go on.
Needs the extra `test-torch`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import resource
import sys
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import families

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
HEADS: tuple[str, ...] = (
    "IMAGE_TEXT_TO_TEXT",
    "SEQ_TO_SEQ_CAUSAL_LM",
    "SPEECH_SEQ_2_SEQ",
    "MASKED_LM",
    "CAUSAL_LM",
)
HEADS += ("IMAGE_CLASSIFICATION", "CTC", "ZERO_SHOT_IMAGE_CLASSIFICATION")
STREAMS = (
    {"tokens": 1024, "target": 16, "image": 64, "images": 1, "audio": 3000},
    {"tokens": 64, "target": 16},
    {"audio": 16000, "tokens": 64, "target": 16},
)
"""The inputs that are tried one after the other: an image and a sound beside a text, a text, a long sound."""
DENOISERS = {
    "QwenImageTransformer2DModel": {"latent": 64, "prompt": 16},
    "FluxTransformer2DModel": {"latent": 64, "prompt": 16},
    "SD3Transformer2DModel": {"latent": 64, "prompt": 16},
    "WanTransformer3DModel": {"latent": 64, "prompt": 16},
    "DiTTransformer2DModel": {},
    "PixArtTransformer2DModel": {"prompt": 16},
    "SanaTransformer2DModel": {"latent": 64, "prompt": 16},
    "UNet2DConditionModel": {"latent": 1024, "prompt": 77},
    "UNet2DModel": {"latent": 1024},
    "AuraFlowTransformer2DModel": {"latent": 64, "prompt": 16},
    "HunyuanVideoTransformer3DModel": {"latent": 64, "prompt": 16},
    "LTXVideoTransformer3DModel": {"latent": 64, "prompt": 16},
    "CogVideoXTransformer3DModel": {"latent": 64, "prompt": 16},
    "Lumina2Transformer2DModel": {"latent": 64, "prompt": 16},
    "ZImageTransformer2DModel": {"latent": 64, "prompt": 16},
    "ChromaTransformer2DModel": {"latent": 64, "prompt": 16},
}
SECONDS = 90
"""What a row may compute; on a busy machine, it may wait longer for its turn."""
HANGS = 900


@dataclass(frozen=True)
class Row:
    """What is known of one kind of model."""

    kind: str
    architecture: str
    ours: int | None = None
    theirs: int | None = None
    executed: int | None = None
    why: str = ""


def architectures() -> dict[str, str]:
    """A class for each model type of transformers: one with a head where there is one."""
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    found: dict[str, str] = {}
    for head in HEADS:
        for kind, name in getattr(auto, f"MODEL_FOR_{head}_MAPPING_NAMES").items():
            found.setdefault(kind, name if isinstance(name, str) else name[0])
    for kind, name in auto.MODEL_MAPPING_NAMES.items():
        found.setdefault(kind, name if isinstance(name, str) else name[0])
    return dict(sorted(found.items()))


def row(kind: str, architecture: str) -> Row:
    """The row of one model, of its default configuration."""
    warnings.simplefilter("ignore")
    try:
        config, lengths = _default(kind, architecture)
    except Exception as error:  # noqa: BLE001 - whatever a library raises is the row's answer
        return Row(kind, architecture, why=_line(f"no default configuration: {error}"))
    ours, theirs, executed, why = None, None, None, ""
    try:
        model = flops.read(config)
        ours = flops.count(
            model, flops.fixed(1, **dict.fromkeys(model.streams, 64))
        ).parameters.total
    except ConfigError as error:
        why = "" if families.WAYS_ON in str(error) else str(error)
    from ofu_exporter.flops.trace import from_config

    refused = why
    for streams in lengths:
        try:
            found = from_config.executed_of(config, streams, backward=False)
        except ConfigError as error:
            why = why or str(error).removeprefix("executed: ")
        else:
            theirs, executed, why = found.parameters, found.forward_flops, refused
            break
    return Row(kind, architecture, ours, theirs, executed, _line(why))


def _default(kind: str, architecture: str) -> tuple[dict[str, Any], tuple[Mapping[str, int], ...]]:
    if architecture in DENOISERS:
        torch, diffusers = importlib.import_module("torch"), importlib.import_module("diffusers")
        with torch.device("meta"):
            made = getattr(diffusers, architecture)()
        config = {name: list(v) if isinstance(v, tuple) else v for name, v in made.config.items()}
        return {**config, "_class_name": architecture}, (DENOISERS[architecture],)
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    read = getattr(transformers, architecture).config_class()
    written = json.loads(read.to_json_string(use_diff=False))
    return {**written, "architectures": [architecture]}, STREAMS


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "/")[:160]


def _answer(sender: Connection, kind: str, architecture: str) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    sender.send(row(kind, architecture))


def _guarded(pair: tuple[str, str]) -> Row:
    """The row, out of a process of its own: a model that hangs or needs all memory costs its row alone."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, *pair), daemon=True)
    process.start()
    sender.close()
    try:
        found: Row = (
            receiver.recv() if receiver.poll(HANGS) else Row(*pair, why=f"no answer in {HANGS} s")
        )
    except EOFError:
        found = Row(*pair, why=f"over {SECONDS} s of computing, or more memory than there is")
    process.kill()
    process.join()
    return found


def rows(pairs: list[tuple[str, str]], at_once: int) -> Iterator[Row]:
    """The rows of model types and their classes, as they are ready."""
    for library in ("torch", "transformers", "diffusers"):
        importlib.import_module(library)
    with ThreadPoolExecutor(at_once) as threads:
        for done in as_completed([threads.submit(_guarded, pair) for pair in pairs]):
            yield done.result()


def page(found: list[Row]) -> str:
    """The page."""
    versions = {
        name: importlib.import_module(name).__version__
        for name in ("torch", "transformers", "diffusers")
    }
    built = [each for each in found if each.theirs is not None or each.executed is not None]
    exact = [each for each in found if each.ours is not None]
    lines = [
        "# Which models have an answer",
        "",
        "Every model type of transformers "
        + versions["transformers"]
        + " and denoisers of diffusers "
        + versions["diffusers"]
        + ", each of its default configuration, with torch "
        + versions["torch"]
        + ".",
        f"Made on {datetime.now(timezone.utc):%Y-%m-%d}. {len(exact)} of {len(found)} have a closed form "
        f"(`ofu-exporter flops config.json`); {len(built)} are built and run without weights by `--executed`.",
        "`python -m tests.helpers.model_table` writes this page.",
        "",
        "| model type | class | closed form: parameters | torch: parameters | executed | why not, or what differs |",
        "|---|---|---:|---:|---|---|",
        *map(_cells, found),
    ]
    return "\n".join(lines) + "\n"


def _cells(each: Row) -> str:
    ours, theirs = ("" if n is None else f"{n:,}" for n in (each.ours, each.theirs))
    why = each.why
    if not why and each.ours is not None and each.theirs is not None and each.ours != each.theirs:
        why = f"{each.ours - each.theirs:+,}"
    return f"| {each.kind} | {each.architecture} | {ours} | {theirs} | {'yes' if each.executed else ''} | {why} |"


def _kept(file: Path | None) -> dict[str, Row]:
    """The rows of a run that was broken off, by their kind."""
    if file is None or not file.exists():
        return {}
    rows_of = [Row(**json.loads(line)) for line in file.read_text().splitlines()]
    return {each.kind: each for each in rows_of}


def main() -> None:
    """Write the page, or print rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", help="Classes or model types to print the rows of.")
    parser.add_argument(
        "--kept", type=Path, help="Where rows are kept, for a run that is broken off."
    )
    parser.add_argument("--at-once", type=int, default=2, help="How many models are run at once.")
    asked = parser.parse_args()
    pairs = [*architectures().items(), *((f"diffusers {name}", name) for name in DENOISERS)]
    known = families.architectures()
    first = sorted(pairs, key=lambda pair: pair[1] not in known)
    if asked.only:
        first = [pair for pair in first if {*pair} & {*asked.only}]
    found = _kept(asked.kept)
    for each in rows([pair for pair in first if pair[0] not in found], asked.at_once):
        sys.stderr.write(_cells(each) + "\n")
        found[each.kind] = each
        if asked.kept:
            with asked.kept.open("a") as file:
                file.write(json.dumps(asdict(each)) + "\n")
    if not asked.only:
        PAGE.write_text(page([found[kind] for kind, _ in pairs]))


if __name__ == "__main__":
    main()
