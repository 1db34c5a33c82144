"""Makes architectures.csv: for each model type of transformers, and the denoisers that people train, who answers.

`python -m tests.helpers.model_table` builds every model of its default configuration on the meta device, which takes
an hour; `--only NAME ...` prints the rows of some, `--renew NAME ...` runs some again, in place;
`--closed-form` counts all closed forms again and runs nothing, `--recipes` makes the recipes of rows that have none,
`--kept FILE` lets a run that was broken off go on.
Needs the group `test-torch`; where timm and torchvision are installed too, the models that need them are run.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.util
import json
import multiprocessing
import resource
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, fields, replace
from datetime import datetime, timezone
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import families
from ofu_exporter.flops.architectures import FILE, ArchitectureRow, read
from ofu_exporter.flops.fields import names_in

HEADS: tuple[str, ...] = (
    "IMAGE_TEXT_TO_TEXT",
    "SEQ_TO_SEQ_CAUSAL_LM",
    "SPEECH_SEQ_2_SEQ",
    "MASKED_LM",
    "CAUSAL_LM",
)
HEADS += ("IMAGE_CLASSIFICATION", "CTC", "ZERO_SHOT_IMAGE_CLASSIFICATION")
STREAMS = (
    {"tokens": 64, "target": 16, "image": 144, "images": 1, "audio": 2000},
    {"tokens": 1024, "target": 16, "image": 64, "images": 1, "audio": 3000},
    {"tokens": 16, "target": 16, "image": 36, "images": 1, "frames": 8, "audio": 38400},
    {"tokens": 64, "target": 16},
)
"""The inputs that are tried one after the other: with and without images, with short and long texts and sounds."""
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
    "CogVideoXTransformer3DModel": {"latent": 64, "prompt": 226},
    "Lumina2Transformer2DModel": {"latent": 64, "prompt": 16},
    "ZImageTransformer2DModel": {"latent": 64, "prompt": 16},
    "ChromaTransformer2DModel": {"latent": 64, "prompt": 16},
}
SECONDS = 600
"""What a row may compute; on a busy machine, it may wait longer for its turn."""
HANGS = 900
BOTH, FORWARD = "forward and backward", "forward"
LAYERS = names_in(
    """
    decoder_layers depth encoder_layers l_layers n_layer n_layers num_decoder_layers num_encoder_layers
    num_hidden_layers num_layers num_refiner_layers num_single_layers r_layers x_layers
    """
)
"""Fields that say how often a layer is repeated. Recipes are made of two of each, where the library builds that."""


def text(rows: Iterable[ArchitectureRow]) -> str:
    """Rows as the file has them."""
    file = StringIO()
    writer = csv.DictWriter(
        file, [each.name for each in fields(ArchitectureRow)], lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(asdict(each) for each in rows)
    return file.getvalue()


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


def row(kind: str, architecture: str) -> ArchitectureRow:
    """The row of one model, of its default configuration."""
    warnings.simplefilter("ignore")
    try:
        config, lengths = _default(kind, architecture)
    except Exception as error:  # noqa: BLE001 - whatever a library raises is the row's answer
        why = _line(f"no default configuration: {error}")
        return ArchitectureRow(kind, architecture, why=why, run=_versions())
    found = closed_form(ArchitectureRow(kind, architecture, run=_versions()), config)
    whys: list[str] = []
    for streams in lengths:
        try:
            return _ran(found, config, streams, _text_alone(streams, lengths, whys))
        except ConfigError as error:
            whys.append(str(error).removeprefix("executed: "))
            if " cannot build " in whys[-1]:
                break
    return replace(found, why=_line(_furthest(whys)))


def _ran(
    found: ArchitectureRow, config: Mapping[str, Any], streams: Mapping[str, int], why: str
) -> ArchitectureRow:
    """The row of a model that runs: forward and backward, or forward only where the backward pass fails."""
    from ofu_exporter.flops.trace import from_config

    passes = BOTH
    try:
        ran = from_config.executed_of(config, streams)
    except ConfigError as error:
        if "forward only" not in str(error):
            raise
        ran = from_config.executed_of(config, streams, backward=False)
        passes, why = FORWARD, _line(str(error).removeprefix("executed: "))
    return replace(found, theirs=ran.parameters, executed=passes, why=why)


def _error_of_recipe(config: Mapping[str, Any], lengths: Any, backward: bool) -> str:
    """How far the recipe of a model of two layers, else of the model, is off where it was not fitted; "" for none."""
    from ofu_exporter.flops.trace import making

    for tried in (_shallow(config), config):
        for streams in lengths:
            try:
                fit = making.recipe_of_config(tried, streams, backward).fit
            except Exception:  # noqa: BLE001 - whatever a library raises, there is no recipe
                continue
            off = fit.recipe_flops / max(fit.executed_flops, 1) - 1
            return "0" if fit.recipe_flops == fit.executed_flops else f"{off:.2g}"
    return ""


def _shallow(value: Any) -> Any:
    """A configuration with two layers where it has more."""
    if isinstance(value, list):
        return [_shallow(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    deep = {name: each for name, each in value.items() if name in LAYERS and type(each) is int}
    made = {name: _shallow(each) for name, each in value.items()}
    of_layers = {
        name: each[:2]
        for name, each in value.items()
        if isinstance(each, list) and len(each) in deep.values()
    }
    return {**made, **of_layers, **{name: min(each, 2) for name, each in deep.items()}}


def with_recipe(found: ArchitectureRow) -> ArchitectureRow:
    """The row with its recipe, where torch executes the model and the row has none."""
    if not found.executed or found.recipe:
        return found
    config, lengths = _default(found.kind, found.architecture)
    return replace(found, recipe=_error_of_recipe(config, lengths, found.executed == BOTH))


def _text_alone(streams: Mapping[str, int], lengths: Any, whys: list[str]) -> str:
    """That a model which takes images or sounds ran on a text alone."""
    alone = whys and "images" in lengths[0] and "images" not in streams
    return _line(f"without images and sounds; with them: {_furthest(whys)}") if alone else ""


def _furthest(whys: list[str]) -> str:
    """Of the reasons why inputs were refused, the one that says most: not that a stream is missing or too short."""
    plain = [why for why in whys if " needs --" not in why and "is not longer" not in why]
    return [*plain, *whys][0]


def closed_form(found: ArchitectureRow, config: Mapping[str, Any]) -> ArchitectureRow:
    """The row with the parameters of the closed form, or with what the default configuration lacks."""
    try:
        model = flops.read(dict(config))
        step = flops.fixed(1, **dict.fromkeys(model.streams, 64))
        ours = flops.count(model, step).parameters.total
    except ConfigError as error:
        known = found.architecture in families.architectures()
        refusal = _line(str(error)).replace(";", ",") if known else ""
        return replace(found, ours=None, refusal=refusal)
    return replace(found, ours=ours, refusal="")


def closed_form_again(found: ArchitectureRow) -> ArchitectureRow:
    """The row with its closed form as the code counts today, and what torch executed as it was."""
    try:
        config, _ = _default(found.kind, found.architecture)
    except Exception:  # noqa: BLE001 - the row says so already
        return found
    return closed_form(found, config)


def _versions() -> str:
    """With what a row is run, and when."""
    names = ["torch", "transformers", "diffusers"]
    names += [name for name in ("timm",) if importlib.util.find_spec(name)]
    said = (
        f"{name} {importlib.import_module(name).__version__.partition('+')[0]}" for name in names
    )
    return f"{', '.join(said)}; {datetime.now(timezone.utc):%Y-%m-%d}"


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
    return " ".join(text.split()).replace("|", "/")[:160].rstrip()


def _answer(sender: Connection, before: ArchitectureRow) -> None:
    """Send the row without its recipe first, which costs the most."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    found = before if before.executed else row(before.kind, before.architecture)
    sender.send(found)
    sender.send(with_recipe(found))


def _guarded(before: ArchitectureRow) -> ArchitectureRow:
    """The row, out of a process of its own: a model that hangs or needs all memory costs its row alone."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, before), daemon=True)
    process.start()
    sender.close()
    why, found = f"no answer in {HANGS} s", None
    try:
        while receiver.poll(HANGS):
            found = receiver.recv()
    except EOFError:
        why = f"over {SECONDS} s of computing, or more memory than there is"
    process.kill()
    process.join()
    return found or closed_form_again(replace(before, why=why, run=_versions()))


def rows(wanted: list[ArchitectureRow], at_once: int) -> Iterator[ArchitectureRow]:
    """The rows with what they lack, as they are ready: what is executed, and recipes."""
    for library in ("torch", "transformers", "diffusers", "ofu_exporter.flops.trace.from_config"):
        importlib.import_module(library)
    with ThreadPoolExecutor(at_once) as threads:
        for done in as_completed([threads.submit(_guarded, each) for each in wanted]):
            yield done.result()


def _kept(file: Path | None) -> dict[str, ArchitectureRow]:
    """The rows of a run that was broken off, by their kind."""
    if file is None or not file.exists():
        return {}
    rows_of = [ArchitectureRow(**json.loads(line)) for line in file.read_text().splitlines()]
    return {each.kind: each for each in rows_of}


def main() -> None:
    """Write the page, renew rows of it, or print rows."""
    asked = _parser().parse_args()
    pairs = [*architectures().items(), *((f"diffusers {name}", name) for name in DENOISERS)]
    written = {each.kind: each for each in read(FILE.read_text())} if FILE.exists() else {}
    if asked.closed_form:
        found = {kind: closed_form_again(each) for kind, each in written.items()}
        FILE.write_text(text(found[kind] for kind, _ in pairs if kind in found))
        return
    some = {*(asked.only or asked.renew or ())}
    wanted = [pair for pair in pairs if not some or some & {*pair}]
    found = _kept(asked.kept)
    lacking = [ArchitectureRow(*pair) for pair in wanted if pair[0] not in found]
    if asked.recipes:
        lacking = [written[each.kind] for each in lacking if written[each.kind].executed]
        lacking = [each for each in lacking if not each.recipe]
    for each in rows(lacking, asked.at_once):
        sys.stderr.write(text([each]).partition("\n")[2])
        found[each.kind] = each
        if asked.kept:
            with asked.kept.open("a") as file:
                file.write(json.dumps(asdict(each)) + "\n")
    if not asked.only:
        known = {**written, **found} if some or asked.recipes else found
        FILE.write_text(text(known[kind] for kind, _ in pairs if kind in known))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", help="Classes or model types to print the rows of.")
    parser.add_argument("--renew", nargs="+", help="Classes or model types to run again, in place.")
    parser.add_argument(
        "--closed-form", action="store_true", help="Count all closed forms again, in place."
    )
    parser.add_argument(
        "--recipes", action="store_true", help="Make recipes of rows that have none, in place."
    )
    parser.add_argument(
        "--kept", type=Path, help="Where rows are kept, for a run that is broken off."
    )
    parser.add_argument("--at-once", type=int, default=2, help="How many models are run at once.")
    return parser


if __name__ == "__main__":
    main()
