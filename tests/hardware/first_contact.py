"""What only a GPU can answer of the driver, its counters and the agent beside a load.

    python -m tests.hardware.first_contact FOLDER [STEP ...]

Every step writes FOLDER/STEP.json; one that fails writes why, and the others go on. Nothing of the card is set or
changed. docs/hardware.md has the answers, with card, driver and date. A model trained beside the agent:
`tests/hardware/day.py`.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import json
import os
import statistics
import subprocess
import sys
import threading
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
from tests.doubles.nvml import SCENARIO_VARIABLE
from tests.hardware import stand_in
from tests.hardware.counters import ACTIVITY, METRICS, asked, metrics, pause, samples, timed, window
from tests.helpers.agent import agent, bare_environment, until

GAP_SECONDS = 0.2
"""Between the two samples of a GPM window."""
LOAD = Product("noise", "bf16", 8192, 8192, 8192, 20.0)
SHORTEST = 0.1
WINDOWS = (0.1, 0.5, 1.0, 5.0, 30.0, 60.0)
"""Seconds of windows."""

MODULE = (sys.executable, "-m")
PROGRAM = (*MODULE, "ofu_exporter")
QUERIES: Mapping[str, Sequence[int]] = {
    "1 id": (5,),
    "of instances": gpm.INSTANCE_METRICS,
    "1 id of cycles": (CYCLES_ELAPSED,),
    "of whole GPUs": gpm.METRICS,
    "of activity": ACTIVITY,
    "of links": (20, 21, 60, 61),
}

Answer = Mapping[str, Any]


def facts(handle: Any) -> Answer:
    """The driver, the card, and which GPM metrics answer, with the value or the code of those that do not."""
    values = asked(window, handle, METRICS, GAP_SECONDS)
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
        "mig": asked(pynvml.nvmlDeviceGetMigMode, handle),
        "metrics": {str(id_): each for id_, each in values.items()}
        if isinstance(values, dict)
        else values,
    }


def clock_samples(handle: Any) -> Sequence[Any]:
    """The driver's own buffer of clock reads, where it has one."""
    _, samples = pynvml.nvmlDeviceGetSamples(handle, pynvml.NVML_PROCESSOR_CLK_SAMPLES, 0)
    return list(samples)


def costs(handle: Any) -> Answer:
    """Microseconds of each call that a sampler makes."""
    with samples(2) as (first, second):
        pynvml.nvmlGpmSampleGet(handle, first)
        pause(GAP_SECONDS)
        pynvml.nvmlGpmSampleGet(handle, second)
        return {
            "GpmSampleGet": timed(lambda: pynvml.nvmlGpmSampleGet(handle, second)),
            **{
                f"GpmMetricsGet {name}": timed(partial(metrics, first, second, ids), 300)
                for name, ids in QUERIES.items()
            },
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
        with samples(2) as (first, second):
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


def on_off(handle: Any, seconds: float = 62.0) -> Answer:
    """Activity of a load that is on for 10 s and off for 10 s, over windows of many lengths between the same samples.

    All samples are kept, so a long window and the short ones that it is made of end at the same reads.
    """
    machine = cuda.CudaMachine(0)
    stop = threading.Event()
    switched: list[tuple[float, float]] = []

    def work() -> None:
        while not stop.is_set():
            marks = machine.run(replace(LOAD, seconds=10.0))
            switched.append((marks[0].at, marks[-1].at))
            stop.wait(10.0)

    worker = threading.Thread(target=work)
    worker.start()
    count = round(seconds / SHORTEST)
    with samples(count) as kept:
        ends = []
        began = time.monotonic()
        for number, sample in enumerate(kept):
            pause(max(0.0, began + number * SHORTEST - time.monotonic()))
            pynvml.nvmlGpmSampleGet(handle, sample)
            ends.append(time.monotonic())
        stop.set()
        found = {
            str(length): _tiled(kept, ends, round(length / SHORTEST))
            for length in WINDOWS
            if length < seconds
        }
    worker.join()
    machine.close()
    return {"load": switched, "windows": found}


def _tiled(
    kept: Sequence[Any], ends: Sequence[float], step: int
) -> Sequence[tuple[float, float, float | str]]:
    """Start, end and activity of windows of so many samples, one after another."""
    places = range(0, len(kept) - step, step)
    return [
        (ends[at], ends[at + step], metrics(kept[at], kept[at + step], (5,))[5]) for at in places
    ]


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
        [*PROGRAM, "validate", "--output", output, "--format", "json", *flags],
        capture_output=True,
        text=True,
        check=False,
        env=bare_environment(),
    )
    answer = {"exit_code": done.returncode, "errors": done.stderr[-2000:]}
    if not done.stdout:
        return {"failed": f"no report: {done.stderr[-400:]}", **answer}
    return {"report": json.loads(done.stdout), **answer}


@contextmanager
def load(product: Product) -> Iterator[None]:
    """Runs a product in a process of its own until the step is over."""
    child = subprocess.Popen(
        [*MODULE, "tests.hardware.first_contact", "--load", json.dumps(asdict(product))]
    )
    try:
        pause(4.0)  # torch has to be loaded, and the clock to settle
        if child.poll() is not None:
            raise RuntimeError(f"the load ended with code {child.returncode}")
        yield
    finally:
        child.kill()
        child.wait()


def parts(folder: Path, seconds: float = 4.0) -> Answer:
    """Loads whose activity is known, and every metric meanwhile: `parts-loads.jsonl` and `parts-gpm.jsonl`."""
    log = subprocess.Popen(
        [*MODULE, "tests.hardware.gpm_log", str(folder / "parts-gpm.jsonl"), "600", "0.5"]
    )
    try:
        loads = [*MODULE, "tests.hardware.known_loads", str(folder / "parts-loads.jsonl")]
        done = subprocess.run([*loads, str(seconds)], capture_output=True, text=True, check=False)
    finally:
        log.kill()
        log.wait()
    return {"exit_code": done.returncode, "errors": done.stderr[-2000:]}


def agent_cpu(seconds: float = 15.0) -> Answer:
    """CPU seconds per second and memory of the agent beside an idle GPU, at its defaults and at the shortest window."""
    answer = {}
    for interval in ("5s", "0.1s"):
        flags = ("--scheduler", "none", "--interval", interval)
        with agent("run", *flags, command=PROGRAM) as running:
            until(lambda: running.values("ofu_gpu_up"))
            before, began = running.value("process_cpu_seconds_total"), time.monotonic()
            pause(seconds)
            after, ended = running.value("process_cpu_seconds_total"), time.monotonic()
            answer[interval] = {
                "cores": ((after or 0) - (before or 0)) / (ended - began),
                "resident_bytes": running.value("process_resident_memory_bytes"),
            }
    return answer


def after_a_kill(handle: Any) -> Answer:
    """Whether a process that is killed while it holds samples leaves anything behind."""
    child = subprocess.Popen([*MODULE, "tests.hardware.gpm_log", os.devnull, "60", "0.5"])
    pause(2.0)
    child.kill()
    child.wait()
    return {"activity": window(handle, (5,), 0.2)[5]}


def steps(handle: Any, folder: Path) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """All of it, the most telling first."""
    yield "facts", lambda: facts(handle)
    yield "costs", lambda: costs(handle)
    yield "cycles-idle", lambda: cycles(handle)
    yield "cycles-loaded", lambda: loaded(LOAD, lambda: cycles(handle))
    yield "killed", lambda: after_a_kill(handle)
    yield "parts", lambda: parts(folder)
    yield "on-off", lambda: on_off(handle)
    yield "agent-cpu", agent_cpu
    yield "agent-cost", _agent_cost
    yield "law", lambda: validation(folder, "--quick", "--minutes", "1.6", "--seconds", "2.5")
    yield "clocks", lambda: validation(folder, "--clocks", "--seconds", "3")
    yield "clock-noise", lambda: loaded(LOAD, lambda: clock_noise(handle))


def loaded(product: Product, step: Callable[[], Answer]) -> Answer:
    with load(product):
        return step()


def _agent_cost(pairs: int = 8) -> Answer:
    machine: Machine
    machine = stand_in.Machine() if SCENARIO_VARIABLE in os.environ else cuda.CudaMachine(0)
    found = agent_cost.measure(machine, pairs)
    lost, half = agent_cost.cost(found)
    machine.close()
    return {"pairs": found, "lost_share": lost, "interval_95_half": half}


def run(folder: Path, names: Sequence[str] = (), index: int = 0) -> dict[str, str]:
    """These steps, or all; by name: `done`, or why not."""
    folder.mkdir(parents=True, exist_ok=True)
    pynvml.nvmlInit()
    outcomes: dict[str, str] = {}
    for name, step in steps(pynvml.nvmlDeviceGetHandleByIndex(index), folder):
        if names and name not in names:
            continue
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
    if not args or args[0].startswith("-"):
        raise SystemExit(__doc__)
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise SystemExit(f"not measured: {error}") from error
    run(Path(args[0]), args[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
