"""A simulated validation from end to end, as small as is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from ofu_exporter.agent.lanes import SamplingPace
from ofu_exporter.cli.validate import Instruments
from ofu_exporter.hardware.gpu_models import rate
from ofu_exporter.settings import Configured
from ofu_exporter.validation import Product, Trial
from ofu_exporter.validation.session import ValidationSession
from ofu_exporter.validation.storage import ResultsFile, ResultsHeader
from ofu_exporter.values.gpu import Rating
from tests.validation.simulated_machine import SimulatedMachine

PACE = SamplingPace(0.5, 0.05)


@dataclass(frozen=True)
class Bench:
    """What takes part."""

    machine: SimulatedMachine
    session: ValidationSession
    rating: Rating

    def trials(self, products: Sequence[Product]) -> list[Trial]:
        return [self.session.trial(product) for product in products]


def bench(path: Path, seed: int = 1, cycles: bool = False, pace: SamplingPace = PACE) -> Bench:
    """A simulated GPU with the agent's pace beside it, and a file of its own in a folder."""
    machine = SimulatedMachine(pace, seed, cycles)
    gpu = machine.gpu(machine.uuid)
    rating = rate(gpu)
    assert rating is not None
    header = ResultsHeader(gpu, machine.source, True, "2026-01-01T00:00:00+00:00", machine.software)
    store = ResultsFile(path / "validation.jsonl", header)
    return Bench(machine, ValidationSession(machine, machine, store, machine.clock), rating)


def simulated_place(configured: Configured, gpu: int, stack: ExitStack) -> Instruments:
    """Where the command measures when it is run with this as its `obj` and the source simulate."""
    settings, options = configured.settings, configured.sources["simulate"].model_dump()
    pace = SamplingPace(settings.interval, settings.clock_interval)
    machine = SimulatedMachine(pace, options["seed"], options["simulated_cycles"])
    stack.enter_context(closing(machine))
    return machine, machine, machine.clock


def product(
    precision: str = "bf16", m: int = 4096, n: int = 4096, k: int = 4096, seconds: float = 3.0
) -> Product:
    return Product("aligned", precision, m, n, k, seconds)
