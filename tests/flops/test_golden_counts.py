"""Every public and every small configuration, counted in every way, golden: no term, pass or remark changes unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import conventions
from ofu_exporter.flops.passes import Lora, Passes, Recompute
from tests.flops.counting import NAMES, config
from tests.flops.executions import recorded

WAYS = {
    **{f"convention {name}": flops.How(name) for name in conventions.names()},
    "every pair": flops.How(counting=flops.Counting(causal=False)),
    "predictions": flops.How(counting=flops.Counting(predictions=True)),
    "padded": flops.How(counting=flops.Counting(padded_vocab_size=400_000)),
    "forward": flops.How(passes=Passes(forward_only=True)),
    "full": flops.How(passes=Passes(recompute=Recompute.FULL)),
    "3 layers": flops.How(passes=Passes(recompute=Recompute.FULL, recompute_layers=3)),
    "selective": flops.How(passes=Passes(recompute=Recompute.SELECTIVE)),
    "lora": flops.How(passes=Passes(lora=Lora(16), repeats=3)),
}


def counted(model: flops.Model, lengths: flops.Lengths, how: flops.How) -> str:
    try:
        found = flops.count(model, lengths, how)
    except ConfigError as error:
        return str(error)
    warnings = f"; {' '.join(found.warnings)}" if found.warnings else ""
    return (
        f"{found.model_flops_per_step}, {found.hardware_flops_per_step} of {found.tokens}{warnings}"
    )


def lines(name: str, read: Mapping[str, Any], streams: Mapping[str, int]) -> Iterator[str]:
    model = flops.read(read)
    about = asdict(model)
    yield f"--- {name}: {[value for key, value in about.items() if key not in ('shape', 'terms')]}"
    lengths = flops.fixed(3, **streams)
    for way, how in WAYS.items():
        yield f"{way}: {counted(model, lengths, how)}"
    for tower in model.towers if len(model.towers) > 1 else ():
        frozen = flops.How(passes=Passes(frozen=frozenset({tower})))
        yield f"frozen {tower}: {counted(model, lengths, frozen)}"


def terms(name: str) -> Iterator[str]:
    model = flops.read(config(name))
    streams = {stream: 1024 * place for place, stream in enumerate(model.streams, 1)}
    yield from lines(name, config(name), streams)
    full = flops.How(passes=Passes(recompute=Recompute.FULL))
    found = flops.count(model, flops.fixed(2, **streams), full)
    yield str(found.parameters)
    for line in found.lines:
        passes = f"{line.forward} {line.backward} {line.recomputed}"
        yield f"{line.term.name} {line.term.part.value} {line.term.parameters}: {passes}"


def test_public_configurations_are_counted_as_they_were(
    golden: Callable[[str, str], None],
) -> None:
    golden("flops-configs.txt", "\n".join(line for name in NAMES for line in terms(name)))


def test_small_models_are_counted_as_they_were(golden: Callable[[str, str], None]) -> None:
    whole = [each for each in recorded() if not each.changed]
    found = (line for each in whole for line in lines(each.name, each.config, each.streams))
    golden("flops-small.txt", "\n".join(found))
