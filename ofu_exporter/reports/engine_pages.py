"""Reads what a serving engine's page says of its work: vLLM, SGLang, TensorRT-LLM and llama.cpp, or a gateway to them.

Names are those of the engines' own code and docs: vLLM `v1/metrics/loggers.py` and `perf.py`, SGLang
`metrics_collector.py`, TensorRT-LLM `metrics/collector.py`, llama.cpp `tools/server/README.md`. Counters come with
`_total` and without, and with `_` for `:`, as recording rules write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

from ofu_exporter.values.text import shown

MAX_SERIES = 2000
"""Of one page; the largest that was seen, 16 data-parallel engines of one model, has some 300."""
MAX_STARTS = 256
"""Processes of one page whose starts are read."""
MOST = 1e24
"""More than any engine counts; the sum of a thousand such counters is still a number."""
TOKENS, REQUESTS, SECONDS, BYTES, FLOPS = "tokens", "requests", "seconds", "bytes", "flops"
GAUGES = RUNNING, WAITING = "running", "waiting"
ALL_PROMPT = "all prompt"
"""Tokens of prompts with those from the cache."""

ENGINES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "vllm": {
        "prompt_tokens": (TOKENS, ALL_PROMPT),
        "prompt_tokens_cached": (TOKENS, "cached"),
        "prompt_tokens_recomputed": (TOKENS, "recomputed"),
        "generation_tokens": (TOKENS, "generation"),
        "request_success": (REQUESTS, ""),
        "num_requests_running": (RUNNING, ""),
        "num_requests_waiting": (WAITING, ""),
        "estimated_flops_per_gpu": (FLOPS, ""),
        "estimated_read_bytes_per_gpu": (BYTES, "read"),
        "estimated_write_bytes_per_gpu": (BYTES, "write"),
    },
    "sglang": {
        "prompt_tokens": (TOKENS, ALL_PROMPT),
        "cached_tokens": (TOKENS, "cached"),
        "generation_tokens": (TOKENS, "generation"),
        "num_requests": (REQUESTS, ""),
        "forward_execution_seconds": (SECONDS, "category"),
        "num_running_reqs": (RUNNING, ""),
        "num_queue_reqs": (WAITING, ""),
        "estimated_flops_per_gpu": (FLOPS, ""),
        # not its bytes: it counts all weights as read for each token
    },
    "trtllm": {
        "prompt_tokens": (TOKENS, ALL_PROMPT),
        "prompt_cached_tokens": (TOKENS, "cached"),
        "generation_tokens": (TOKENS, "generation"),
        "request_success": (REQUESTS, ""),
        # not num_requests_running: it is renewed when a request ends, and stays when none comes
    },
    "llamacpp": {
        "prompt_tokens": (TOKENS, "prompt"),  # those that were processed, without the cache's
        "prompt_tokens_cached": (TOKENS, "cached"),
        "tokens_predicted": (TOKENS, "generation"),
        "prompt_seconds": (SECONDS, "=prefill"),
        # not tokens_predicted_seconds: it adds up requests that run side by side in one pass
        "requests_processing": (RUNNING, ""),
        "requests_deferred": (WAITING, ""),
    },
}
"""By engine and counter, without `_total`: what it counts, and its kind. Of seconds the kind is a label, or after `=` a
phase."""
_PASSED_ON = {"decode": (ALL_PROMPT, "cached"), "prefill": ("generation",)}
"""Tokens that one of SGLang's disaggregated engines (label `engine_type`) only counts: the other one computed them."""
_RANK = re.compile(r"\b(?:tp|pp|moe_ep)_rank=\"[^\"]*\",?")
"""Ranks of SGLang's that run the same requests, each with a gauge of all of them."""
_REST = r"((?:\{| |\t).{1,4096})$"
"""Of a line, after its name. A longer one is none of these, and would be looked at for as long as it is."""
_ROW = re.compile(r"(\{(?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*\})?[ \t]+(\S+)")
"""Labels, as they are written, and a value."""
_ENGINE = re.compile(rf"^({'|'.join(ENGINES)})[:_]([a-z_]+){_REST}", re.M)
_LABEL = re.compile(r"(?<!\w)(\w+)=\"((?:[^\"\\]|\\.)*)\"")
_STARTED = re.compile(rf"^process_start_time_seconds{_REST}", re.M)


class EngineSeries(NamedTuple):
    """One counter of one engine or rank."""

    measure: str
    kind: str
    model: str
    labels: str
    """A digest of the labels as they are written: engines and ranks differ by them."""


class EnginePage(NamedTuple):
    """What one page says of an engine's work."""

    counters: Mapping[EngineSeries, float]
    gauges: Mapping[EngineSeries, float]
    started: tuple[str, ...]
    """When its processes started, as the page writes it; empty where it does not."""


def read(text: str) -> EnginePage | None:
    """None for a page of none of these engines. Raises ValueError for one with too many series."""
    counters: dict[EngineSeries, float] = {}
    gauges: dict[EngineSeries, float] = {}
    for series, value in _series(text):
        if series.measure in GAUGES:
            gauges[series] = max(value, gauges.get(series, 0.0))
        else:
            counters[series] = value
    counted = {series.measure for series, value in counters.items() if value}
    for series in [*counters]:
        if series.measure in (FLOPS, BYTES) and series.measure not in counted:
            del counters[series]  # vLLM without --enable-mfu-metrics has them all the same
    if not counters and not gauges:
        return None
    starts = islice((row[2] for row in _rows(_STARTED, text)), MAX_STARTS)
    return EnginePage(counters, gauges, tuple(starts))


def gauge(text: str, name: str) -> list[float]:
    """The values of any metric on a page, those that are numbers, of the first lines."""
    rows = _rows(re.compile(rf"^{re.escape(name)}{_REST}", re.M), text)
    values = (_number(row[2]) for row in rows)
    return list(islice((value for value in values if value is not None), MAX_SERIES))


def _rows(line: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Labels and value of each line, one after the other: a page of 16 MiB has half a million of them."""
    rests = (_ROW.match(match[line.groups]) for match in line.finditer(text))
    return (row for row in rests if row is not None)


def _series(text: str) -> Iterator[tuple[EngineSeries, float]]:
    count = 0
    for match in _ENGINE.finditer(text):
        meaning = ENGINES[match[1]].get(match[2].removesuffix("_total"))
        row = _ROW.match(match[3]) if meaning else None
        number = _number(row[2]) if row else None
        if meaning is None or row is None or number is None or number < 0:
            continue
        labels = row[1] or ""
        count += 1
        if count > MAX_SERIES:
            raise ValueError(f"over {MAX_SERIES} series of a serving engine")
        named = {name: shown(_plain(value)) for name, value in _LABEL.findall(labels)}
        if match[1] == "sglang" and _is_counted_elsewhere(*meaning, named):
            continue
        if meaning[0] in GAUGES:
            labels = _RANK.sub("", labels)
        model = named.get("model_name", named.get("model", ""))[:256]
        yield EngineSeries(meaning[0], _kind(*meaning, named), model, short_hash(labels)), number


def _is_counted_elsewhere(measure: str, kind: str, named: Mapping[str, str]) -> bool:
    """Whether a line of SGLang's is a part of another line, by priority, or of another engine's."""
    if measure in GAUGES:
        return bool(named.get("priority"))
    return kind in _PASSED_ON.get(named.get("engine_type", ""), ())


def short_hash(text: str) -> str:
    """A short name of a text, the same in every process."""
    return blake2b(text.encode(), digest_size=12).hexdigest()


def _kind(measure: str, kind: str, named: Mapping[str, str]) -> str:
    if measure != SECONDS:
        return kind
    return kind[1:] if kind.startswith("=") else named.get(kind, "")[:64]


def _plain(value: str) -> str:
    """A label's value without the escapes of the text format."""
    return re.sub(r"\\(.)", lambda escaped: {"n": "\n"}.get(escaped[1], escaped[1]), value)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) <= MOST else None
