"""What a profiler's trace says of the time of GPUs: five parts for each rank, and findings, as plain data.

An agent has a trace read by another process, and gets this back as JSON: `as_data` there, `from_data` here. All of it
is bounded, whatever the trace held.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from ofu_exporter.values.instant import UNIX_LIMIT
from ofu_exporter.values.losses import Loss

MOST_STEPS, MOST_KERNELS, MOST_RANKS, MOST_CHARS = 64, 20, 1024, 300
"""Most of each that a result has, and characters of a text in it."""


@dataclass(frozen=True, slots=True)
class TraceLimits:
    """What reading traces may cost. Beyond it they are refused."""

    unpacked_bytes: int = 16 << 30
    """Of one file, after it is unpacked."""
    events: int = 30_000_000
    """Kept of one file: launches, operators and what ran. Each takes some 30 bytes of memory."""
    seconds: float = 3600.0
    """Of CPU time, all files together: a busy node lets them wait."""


UNLIMITED = TraceLimits()
"""What the command may cost, which its user can end."""
ON_A_NODE = TraceLimits(unpacked_bytes=512 << 20, events=400_000, seconds=60.0)
"""What a file read beside an agent may cost: 64 MiB of memory. Larger files are for the command."""


class TimeParts(NamedTuple):
    """A time on a GPU split by what ran, as shares that add up to 1. Where kinds overlap, the first of them counts."""

    tensor: float
    """Kernels on tensor pipes."""
    other: float
    """Other kernels that compute."""
    communication: float
    """Collectives while nothing computed."""
    copies: float
    """Copies and memsets while no kernel ran."""
    idle: float
    """Nothing ran."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """The time of one `ProfilerStep`."""

    step: int
    seconds: float
    parts: TimeParts


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Time in which kernels of one name were what the GPU was about."""

    kernel: str
    family: str
    operator: str
    """The operator that launched most of it; "" = not recorded."""
    launches: int
    share: float


@dataclass(frozen=True, slots=True)
class RankTime:
    """The time of one GPU between its first and its last kernel or copy."""

    rank: int | None
    """None = the file does not say."""
    gpu: int | None
    """Its number on the node, as the profiler has it."""
    model: str | None
    seconds: float
    parts: TimeParts
    hidden_communication: float | None
    """Share of the communication during which something computed; None where there was no communication."""
    idle: Mapping[str, float] = field(default_factory=dict)
    """Shares of `seconds` by what the host did meanwhile; together `parts.idle`."""
    families: Mapping[str, float] = field(default_factory=dict)
    """Shares of `seconds` by family of kernels; together with `idle` they are 1."""
    steps: tuple[StepTime, ...] = ()
    kernels: tuple[KernelTime, ...] = ()
    """Those that took most, longest first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause of lost time, with what it costs at most. Two findings never claim the same second."""

    finding: str
    """A stable name."""
    share: float
    """Of the time of all ranks."""
    seconds: float
    """Of all ranks together."""
    evidence: str
    remedy: str


@dataclass(frozen=True, slots=True)
class TraceResult:
    """What traces of one job say."""

    ranks: tuple[RankTime, ...]
    findings: tuple[Finding, ...]
    """Largest first."""
    slowest_rank: int | None = None
    """The rank that the others waited for most, by the collectives that all have; None where that is not known."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Files that could not be read, and why."""

    def as_data(self) -> dict[str, Any]:
        """The result as JSON has it."""
        ranks = [{**asdict(each), "parts": each.parts._asdict()} for each in self.ranks]
        for data, rank in zip(ranks, self.ranks, strict=True):
            steps = [{**asdict(each), "parts": each.parts._asdict()} for each in rank.steps]
            data["steps"] = steps
            data["kernels"] = list(data["kernels"])
        return {
            "time": {"ranks": ranks, "slowest_rank": self.slowest_rank, "unread": {**self.unread}},
            "findings": [asdict(each) for each in self.findings],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> TraceResult:
        """What `as_data` made. Raises ValueError for anything else."""
        try:
            time = data["time"]
            ranks = tuple(_rank(each) for each in time["ranks"][:MOST_RANKS])
            findings = tuple(Finding(**each) for each in data["findings"])
            result = cls(ranks, findings, time["slowest_rank"], time["unread"])
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"it is no result of a trace: {error!r}") from error
        shares = [part for rank in ranks for part in rank.parts]
        shares += [value for each in findings for value in (each.share, each.seconds)]
        if not all(isinstance(each, (int, float)) and math.isfinite(each) for each in shares):
            raise ValueError("it is no result of a trace: a share is no number")
        return result


MOST_FINDINGS = 5
"""Most findings that are kept of one job, because each is a series."""
MOST_RANK = 1 << 20
_FINDING = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PARTS = {*TimeParts._fields}
_OF_THE_PEAK = {"used", *(loss.value for loss in Loss)}


def are_seconds(of_findings: Mapping[str, float]) -> bool:
    """Whether these can be the seconds that findings cost, by finding."""
    return len(of_findings) <= MOST_FINDINGS and all(
        _FINDING.fullmatch(name) and 0 <= seconds < math.inf
        for name, seconds in of_findings.items()
    )


def are_of_the_peak(counters: Mapping[str, float]) -> bool:
    """Whether these can be what counters say became of the peak: `used`, which a clock above the tensor clock takes a
    little over 1, and what was lost by part."""
    return {*counters} <= _OF_THE_PEAK and all(-1 <= each <= 1.5 for each in counters.values())


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """What an agent keeps of a job's last trace."""

    at: float
    """Unix time at which it was read."""
    ranks: int
    seconds: float
    """Of all ranks together."""
    parts: Mapping[str, float]
    """Of these seconds: the fields of `TimeParts`."""
    findings: tuple[Finding, ...] = ()
    """Largest first."""
    slowest_rank: int | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    """Shares of the peak that the agent's counters saw of the job on this node meanwhile; empty where they saw none."""

    def __post_init__(self) -> None:
        """Raises ValueError for what no trace says."""
        ranks = 0 < self.ranks <= MOST_RANK and 0 <= (self.slowest_rank or 0) <= MOST_RANK
        times = 0 <= self.at <= UNIX_LIMIT and 0 < self.seconds < math.inf
        shares = [*self.parts.values(), *(each.share for each in self.findings)]
        shares_are = all(0 <= each <= 1.01 for each in shares)  # sums of floats may be above 1
        findings = are_seconds({each.finding: each.seconds for each in self.findings})
        texts = (text for each in self.findings for text in (each.evidence, each.remedy))
        bounded = len(self.findings) <= MOST_FINDINGS and all(
            len(each) <= MOST_CHARS for each in texts
        )
        is_valid = are_of_the_peak(self.counters) and {*self.parts} == _PARTS
        if not all((ranks, times, shares_are, findings, bounded, is_valid)):
            raise ValueError("it is no summary of a trace")


def summary(result: TraceResult, at: float) -> TraceSummary | None:
    """The ranks of a result as one, each by its seconds; None where no rank has any."""
    seconds = math.fsum(rank.seconds for rank in result.ranks)
    if seconds <= 0:
        return None
    parts = {
        name: math.fsum(getattr(rank.parts, name) * rank.seconds for rank in result.ranks) / seconds
        for name in TimeParts._fields
    }
    # A rank may have been traced several times. One that the file does not name is one by itself.
    ranks = {
        (place if each.rank is None else -1, each.rank, each.gpu)
        for place, each in enumerate(result.ranks)
    }
    findings = tuple(map(_cut, result.findings[:MOST_FINDINGS]))
    return TraceSummary(at, len(ranks), seconds, parts, findings, result.slowest_rank)


def _cut(finding: Finding) -> Finding:
    """A finding with as much of its evidence as travels: kernels may have very long names."""
    text = finding.evidence
    is_long = len(text) > MOST_CHARS
    return replace(finding, evidence=f"{text[: MOST_CHARS - 3]}...") if is_long else finding


def reported(result: TraceResult) -> dict[str, Any]:
    """The field `trace` of a report; empty where no rank has any time."""
    whole = summary(result, 0.0)
    if whole is None:
        return {}
    data = asdict(whole)
    del data["at"], data["counters"]
    return {"trace": data}


def _rank(data: Mapping[str, Any]) -> RankTime:
    steps = tuple(
        StepTime(each["step"], each["seconds"], TimeParts(**each["parts"]))
        for each in data["steps"]
    )
    kernels = tuple(KernelTime(**each) for each in data["kernels"])
    rest = {**data, "parts": TimeParts(**data["parts"]), "steps": steps, "kernels": kernels}
    return RankTime(**rest)
