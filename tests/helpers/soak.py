"""A node of eight GPUs in accelerated time, to which faults happen at random, and what must hold all the while.

The source, the stand-in for NVML below it, the tick and the page are the real ones; only the threads
are left out, since they wait in real time. A call that hangs is one that is not made.
"""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from ofu_exporter.errors import GpuError
from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.serving.metrics.gpu import GPU
from ofu_exporter.serving.page import Page
from ofu_exporter.sources.nvml import driver
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import Claim, Job, Ownership
from ofu_exporter.values.reading import Fault, Reading
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import GpuView, Snapshot
from tests.doubles.nvml import Scenario
from tests.helpers.values import FakeClock, health
from tests.simulator.driver_servers import STEADY_REFRESH_SECONDS, renewed

INTERVAL = 5.0
HUNG_AFTER = 2 * INTERVAL + 1.0
FRESH_SECONDS = 2.5 * INTERVAL + 1.0
GPUS = 8
DIVIDED = 6
"""This GPU is in MIG mode; instances of it come and go."""
SPARED = 7
"""Nothing ever happens to this one."""
MAX_CLOCK_HZ, TENSOR_CLOCK_HZ = 1980e6, 1830e6
EPOCH = 1_800_000_000.0

FAULTS: dict[str, tuple[list[str], list[str]]] = {
    "lost": (["lost 1"], ["lost 0"]),
    "reset required": (["error nvmlGpmSampleGet 16"], ["error nvmlGpmSampleGet 0"]),
    "handle refused": (
        ["error nvmlDeviceGetHandleByIndex_v2 999", "error nvmlGpmMetricsGet 999"],
        ["error nvmlDeviceGetHandleByIndex_v2 0", "error nvmlGpmMetricsGet 0"],
    ),
    "no permission": (["error nvmlGpmSampleGet 4"], ["error nvmlGpmSampleGet 0"]),
    "in use": (["error nvmlGpmSampleGet 19"], ["error nvmlGpmSampleGet 0"]),
    "blank": (["error nvmlGpmMetricsGet 27"], ["error nvmlGpmMetricsGet 0"]),
    "not a number": (["nan 1"], ["nan 0"]),
    "mute": (["mute 1"], ["mute 0"]),
    "no activity": (["metric_error 5 999"], ["metric_error 5 0"]),
    "clock of 0": (["clock_mhz 0"], ["clock_mhz 1320 1352 1384"]),
    "absurd clock": (["clock_mhz 5000"], ["clock_mhz 1320 1352 1384"]),
    "clock refused": (["error nvmlDeviceGetClockInfo 999"], ["error nvmlDeviceGetClockInfo 0"]),
    "hung": ([], []),
}


@dataclass(slots=True)
class Trouble:
    """What happens to one GPU now."""

    kind: str
    begun: float
    until: float


class Soak:
    """The node, its time and the checks."""

    def __init__(self, folder: Path, library: ctypes.CDLL, seed: int, faults: bool = True) -> None:
        """The environment must name `folder / "scenario"` as the stand-in's scenario."""
        self._library = library
        self._random = random.Random(seed)
        self._faults = faults
        library.test_reset()
        Scenario(folder / "scenario", GPUS).at(0.0)
        self.clock = FakeClock(0.0)
        self._source = driver.Source(driver.Options(), self.clock)
        self._probes = self._source.open()
        self._trouble: dict[int, Trouble] = {}
        self._hung_reported: set[int] = set()
        self._instances: dict[int, float] = {}
        self._tensor: dict[tuple[int, str], float] = {}
        self._integral: dict[tuple[int, str], float] = {}
        self._history: dict[tuple[int, str], dict[float, tuple[float, float]]] = {}
        """By the time of a window's end, when the counters were renewed and what had been done then."""
        self._before: dict[GpuKey, GpuView] = {}
        self._job_before = 0.0
        self._unix_offset = EPOCH
        self.clock_steps = 0
        self.happened: Counter[str] = Counter()
        self.checked_windows = 0
        self._page = Page(self.clock, process=False)
        self.state = State()
        self.last: Snapshot | None = None
        for gpu in range(GPUS):
            self._say(gpu, "clock_mhz 1320 1352 1384")
        self._say(DIVIDED, "mig 1")
        self._come_and_go(chance=1.0)
        self._read()

    def close(self) -> None:
        for probe in self._probes:
            probe.close()
        self._source.close()

    def run(self, seconds: float) -> None:
        """Let simulated time pass."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            self.window()

    def begin(self, gpu: int, kind: str, seconds: float) -> None:
        """Make something happen to a GPU."""
        self._trouble[gpu] = Trouble(kind, self.clock.now, self.clock.now + seconds)
        self.happened[kind] += 1
        for line in FAULTS[kind][0]:
            self._say(gpu, line)

    def window(self) -> None:
        """One window: work and faults begin, time passes, everything is read and checked."""
        if self._faults:
            self._let_faults_happen()
        self._work()
        late = self._faults and self._random.random() < 0.002
        seconds = self._random.uniform(10.0, 40.0) if late else INTERVAL
        self._pass(seconds / 2)
        for number, probe in enumerate(self._probes):
            if not self._hangs(number):
                try:
                    probe.poll()
                except GpuError:
                    continue
        self._pass(seconds / 2)
        self._end_trouble()
        self._take(self._read())

    # --- what happens ------------------------------------------------------------------------------

    def _let_faults_happen(self) -> None:
        if self._random.random() < 0.02:
            gpu = self._random.choice([n for n in range(GPUS) if n != SPARED])
            if gpu not in self._trouble:
                kind = self._random.choice(list(FAULTS))
                self.begin(gpu, kind, self._random.choice([1.0, 30.0, 120.0, 600.0]))
        self._come_and_go(chance=0.01)
        if self._random.random() < 0.001:
            self._unix_offset += self._random.choice([-86400.0, -30.0, 2.0, 3600.0])
            self.clock_steps += 1

    def _end_trouble(self) -> None:
        for gpu, trouble in list(self._trouble.items()):
            if self.clock.now >= trouble.until:
                del self._trouble[gpu]
                self._hung_reported.discard(gpu)
                for line in FAULTS[trouble.kind][1]:
                    self._say(gpu, line)

    def _come_and_go(self, chance: float) -> None:
        for instance, sms in [(1, 60), (2, 32), (5, 16)]:
            if self._random.random() >= chance:
                continue
            key = (DIVIDED, str(instance))
            for known in (self._tensor, self._integral, self._history):
                known.pop(key, None)
            if instance in self._instances:
                del self._instances[instance]
                self._say(DIVIDED, f"instance {instance} gone")
            else:
                self._instances[instance] = self.clock.now
                self._say(DIVIDED, f"instance {instance} {sms // 16}g {sms}")

    def _work(self) -> None:
        """Every device does something else in every window, to all digits."""
        whole = [(gpu, "") for gpu in range(GPUS) if gpu != DIVIDED]
        for gpu, instance in [*whole, *((DIVIDED, str(each)) for each in self._instances)]:
            tensor = self._random.choice([0.0, self._random.random(), self._random.random()])
            self._tensor[gpu, instance] = tensor
            self._say(gpu, f"{f'instance {instance} ' * bool(instance)}tensor {tensor!r}")

    def _say(self, gpu: int, line: str) -> None:
        self._library.test_apply(f"gpu {gpu} {line}".encode())

    def _pass(self, seconds: float) -> None:
        for key, tensor in self._tensor.items():
            self._integral[key] = self._integral.get(key, 0.0) + tensor * seconds
        self.clock.now += seconds
        self._library.test_apply(f"time {self.clock.now!r}".encode())
        for key, integral in self._integral.items():
            began = self.clock.now - seconds
            times = self._history.setdefault(key, {began: (began, 0.0)})
            at = renewed(self.clock.now, key[0], STEADY_REFRESH_SECONDS)
            times[self.clock.now] = at, integral - self._tensor[key] * (self.clock.now - at)
            if len(times) > 400:  # longer than the longest fault
                del times[next(iter(times))]

    def _hangs(self, gpu: int) -> bool:
        trouble = self._trouble.get(gpu)
        return trouble is not None and trouble.kind == "hung"

    # --- what is measured --------------------------------------------------------------------------

    def _read(self) -> list[Reading | Fault]:
        events: list[Reading | Fault] = []
        for number, probe in enumerate(self._probes):
            if self._hangs(number):
                if self.clock.now - self._trouble[number].begun > HUNG_AFTER:
                    events += [Fault(gpu, self.clock.now, Reason.HUNG) for gpu in probe.gpus()]
                continue
            try:
                events += probe.read()
            except GpuError as error:
                events += [
                    Fault(gpu, self.clock.now, error.reason, error.detail) for gpu in probe.gpus()
                ]
        return events

    def _take(self, events: list[Reading | Fault]) -> None:
        job = Claim(Job("slurm", "7", uid="7"), ("0", "1", "7"))
        first = self.last is None
        tick = Tick(
            now=self.clock.now,
            interval=INTERVAL,
            present=[gpu for probe in self._probes for gpu in probe.gpus()],
            events=events,
            source=health(),
            unix=self._unix_offset + self.clock.now,
            owners=(Ownership(0.0, (job,)),) if first else (),
        )
        self.state, self.last = step(self.state, tick)
        self._check(self.last)

    # --- what must hold ----------------------------------------------------------------------------

    def _check(self, snapshot: Snapshot) -> None:
        for view in snapshot.gpus:
            self._check_window(view)
            self._check_totals(view, self._before.get(view.gpu.key))
        self._before = {view.gpu.key: view for view in snapshot.gpus}
        used = sum(job.utilization_seconds for job in snapshot.jobs)
        assert used >= self._job_before
        self._job_before = used
        assert snapshot.clock_steps == self.clock_steps
        if self._random.random() < 0.02:
            self._check_page(snapshot)

    def _check_window(self, view: GpuView) -> None:
        """What is shown was measured, in this window or, while a call hangs, in one that is still fresh."""
        window, number = view.window, int(view.gpu.index)
        assert (view.reason is None) == (window is not None and window.utilization is not None)
        if window is None:
            return
        fresh = FRESH_SECONDS if self._hangs(number) else 0.0
        assert self.clock.now - window.end <= max(fresh, 0.0), view
        times = self._history[number, view.gpu.instance]
        if window.tensor_active is not None and window.start in times and window.end in times:
            (start, before), (end, after) = times[window.start], times[window.end]
            assert abs(window.tensor_active - (after - before) / (end - start)) < 1e-6, view
            self.checked_windows += 1

    def _check_totals(self, view: GpuView, before: GpuView | None) -> None:
        """Nothing falls, and OFU grows no faster than the card can."""
        assert view.observed_seconds <= self.clock.now + 1e-6
        if before is None:
            return
        observed = view.observed_seconds - before.observed_seconds
        used = view.utilization_seconds - before.utilization_seconds
        assert observed >= 0.0
        assert 0.0 <= used <= MAX_CLOCK_HZ / TENSOR_CLOCK_HZ * observed + 1e-9
        for reason, count in before.rejected.items():
            assert view.rejected[reason] >= count

    def _check_page(self, snapshot: Snapshot) -> None:
        """The page has an OFU of those GPUs that have one, and of no other."""
        self._page.publish(snapshot)
        text = self._page.render().body.decode()
        shown = {
            tuple(sample.labels[name] for name in GPU.labels): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "ofu_gpu_utilization_ratio"
        }
        assert shown == {
            (view.gpu.index, view.gpu.uuid, view.gpu.instance): view.window.utilization
            for view in snapshot.gpus
            if view.window is not None and view.reason is None
        }

    def coverage(self, gpu: int) -> float:
        """Share of the time until now in which the GPU was measured."""
        view = next(v for v in self._before.values() if v.gpu.index == str(gpu))
        return view.observed_seconds / self.clock.now
