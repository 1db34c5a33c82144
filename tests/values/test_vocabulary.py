"""The words of labels, of JSON and of logs, with what they advise, golden: dashboards and alerts are made of them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from enum import Enum, Flag

import ofu_exporter


def kinds() -> Iterator[type[Enum]]:
    for module in pkgutil.walk_packages(ofu_exporter.__path__, "ofu_exporter."):
        if module.name.startswith(("ofu_exporter.flops.trace", "ofu_exporter.__main__")):
            continue  # needs torch
        if module.name in ("ofu_exporter.client.lightning", "ofu_exporter.client.huggingface"):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            is_kind = isinstance(value, type) and issubclass(value, Enum)
            is_kind = is_kind and not issubclass(value, Flag)  # whose numbers are no words
            if is_kind and value.__module__ == module.name and list(value):
                yield value


def test_a_word_is_what_it_was(golden: Callable[[str, str], None]) -> None:
    lines = [
        f"{kind.__module__.partition('.')[2]}.{kind.__name__}.{member.name} = {member.value}"
        f" {[text for name, text in vars(member).items() if name in ('advice', 'words', 'status')]}"
        for kind in kinds()
        for member in kind
    ]
    golden("vocabulary.txt", "\n".join(lines) + "\n")
