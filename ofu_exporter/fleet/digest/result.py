"""Defines the content of a digest, which a webhook gets as JSON; an unknown value is null, never 0."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ofu_exporter.fleet.answer import AskedTime, ResultRow
from ofu_exporter.fleet.reports.result import GroupRow, JobRow

DigestBy = Literal["user", "account"]


class Rank(ResultRow):
    """A rank among all users or accounts; equal values share one."""

    place: int
    of: int


class AdviceRow(ResultRow):
    """One thing that can be done about a job."""

    kind: Literal["regression", "idle", "report", "slow_gpu", "low_clock", "trace", "low_ofu"]
    text: str


class DigestJob(ResultRow):
    """One job of the reader, and what can be done about it."""

    row: JobRow
    target: float | None = Field(description="Target OFU of its partition.")
    exempt: str | None = Field(description="Why nobody is asked to do anything about it.")
    clock: float | None = Field(description="SM clock / tensor clock while it was busy.")
    dram_busy: float | None = Field(description="Share of the time in which memory was busy.")
    slow_gpus: bool | None = Field(
        description="Whether one was slower than the others most of the time; null if that is not known."
    )
    advice: list[AdviceRow]


class Digest(ResultRow):
    """The digest for one user or account."""

    schema_version: Literal[1] = 1
    name: str
    by: DigestBy
    mark: str = Field(description="A mark for simulated values; empty if they are measured.")
    server: str
    time: AskedTime
    currency: str
    target: float | None = Field(description="The OFU that waste is counted against.")
    total: GroupRow = Field(description="All of the reader's jobs, as `fleet report` has them.")
    exempt_gpu_hours: float
    exempt_wasted_gpu_hours: float | None
    rank_by_waste: Rank | None = Field(description="1st: most. Exempt jobs do not count.")
    rank_by_ofu: Rank | None = Field(description="1st: highest.")
    jobs: list[DigestJob] = Field(description="By waste.")
    advice: list[str] = Field(description="Advice about all of the jobs.")
    limits: list[str] = Field(description="What the words and thresholds mean.")
    remarks: list[str] = Field(
        description="What is missing, and what the reader has to know about the numbers."
    )
    contact: str
