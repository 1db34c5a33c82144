"""Reads the configurations under tests/flops/configs, and counts them in one line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError

CONFIGS = Path(__file__).parent / "configs"
LLAMA = str(CONFIGS / "llama-3-8b.json")
NAMES = sorted(path.stem for path in CONFIGS.glob("*.json"))


def config(name: str, /, **changed: object) -> dict[str, Any]:
    """A public configuration, with fields changed or added."""
    read: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text())
    return {**read, **changed}


def without(name: str, field: str) -> dict[str, Any]:
    """A public configuration that lacks a field."""
    return {key: value for key, value in config(name).items() if key != field}


def count(
    of: str | dict[str, Any],
    convention: str = "model",
    tokens: int = 4096,
    batch: int = 1,
    counting: flops.Counting | None = None,
    passes: flops.Passes | None = None,
) -> flops.Count:
    """A decoder's count of one step of equal sequences."""
    model = flops.read(config(of) if isinstance(of, str) else of)
    how = flops.How(convention, counting or flops.Counting(), passes or flops.Passes())
    return flops.count(model, flops.fixed(batch, tokens=tokens), how)


def step(of: str | dict[str, Any], convention: str = "model", tokens: int = 4096) -> int:
    """Its model FLOPs, which must be a whole number."""
    total = count(of, convention, tokens).model_flops_per_step
    assert isinstance(total, int)
    return total


def ratio(one: int | Fraction, other: int | Fraction) -> float:
    return float(Fraction(one) / Fraction(other))


def share(of: flops.Count, part: flops.Part) -> float:
    """The share of the model FLOPs that is in a part."""
    flops_of_part = sum(Fraction(line.model) for line in of.lines if line.term.part is part)
    return float(flops_of_part / Fraction(of.model_flops_per_step))


def samples(of: Iterable[Mapping[str, int]]) -> flops.Lengths:
    """Samples of several streams."""
    return sum((flops.fixed(1, **streams) for streams in of), flops.Lengths())


def refusal(changed: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        flops.read(changed)
    return str(caught.value)
