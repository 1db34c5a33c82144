"""Every reason has a test that names it."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

from ofu_exporter.values import reasons


def test_no_reason_is_without_a_test() -> None:
    """By its member, or by its value as a label."""
    named = set()
    for path in Path(__file__).parents[1].rglob("test_*.py"):
        named |= {*re.findall(r"\b\w+\.[A-Z_]+\b|[\"'/=][a-z_]+\b", path.read_text())}
    kinds = [each for each in vars(reasons).values() if isinstance(each, type)]
    members = [each for kind in kinds if issubclass(kind, Enum) for each in kind]
    assert len(members) > 90
    forms = {each: {f"{mark}{each.value}" for mark in "\"'/="} for each in members}
    assert [
        f"{each}"
        for each in members
        if not (forms[each] | {f"{type(each).__name__}.{each.name}"}) & named
    ] == []
