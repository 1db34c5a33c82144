"""What a framework states of how fast a job runs, and what readers of its output share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ofu_exporter.errors import ConfigError


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Facts of a job that a framework's output does not have. None = not known."""

    world_size: int | None = None
    """All GPUs of the job."""
    data_parallel_size: int | None = None
    peak_flops: float | None = None
    """Dense FLOP/s of one GPU, effective over the precisions in use."""
    step_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a framework. None = neither stated nor known from the job's facts."""

    step: int | None = None
    name: str = ""
    """What the statement is about, if there are several: `actor`, `ref`, the labels of a counter."""
    flops: float | None = None
    """FLOPs of one GPU over `seconds`."""
    seconds: float | None = None
    flops_per_second: float | None = None
    """FLOP/s of one GPU."""
    mfu: float | None = None
    """MFU. If the framework's denominator is wrong and the job's facts have the right one, that one is used."""
    hfu: float | None = None
    """HFU instead of MFU, if the framework sums up what the hardware ran."""
    tokens: float | None = None
    """Tokens of all GPUs over `seconds`, where the framework states neither FLOPs nor an MFU."""
    tokens_per_second: float | None = None
    event: str = ""
    """What the seconds were spent on, in place of a rate; the step is then the one that was saved."""
    notes: tuple[str, ...] = ()
    """What to know before comparing the statement."""

    @property
    def has_rate(self) -> bool:
        """Whether it says how fast the job ran; one without says which step was reached, or marks a beginning."""
        rates = (self.flops_per_second, self.mfu, self.hfu, self.tokens, self.tokens_per_second)
        return any(rate is not None for rate in rates)


def with_rate(one: Statement, rate: float, job: JobFacts) -> Statement:
    """The statement with the FLOP/s of one GPU, and the MFU that follows where the job's peak is known."""
    return replace(one, flops_per_second=rate, mfu=mfu_of(rate, job))


def mfu_of(flops_per_second: float | None, job: JobFacts) -> float | None:
    """FLOP/s of one GPU over its peak; None if either is not known."""
    if flops_per_second is None or job.peak_flops is None:
        return None
    return flops_per_second / job.peak_flops


def number(text: str, where: str) -> float:
    """A number of at least 0. Raises ConfigError for other text, which names its place."""
    try:
        value = float(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {text[:80]!r} is not a number") from error
    if not math.isfinite(value) or value < 0:
        raise ConfigError(f"{where}: {text[:80]!r} is not a number of at least 0")
    return value


def some(statements: list[Statement], what: str) -> list[Statement]:
    """The statements. If there are none, raises ConfigError, which says what is missing."""
    if not statements:
        raise ConfigError(f"no {what} in it")
    return statements
