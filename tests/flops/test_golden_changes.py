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
from tests.helpers.changed import outcomes

pytestmark = pytest.mark.slow

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


def counted(config: Mapping[str, Any]) -> str:
    try:
        model = flops.read(config)
        found = flops.count(model, flops.fixed(1, **dict.fromkeys(model.streams, 32)), flops.How())
    except ConfigError as error:
        return str(error).partition("; fields here: ")[0]
    notes = f" {' '.join(found.warnings)}" if found.warnings else ""
    size = found.parameters
    return f"{size.total} {size.active} {size.embedding} {found.model_flops_per_step}{notes}"


def of_family(family: str) -> Iterator[str]:
    for name, usual in by_family()[family].items():
        yield f"--- {name}: {outcomes(usual, counted, never=NEVER_READ)}"


@pytest.mark.parametrize("family", by_family())
def test_a_changed_field_is_counted_or_refused_as_it_was(
    family: str, golden: Callable[[str, str], None]
) -> None:
    golden(f"flops-changes/{family}.txt", "".join(of_family(family)))
