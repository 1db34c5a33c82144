"""Reads what torch executed of the small models, and compares it with what is counted here."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError

RECORDED = Path(__file__).parent / "executed.jsonl"
FORWARD = flops.Passes(forward_only=True)
ROUTING = "correction"
"""The term of routing biases, which published checkpoints store as parameters and transformers as buffers."""


@dataclass(frozen=True)
class Execution:
    """What torch executed of one configuration: parameters, and FLOPs by operator."""

    name: str
    config: Mapping[str, Any]
    """The whole configuration; empty for a change of the one before."""
    streams: Mapping[str, int]
    changed: Mapping[str, Any] = field(default_factory=dict)
    scans: bool = False
    """Whether recurrences run as products that depend on a kernel's chunks, and convolutions over their padding."""
    parameters: int = 0
    forward: Mapping[str, int] = field(default_factory=dict)

    def config_changed(self) -> dict[str, Any]:
        """The configuration with its changes."""
        whole: dict[str, Any] = copy.deepcopy(dict(self.config))
        for path, value in self.changed.items():
            inner, names = whole, path.split(".")
            for name in names[:-1]:
                inner = inner[name]
            inner[names[-1]] = value
        return whole

    def line(self) -> str:
        """One line of the file."""
        kept = {name: value for name, value in vars(self).items() if value not in ({}, False)}
        return json.dumps(kept, separators=(",", ":"))


def recorded() -> Iterator[Execution]:
    """Every recorded execution, with its whole configuration."""
    config: Mapping[str, Any] = {}
    for line in RECORDED.read_text().splitlines():
        found = Execution(**{"config": {}, "streams": {}, **json.loads(line)})
        config = found.config or config
        yield replace(found, config=config)


def difference(found: Execution, config: Mapping[str, Any]) -> str:
    """What is counted otherwise than torch executed it; empty where nothing is.

    A configuration that is refused is not counted otherwise.
    """
    whole = replace(found, config=config).config_changed()
    try:
        model = flops.read(whole)
    except ConfigError as error:
        return "" if found.changed else str(error)
    every_pair = flops.Counting(causal=False)
    how = flops.How(counting=every_pair, passes=FORWARD)
    counted = flops.count(model, flops.fixed(1, **found.streams), how)
    routing = sum(term.parameters for term in _terms(model) if term.name.endswith(ROUTING))
    total = counted.parameters.total
    if found.parameters not in (total, total - routing):
        return f"parameters {total - routing} or {total} for {found.parameters}"
    ours, theirs = _compared(counted, found)
    return "" if ours == theirs else f"FLOPs {ours} for {theirs} of {dict(found.forward)}"


def _terms(model: flops.Model) -> tuple[flops.Term, ...]:
    from ofu_exporter.flops.models import own_terms

    return own_terms(model, flops.Counting())


def _compared(counted: flops.Count, found: Execution) -> tuple[Any, Any]:
    """FLOPs of everything; where recurrences run, those of linear layers outside of experts."""
    if not found.scans:
        return counted.model_flops_per_step, sum(found.forward.values())
    apart = (flops.Part.SCAN, flops.Part.CONVOLUTION, flops.Part.CORE)
    linears = (line for line in counted.lines if line.term.part not in apart)
    # torch runs routed experts as batched products, as it runs the recurrences.
    routed = ("experts.gate_proj", "experts.up_proj", "experts.down_proj")
    ours = sum(line.forward for line in linears if line.term.name not in routed)
    linear = ("mm", "addmm", "_grouped_mm")
    return ours, sum(found.forward.get(name, 0) for name in linear)
