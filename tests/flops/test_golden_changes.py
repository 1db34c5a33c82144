"""One field of a configuration changed: what is then counted, or why it is refused, golden."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from tests.flops.counting import NAMES, config
from tests.flops.executions import recorded
from tests.flops.families import test_deepseek_v4, test_multimodal, test_nas

OF_SEVERAL_STREAMS = ("qwen_image", "vision_language", "wan")
OWN = {
    "kimi": test_multimodal.KIMI,
    "gemma 3": test_multimodal.GEMMA,
    "llama 4": test_multimodal.LLAMA,
    "deepseek v4": test_deepseek_v4.SMALL,
    "nas": test_nas.CONFIG,
}
NEVER_READ = ("_name_or_path", "id2label", "label2id", "transformers_version")


def configurations() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """One of each architecture."""
    seen: set[str] = set()
    for each in recorded():
        (architecture,) = each.config["architectures"]
        if not each.changed and architecture not in seen:
            seen.add(architecture)
            yield architecture, each.config
    yield from ((name, config(name)) for name in NAMES)
    yield from OWN.items()


@cache
def by_family() -> dict[str, dict[str, Mapping[str, Any]]]:
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, each in configurations():
        family = flops.read(each).family
        if name not in NAMES or family in OF_SEVERAL_STREAMS:
            found.setdefault(family, {})[name] = each
    return found


def instead(value: object) -> Iterator[object]:
    """Values of other kinds and sizes: too small, odd, the other way round."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (0, 9)
    elif isinstance(value, float):
        yield 0
    elif isinstance(value, str):
        yield "other"
    elif isinstance(value, list):
        yield from ([], value[:-1], ["other"] * len(value))
    elif value is None:
        yield from (3, True)


def changes(config: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each field left out, and with other values; of the parts of a configuration too."""
    for name, value in config.items():
        if name in NEVER_READ:
            continue
        yield f"{path}{name} gone", {key: each for key, each in config.items() if key != name}
        if isinstance(value, dict):
            for said, inner in changes(value, f"{path}{name}."):
                yield said, {**config, name: inner}
        for other in instead(value):
            yield f"{path}{name} {other}", {**config, name: other}


def counted(config: Mapping[str, Any]) -> str:
    try:
        model = flops.read(config)
        found = flops.count(model, flops.fixed(1, **dict.fromkeys(model.streams, 32)), flops.How())
    except ConfigError as error:
        return str(error).partition("; fields here: ")[0]
    notes = f" {' '.join(found.warnings)}" if found.warnings else ""
    size = found.parameters
    return f"{size.total} {size.active} {size.embedding} {found.model_flops_per_step}{notes}"


def outcomes(family: str) -> Iterator[str]:
    for name, usual in by_family()[family].items():
        as_usual = counted(usual)
        yield f"--- {name}: {as_usual}\n"
        for said, changed in changes(usual):
            if (outcome := counted(changed)) != as_usual:
                yield f"{said}: {outcome}\n"


@pytest.mark.parametrize("family", by_family())
def test_a_changed_field_is_counted_or_refused_as_it_was(
    family: str, golden: Callable[[str, str], None]
) -> None:
    golden(f"flops-changes/{family}.txt", "".join(outcomes(family)))
