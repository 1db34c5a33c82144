"""What is seen of a job whose report is to be explained, and the verdict on it."""

from __future__ import annotations

from dataclasses import dataclass

from ofu_exporter.flops.causes import CauseFacts
from ofu_exporter.ofu import divergence
from ofu_exporter.ofu.divergence import Divergence, Thresholds
from ofu_exporter.ofu.honest_ratio import HonestRatio, honest_ratio
from ofu_exporter.values.reading import overstated_by_clock
from ofu_exporter.values.reported import Compared

POINT = 0.01
"""The standard error of OFU if none is given."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The reported MFU and the measured OFU of the same seconds."""

    mfu: float
    ofu: float
    standard_error: float = POINT
    """Standard error of OFU."""
    right_mfu: float | None = None
    """The MFU that the report should have, if throughput, model and GPUs are known."""
    is_error_assumed: bool = False
    """Whether nobody has measured the error of OFU."""
    is_clock_read: bool = False
    """Whether the SM clock of OFU was read, not counted: then OFU may be too high besides."""

    @property
    def overstated(self) -> float:
        """By how much, at most."""
        return overstated_by_clock(self.ofu) if self.is_clock_read else 0.0


def honest(facts: CauseFacts) -> HonestRatio:
    """What an honest MFU is of the job's OFU."""
    row = facts.row()
    return honest_ratio(row.key if row else None, facts.precision)


def compared(observation: Observation, facts: CauseFacts) -> Divergence:
    """The verdict on two numbers. An error that is only assumed widens no limit."""
    mfu, ofu, error = observation.mfu, observation.ofu, observation.standard_error
    divergence.check(mfu, ofu, error)
    variance = 0.0 if observation.is_error_assumed else error**2
    sums = Compared(mfu, ofu, 1.0, variance, overstated_seconds=observation.overstated)
    result = divergence.compare_sums(sums, 1.0, thresholds_of(facts))
    assert result is not None
    return result


def thresholds_of(facts: CauseFacts) -> Thresholds:
    return Thresholds(observed_seconds=0.0, honest=honest(facts))
