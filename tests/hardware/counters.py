"""Asks NVML for GPM metrics one by one, as the hardware tests need it: every id, with the code of each refusal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pynvml

ACTIVITY = (*range(1, 14), 20, 21, 60, 61)
"""GPM ids of nvml.h that have a mean over the window: activity in percent, PCIe and NVLink in MiB/s."""
TOTALS = tuple(range(248, 261))
"""GPM ids of the cycle totals since boot."""
METRICS = (*ACTIVITY, *TOTALS)


def window(handle: Any, ids: Sequence[int], seconds: float) -> dict[int, float | str]:
    """Metrics over one window."""
    with samples(2) as (first, second):
        pynvml.nvmlGpmSampleGet(handle, first)
        pause(seconds)
        pynvml.nvmlGpmSampleGet(handle, second)
        return metrics(first, second, ids)


def metrics(first: Any, second: Any, ids: Sequence[int]) -> dict[int, float | str]:
    """By id: the value, or the code with which it is refused. Asked one by one where all at once are refused."""
    query = pynvml.c_nvmlGpmMetricsGet_t()
    query.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    query.numMetrics = len(ids)
    query.sample1, query.sample2 = first, second
    for metric, id_ in zip(query.metrics, ids, strict=False):
        metric.metricId = id_
    try:
        pynvml.nvmlGpmMetricsGet(query)
    except pynvml.NVMLError as error:
        if len(ids) == 1:
            return {ids[0]: f"call refused: {error}"}
        return {id_: metrics(first, second, (id_,))[id_] for id_ in ids}
    return {
        id_: metric.value if metric.nvmlReturn == 0 else f"code {metric.nvmlReturn}"
        for id_, metric in zip(ids, query.metrics, strict=False)
    }


@contextmanager
def samples(count: int) -> Iterator[list[Any]]:
    """GPM samples that are freed at the end."""
    taken = [pynvml.nvmlGpmSampleAlloc() for _ in range(count)]
    try:
        yield taken
    finally:
        for sample in taken:
            pynvml.nvmlGpmSampleFree(sample)


def timed(step: Callable[[], object], calls: int = 1000) -> Mapping[str, float]:
    """Microseconds of a call: median, 99th percentile, most."""
    times = []
    for _ in range(calls):
        began = time.perf_counter()
        step()
        times.append(1e6 * (time.perf_counter() - began))
    times.sort()
    return {"median": times[calls // 2], "p99": times[calls * 99 // 100], "max": times[-1]}


def asked(question: Callable[..., Any], *args: Any) -> Any:
    """The answer, or the words of the refusal."""
    try:
        return question(*args)
    except (pynvml.NVMLError, AttributeError) as error:
        return f"refused: {error}"


def pause(seconds: float) -> None:
    """What is measured is time that passes."""
    time.sleep(seconds)
