"""Everything that only a GPU can answer, asked in one call of less than ten minutes.

    python -m tests.hardware.first_contact FOLDER

Every step writes FOLDER/STEP.json; one that fails writes why, and the others go on. Nothing of the card is set or
changed. What the answers settle belongs into the documentation with card, driver, torch and date. Not run on a GPU yet.
A small model trained beside the agent is not in here.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pynvml

from ofu_exporter.sources.nvml import gpm
from ofu_exporter.sources.nvml.gpm import CYCLES_ELAPSED, CYCLES_TENSOR
from ofu_exporter.validation import Machine, Product, cuda
from tests.bench import agent_cost
from tests.helpers.agent import COMMAND, bare_environment, call

METRICS = (*range(1, 14), 20, 21, 60, 61, *range(248, 261))
"""GPM ids of nvml.h: activity, PCIe, NVLink, totals since boot."""
CALLS = 1000
GAP_SECONDS = 0.2
"""Between the two samples of a GPM window."""
LOAD = Product("noise", "bf16", 8192, 8192, 8192, 20.0)
WINDOWS = (0.1, 0.5, 1.0, 5.0)

Answer = Mapping[str, Any]


def facts(handle: Any) -> Answer:
    """The driver, the card, and which GPM metrics answer, with the value or the code of those that do not."""
    values = window(handle, METRICS, GAP_SECONDS)
    return {
        "driver": asked(pynvml.nvmlSystemGetDriverVersion),
        "nvml": asked(pynvml.nvmlSystemGetNVMLVersion),
        "binding": importlib.metadata.version("nvidia-ml-py"),
        "root": os.geteuid() == 0,
        "name": asked(pynvml.nvmlDeviceGetName, handle),
        "uuid": asked(pynvml.nvmlDeviceGetUUID, handle),
        "pci_device_id": asked(lambda: hex(pynvml.nvmlDeviceGetPciInfo(handle).pciDeviceId)),
        "memory_bytes": asked(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        "cores": asked(pynvml.nvmlDeviceGetNumGpuCores, handle),
        "max_sm_clock_mhz": asked(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        "clock_samples": asked(lambda: len(clock_samples(handle))),
        "metrics": {str(id_): answer for id_, answer in values.items()},
    }


def clock_samples(handle: Any) -> Sequence[Any]:
    """The driver's own buffer of clock reads, where it has one."""
    _, samples = pynvml.nvmlDeviceGetSamples(handle, pynvml.NVML_PROCESSOR_CLK_SAMPLES, 0)
    return list(samples)


def costs(handle: Any) -> Answer:
    """Microseconds of each call that a sampler makes."""
    with sample_pair() as (first, second):
        pynvml.nvmlGpmSampleGet(handle, first)
        pause(GAP_SECONDS)
        pynvml.nvmlGpmSampleGet(handle, second)
        return {
            "GpmSampleGet": timed(lambda: pynvml.nvmlGpmSampleGet(handle, second)),
            "GpmMetricsGet 1 id": timed(lambda: metrics(first, second, (5,))),
            "GpmMetricsGet as the sampler": timed(lambda: metrics(first, second, gpm.METRICS)),
            "GetClockInfo": timed(
                lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
            ),
            "GetPowerUsage": asked(lambda: timed(lambda: pynvml.nvmlDeviceGetPowerUsage(handle))),
        }


def cycles(handle: Any, seconds: float = 5.0) -> Answer:
    """Cycle totals at both ends of some windows, beside the polled clock and activity of the same windows.

    Elapsed cycles per second over the clock are 1 where they are of one SM, the number of SMs where they are summed.
    """
    found = []
    for _ in range(3):
        began = time.monotonic()
        clocks: list[float] = []
        with sample_pair() as (first, second):
            pynvml.nvmlGpmSampleGet(handle, first)
            while time.monotonic() < began + seconds / 3:
                clocks.append(1e6 * pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
                pause(0.02)
            pynvml.nvmlGpmSampleGet(handle, second)
            values = metrics(first, second, (5, CYCLES_ELAPSED, CYCLES_TENSOR))
        mean = statistics.fmean(clocks)
        ended = time.monotonic()
        found.append({"at": ended, "seconds": ended - began, "clock_hz": mean, "values": values})
    return {"windows": found, "between": [_between(*pair) for pair in itertools.pairwise(found)]}


def _between(before: Mapping[str, Any], after: Mapping[str, Any]) -> Answer:
    """As if the values were totals."""
    elapsed, tensor = (
        after["values"][id_] - before["values"][id_]
        if isinstance(before["values"][id_], float) and isinstance(after["values"][id_], float)
        else None
        for id_ in (CYCLES_ELAPSED, CYCLES_TENSOR)
    )
    if not elapsed or tensor is None:
        return {"elapsed": elapsed}
    return {
        "elapsed": elapsed,
        "tensor": tensor,
        "ratio": tensor / elapsed,
        "activity": after["values"][5],
        "elapsed_over_clock": elapsed / ((after["at"] - before["at"]) * after["clock_hz"]),
    }


def windows(handle: Any, lengths: Sequence[float] = WINDOWS, total: float = 5.0) -> Answer:
    """Activity of a steady load over windows of several lengths."""
    found = {}
    for seconds in lengths:
        number = max(2, round(total / seconds))
        found[str(seconds)] = [window(handle, (5,), seconds)[5] for _ in range(number)]
    return found


def clock_noise(handle: Any, seconds: float = 15.0) -> Answer:
    """The clock, polled as fast as it goes: spread, and how it is correlated with itself."""
    reads: list[int] = []
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        reads.append(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
    step = seconds / len(reads)
    mean, square = statistics.fmean(reads), statistics.pvariance(reads)

    def correlation(lag: int) -> float | None:
        pairs = zip(reads, reads[lag:], strict=False)
        return (
            statistics.fmean((a - mean) * (b - mean) for a, b in pairs) / square if square else None
        )

    lags = [round(lag / step) for lag in (0.001, 0.01, 0.1, 0.5, 1.0, 5.0)]
    return {
        "reads": len(reads),
        "per_second": 1 / step,
        "lowest_mhz": min(reads),
        "mean_mhz": mean,
        "highest_mhz": max(reads),
        "std_mhz": square**0.5,
        "correlation_by_seconds": {
            f"{lag * step:.4f}": correlation(lag) for lag in lags if 0 < lag < len(reads) / 4
        },
    }


def validation(folder: Path, *flags: str) -> Answer:
    """What `validate` prints."""
    output = str(folder / f"validation{''.join(flags[:1])}.jsonl")
    done = subprocess.run(
        [*COMMAND, "validate", "--output", output, "--format", "json", *flags],
        capture_output=True,
        text=True,
        check=False,
        env=bare_environment(),
    )
    report = json.loads(done.stdout) if done.stdout else None
    return {"exit_code": done.returncode, "report": report, "errors": done.stderr[-2000:]}


def recording(folder: Path, name: str, seconds: float) -> Answer:
    """What the agent's `record` writes meanwhile."""
    path = folder / f"{name}.jsonl.gz"
    done = call("record", str(path), "--duration", f"{seconds:g}s", "--source", "nvml")
    return {"exit_code": done.returncode, "file": path.name, "errors": done.stderr[-2000:]}


@contextmanager
def load(product: Product) -> Iterator[None]:
    """Runs a product in a process of its own until the step is over."""
    child = subprocess.Popen(
        [sys.executable, "-m", __name__, "--load", json.dumps(asdict(product))]
    )
    try:
        pause(4.0)  # torch has to be loaded, and the clock to settle
        if child.poll() is not None:
            raise RuntimeError(f"the load ended with code {child.returncode}")
        yield
    finally:
        child.kill()
        child.wait()


def steps(handle: Any, folder: Path) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """All of it, the most telling first."""
    yield "facts", lambda: facts(handle)
    yield "costs", lambda: costs(handle)
    yield "cycles-idle", lambda: cycles(handle)
    yield "cycles-loaded", lambda: loaded(LOAD, lambda: cycles(handle))
    yield "law", lambda: validation(folder, "--quick", "--minutes", "4")
    yield "clocks", lambda: validation(folder, "--clocks", "--seconds", "3")
    yield "windows", lambda: loaded(LOAD, lambda: windows(handle))
    yield "clock-noise", lambda: loaded(LOAD, lambda: clock_noise(handle))
    yield "recording-idle", lambda: recording(folder, "idle", 10)
    for precision in ("bf16", "fp8", "tf32", "fp64", "int8"):
        yield f"recording-{precision}", partial(recorded, folder, precision)
    yield "agent-cost", _agent_cost


def recorded(folder: Path, precision: str) -> Answer:
    """A recording under load."""
    with load(replace(LOAD, precision=precision)):
        return recording(folder, precision, 8)


def loaded(product: Product, step: Callable[[], Answer]) -> Answer:
    with load(product):
        return step()


def _agent_cost(pairs: int = 4) -> Answer:
    machine: Machine = cuda.CudaMachine(0)
    product = Product("noise", "bf16", 4096, 4096, 4096, 6.0)
    found = agent_cost.measure(machine, pairs, product)
    lost, half = agent_cost.cost(found)
    machine.close()
    return {"pairs": found, "lost_share": lost, "interval_95_half": half}


def window(handle: Any, ids: Sequence[int], seconds: float) -> dict[int, float | str]:
    """Metrics over one window."""
    with sample_pair() as (first, second):
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
def sample_pair() -> Iterator[tuple[Any, Any]]:
    pair = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
    try:
        yield pair[0], pair[1]
    finally:
        for sample in pair:
            pynvml.nvmlGpmSampleFree(sample)


def timed(step: Callable[[], object], calls: int = CALLS) -> Answer:
    """Microseconds."""
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


def run(folder: Path, index: int = 0) -> dict[str, str]:
    """Every step; by name: `done`, or why not."""
    folder.mkdir(parents=True, exist_ok=True)
    pynvml.nvmlInit()
    outcomes: dict[str, str] = {}
    for name, step in steps(pynvml.nvmlDeviceGetHandleByIndex(index), folder):
        began = time.monotonic()
        answer: dict[str, Any]
        try:
            answer, outcomes[name] = dict(step()), "done"
        except Exception as error:  # noqa: BLE001 - a step that fails must not cost the others
            outcomes[name] = f"{type(error).__name__}: {error}"
            answer = {"failed": outcomes[name]}
        took = {"took_seconds": round(time.monotonic() - began, 1)}
        text = json.dumps({**answer, **took}, indent=1, default=str)
        (folder / f"{name}.json").write_text(text + "\n")
        print(f"{name}: {outcomes[name]} ({took['took_seconds']} s)", flush=True)
    return outcomes


def main(args: Sequence[str]) -> None:
    if args[:1] == ["--load"]:
        product = Product(**json.loads(args[1]))
        machine = cuda.CudaMachine(0)
        with suppress(KeyboardInterrupt):
            while True:
                machine.run(product)
    if len(args) != 1 or args[0].startswith("-"):
        raise SystemExit(__doc__)
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise SystemExit(f"not measured: {error}") from error
    run(Path(args[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
