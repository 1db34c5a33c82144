"""Reads `vllm:estimated_flops_per_gpu_total` and `sglang:estimated_flops_per_gpu_total` from a page of metrics.

vLLM has the counter with --enable-mfu-metrics (`v1/metrics/perf.py`), SGLang with its own metrics. It counts forward
passes since the start of an engine, estimated from shapes, for one of the engine's GPUs. So a rate needs two pages, and
engines side by side are averaged, not summed. If a backend doesn't fill the counter, it exists but never moves.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.statements import JobFacts, Statement, number, some, with_rate

_LINE = re.compile(
    r"^(vllm|sglang)[:_]estimated_flops_per_gpu_total(\{[^}]*\})?\s+(\S+)", re.MULTILINE
)
MOST_ENGINES = 2000
"""Of one page: its ranks and engines side by side."""
_NOTE = "estimated from shapes, forward passes only"


def read(text: str, job: JobFacts) -> list[Statement]:
    """One statement per engine: its FLOPs since its start, named by the counter's labels."""
    statements = [
        Statement(name=labels, flops=number(value, "estimated_flops_per_gpu_total"), notes=(_NOTE,))
        for _, labels, value in islice(map(re.Match.groups, _LINE.finditer(text)), MOST_ENGINES)
    ]
    return some(statements, "counter vllm:/sglang:estimated_flops_per_gpu_total")


def engine(text: str) -> str | None:
    """`vllm` or `sglang`; None for a page without the counter."""
    match = _LINE.search(text)
    return match[1] if match else None


def between(before: str, after: str, seconds: float, job: JobFacts) -> list[Statement]:
    """FLOP/s and MFU of each engine between two pages that are `seconds` apart.

    Raises ConfigError for no time between them, no engine on both, and a counter that went back.
    """
    if not seconds > 0:
        raise ConfigError(f"seconds: {seconds!r} is not above 0")
    earlier = {each.name: each.flops or 0.0 for each in read(before, job)}
    statements = []
    for each in read(after, job):
        if each.name not in earlier:
            continue
        flops = (each.flops or 0.0) - earlier[each.name]
        if flops < 0:
            raise ConfigError(
                f"estimated_flops_per_gpu_total{each.name} went back: the engine was restarted"
            )
        statements.append(
            with_rate(replace(each, flops=flops, seconds=seconds), flops / seconds, job)
        )
    return some(statements, "engine on both pages")
