"""The part of a report that says where the time of a trace went."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, StrictInt, model_validator

from ofu_exporter.values.trace import MOST_CHARS, MOST_FINDINGS, Finding, TraceSummary


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class FindingBody(_Body):
    """A cause of lost time that a trace shows."""

    finding: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")
    share: float = Field(ge=0, le=1, allow_inf_nan=False)
    seconds: float = Field(ge=0, le=1e9, allow_inf_nan=False)
    """Of all ranks together."""
    evidence: str = Field(default="", max_length=MOST_CHARS)
    remedy: str = Field(default="", max_length=MOST_CHARS)


class PartsBody(_Body):
    """Shares of a trace's seconds; together 1."""

    tensor: float = Field(ge=0, le=1)
    other: float = Field(ge=0, le=1)
    communication: float = Field(ge=0, le=1)
    copies: float = Field(ge=0, le=1)
    idle: float = Field(ge=0, le=1)

    @model_validator(mode="after")
    def _are_all_of_it(self) -> PartsBody:
        if abs(sum(self.model_dump().values()) - 1) > 0.01:
            raise ValueError("the shares do not add up to 1")
        return self


class TraceBody(_Body):
    """Where the time of a trace went, as `ofu-exporter profile` says it."""

    ranks: StrictInt = Field(gt=0, le=1 << 20)
    seconds: float = Field(gt=0, le=1e9, allow_inf_nan=False)
    """Of all ranks together."""
    parts: PartsBody
    findings: tuple[FindingBody, ...] = Field(default=(), max_length=MOST_FINDINGS)
    """Largest first."""
    slowest_rank: StrictInt | None = Field(default=None, ge=0, le=1 << 20)

    def summary(self, at: float) -> TraceSummary:
        """`at` is Unix time."""
        findings = tuple(Finding(**each.model_dump()) for each in self.findings)
        parts = self.parts.model_dump()
        return TraceSummary(at, self.ranks, self.seconds, parts, findings, self.slowest_rank)
