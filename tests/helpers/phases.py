"""Has a simulated GPU run a load of the test's own."""

from __future__ import annotations

from ofu_exporter.sources.simulate.driver import LoadPhase, Probe


def run_phase(probe: Probe, phase: LoadPhase) -> None:
    """From now on the GPU runs this phase alone."""
    tensor_cycles(probe)
    probe._phases = (phase,)


def tensor_cycles(probe: Probe) -> float:
    """Tensor cycles of the GPU until now."""
    probe._advance(probe._clock())
    return probe._totals.tensor
