"""Simulates an H100 that runs products, and the agent's reading of it, on a clock that moves only in `wait`.

The simulation shows that a validation works, not that OFU is right: the tool finds what was put in. Tensor activity
and clocks are drawn as in the paper (arXiv:2605.20799, section IV-C). Kernels are named by the grammars of `tiles`,
all but TF32's by nvJet's, whatever a library would really run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.errors import GpuError
from ofu_exporter.hardware import gpu_models
from ofu_exporter.sources.simulate import driver
from ofu_exporter.sources.simulate.driver import LoadPhase, idle
from ofu_exporter.traces import kernel_names
from ofu_exporter.traces.formats import KernelLaunches, Profile
from ofu_exporter.validation import Mark, Product
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Reading
from ofu_exporter.values.reasons import Reason
from tests.helpers.phases import run_phase, tensor_cycles

FULL_LOAD_CLOCK_HZ, CLOCK_STD_HZ = 1352e6, 32e6
"""The clock of an H100 at its power limit, and its standard deviation, as the paper measured them."""
TENSOR_CLOCK_HZ, FP64_CLOCK_HZ = 1830e6, 1980e6
"""Clocks with operands of zeros, which need little power."""


@dataclass(frozen=True, slots=True)
class MadeKernel:
    """A kernel and its name, which lacks the cluster in some families."""

    name: str
    cluster: tuple[int, int] | None = None
    """None = the name has it."""

    def executed_flops(self, product: Product) -> int:
        kernel = kernel_names.parse(self.name)
        if self.cluster:
            kernel = replace(kernel, cluster=self.cluster)
        return kernel.executed_flops(product.gemm)


_TILES = (
    ("128x256", "2x1"),
    ("256x128", "1x2"),
    ("192x192", "2x1"),
    ("256x160", "2x1"),
    ("128x192", "1x1"),
)


def _nvjet(types: str, deep: int) -> tuple[MadeKernel, ...]:
    return tuple(
        MadeKernel(f"nvjet_sm90_{types}_{tile}_{deep}x4_{cluster}_v_bz_TNT")
        for tile, cluster in _TILES
    )


_XMMA = "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize{}x32_warpgroupsize1x1x1"
KERNELS: Mapping[str, tuple[MadeKernel, ...]] = {
    "bf16": _nvjet("tst", 64),
    "fp16": _nvjet("hsh", 64),
    "fp8": _nvjet("qqtst", 128),
    "int8": _nvjet("bbiii", 128),
    "fp64": _nvjet("ddd", 16),
    "tf32": tuple(
        MadeKernel(_XMMA.format(each), cluster=(2, 1)) for each in ("128x128", "128x256")
    ),
}
"""Kernels for the products of each precision; the one that executes least is taken, as a library would."""
PIPES = {"int8": "imma", "fp64": "dfma"}


class StepClock:
    """A clock that moves only in `wait`, in steps; each step calls the listener."""

    def __init__(self, step_seconds: float) -> None:
        self._step = step_seconds
        self._steps = 0
        # The start lies between two steps of the simulation, so that rounding never moves a read into the next step.
        self._start = 1000.0 + driver.STEP_SECONDS / 2
        self.listener: Callable[[], None] | None = None

    def __call__(self) -> float:
        return self._start + self._steps * self._step if self._steps else 1000.0

    def wait(self) -> None:
        self._steps += 1
        if self.listener is not None:
            self.listener()


class SimulatedMachine:
    """The GPU, and its own watch: it reads the GPU at the agent's pace, like the sampler but without threads."""

    simulated = True
    """What its watch says."""
    source = "simulate"

    def __init__(self, pace: SamplingPace, seed: int, cycles: bool = False) -> None:
        self.clock = StepClock(pace.step_seconds)
        options = driver.Options(simulated_gpus=1, seed=seed, simulated_cycles=cycles)
        (self.probe,) = driver.Source(options, self.clock).open()
        (self._gpu,) = self.probe.gpus()
        row = gpu_models.find_row(self._gpu)
        assert row is not None
        self._flops_per_cycle = dict(row.chip.flops_per_cycle_per_sm)
        self._seed = seed
        self.uuid = self._gpu.uuid
        self.software: Mapping[str, str] = {"simulated": f"seed {seed}"}
        self._reads = pace.reads_per_window
        self._beats = 0
        self._readings: list[Reading] = []
        self.clock.listener = self._beat
        self.clock.wait()

    def gpu(self, uuid: str) -> Gpu:
        if self._gpu.uuid != uuid:
            raise GpuError(Reason.NO_GPU, f"no GPU {uuid}")
        return self._gpu

    def readings(self, uuid: str, since: float, until: float) -> Sequence[Reading]:
        self.gpu(uuid)
        while not self._readings or self._readings[-1].end < until:
            self.clock.wait()
        overlapping = [each for each in self._readings if each.end > since and each.start < until]
        self._readings.clear()
        return overlapping

    def refusals(self, precisions: Sequence[str]) -> Mapping[str, str]:
        return {each: "not simulated" for each in precisions if each not in KERNELS}

    def profile(self, product: Product) -> Profile:
        kernel, _ = _choice(product)
        return Profile("simulated", (KernelLaunches(kernel.name, 1, 1e-3, product.gemm),), 0.0)

    def run(self, product: Product) -> Sequence[Mark]:
        _, executed = _choice(product)
        run_phase(self.probe, self._phase(product))
        rate = self._flops_per_cycle[product.precision] * (self._gpu.sm_count or 0)
        began, cycles = self.clock(), tensor_cycles(self.probe)
        marks = [Mark(began, 0.0)]
        while marks[-1].at < began + product.seconds:
            self.clock.wait()
            done = (tensor_cycles(self.probe) - cycles) * rate / executed
            marks.append(Mark(self.clock(), done))
        run_phase(self.probe, IDLE)
        return marks

    def close(self) -> None:
        self.clock.listener = None

    def _beat(self) -> None:
        if self._beats % self._reads:
            self.probe.poll()
        else:
            self._readings += [each for each in self.probe.read() if isinstance(each, Reading)]
        self._beats += 1

    def _phase(self, product: Product) -> LoadPhase:
        """The load of a product: any tensor activity that is usual, and a clock that is lower under load."""
        source = random.Random(f"{self._seed}/{product}")
        active = source.uniform(0.55, 0.92)
        top = FP64_CLOCK_HZ if product.precision == "fp64" else TENSOR_CLOCK_HZ
        clock, noise = (top, 0.0) if product.zeros else (FULL_LOAD_CLOCK_HZ, CLOCK_STD_HZ)
        pipe = PIPES.get(product.precision, "hmma")
        return LoadPhase(product.seconds, active, clock, noise, pipe)


IDLE = idle(1.0, 345e6)


def _choice(product: Product) -> tuple[MadeKernel, int]:
    """The kernel that runs a product, and the FLOPs that it executes."""
    offered = [(kernel, kernel.executed_flops(product)) for kernel in KERNELS[product.precision]]
    return min(offered, key=lambda each: each[1])
