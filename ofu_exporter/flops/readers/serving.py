"""The counters `vllm:estimated_flops_per_gpu_total` and `sglang:estimated_flops_per_gpu_total` of a metrics page.

vLLM with --enable-mfu-metrics (`v1/metrics/perf.py`), SGLang with its own metrics. They are counters of forward passes
since the start of an engine, estimated from shapes, for one of the engine's GPUs: a rate needs two pages, and engines
side by side are averaged, not summed. A page may be there and never move where a backend doesn't fill it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.statements import JobFacts, Statement, found, number, ratio

_LINE = re.compile(
    r"^(vllm|sglang)[:_]estimated_flops_per_gpu_total(\{[^}]*\})?\s+(\S+)", re.MULTILINE
)
_NOTE = "estimated from shapes, forward passes only"


def read(text: str, job: JobFacts) -> list[Statement]:
    """One report per engine: its FLOPs since its start, named by the counter's labels.

    Raises ConfigError when the page has no such counter or one is no number of at least 0.
    """
    reports = [
        Statement(name=labels, flops=number(value, "estimated_flops_per_gpu_total"), notes=(_NOTE,))
        for _, labels, value in _LINE.findall(text)
    ]
    return found(reports, "counter vllm:/sglang:estimated_flops_per_gpu_total")


def engine(text: str) -> str | None:
    """`vllm` or `sglang`; None for a page without the counter."""
    match = _LINE.search(text)
    return match[1] if match else None


def between(before: str, after: str, seconds: float, job: JobFacts) -> list[Statement]:
    """FLOP/s and MFU of each engine between two pages that are so many seconds apart.

    Raises ConfigError when nothing can be compared: no time between them, no engine on both, or a
    counter that went back (the engine was started anew).
    """
    if not seconds > 0:
        raise ConfigError(f"seconds: {seconds!r} is not above 0")
    earlier = {report.name: report.flops or 0.0 for report in read(before, job)}
    reports = []
    for report in read(after, job):
        if report.name not in earlier:
            continue
        flops = (report.flops or 0.0) - earlier[report.name]
        if flops < 0:
            raise ConfigError(
                f"estimated_flops_per_gpu_total{report.name} went back: the engine was restarted"
            )
        rate = flops / seconds
        reports.append(
            replace(
                report, flops=flops, seconds=seconds, flops_per_second=rate, mfu=ratio(rate, job)
            )
        )
    return found(reports, "engine on both pages")
