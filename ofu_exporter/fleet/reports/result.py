"""Defines what a report over a fleet holds. Its JSON schema is published; null is what is not known, never 0."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, Field

from ofu_exporter.fleet.answer import AskedTime, ClusterRow, MissingRow, ReadingCost, ResultRow
from ofu_exporter.fleet.changes_result import ChangesReport
from ofu_exporter.fleet.history.served_result import ServedColumns, ServedModelRow
from ofu_exporter.fleet.reports.chain_rows import ChainStep, ProgressRow, RestartRow
from ofu_exporter.fleet.reports.funnel_rows import FunnelStep, WaterfallStep

By = Literal["user", "account", "partition", "model", "framework", "namespace", "cluster", "job"]


class SumsRow(ResultRow):
    """GPU-hours and ratios of some jobs."""

    held_gpu_hours: float
    observed_gpu_hours: float = Field(description="Of these, measured.")
    idle_gpu_hours: float = Field(description="Measured, and no tensor pipe was used.")
    effective_gpu_hours: float = Field(description="GPU-hours at the full peak: the sum of OFU.")
    compared_gpu_hours: float = Field(description="Covered by reports and by OFU.")
    wasted_gpu_hours: float | None = Field(
        description="Measured GPU-hours x (target - OFU); below 0 above the target."
    )
    ofu: float | None
    mfu: float | None = Field(description="Reported, over the compared GPU-hours.")
    ofu_compared: float | None = Field(description="OFU over the same GPU-hours.")
    lost_clock_gpu_hours: float | None = Field(
        default=None,
        description="Tensor pipes ran below the tensor clock; below 0 where they ran above it.",
    )
    lost_no_tensor_gpu_hours: float | None = Field(
        default=None, description="SMs had work, and no tensor instruction ran."
    )
    lost_empty_sms_gpu_hours: float | None = Field(
        default=None, description="Kernels ran on a part of the SMs."
    )
    lost_idle_gpu_hours: float | None = Field(default=None, description="No kernel ran.")
    lost_engine_without_tensor_gpu_hours: float | None = Field(
        default=None, description="no_tensor and empty_sms, where no counter tells them apart."
    )
    lost_empty_or_idle_gpu_hours: float | None = Field(
        default=None, description="empty_sms and idle, where no counter tells them apart."
    )
    lost_without_tensor_gpu_hours: float | None = Field(
        default=None,
        description="no_tensor, empty_sms and idle, where no counter tells them apart.",
    )
    lost_unsplit_gpu_hours: float | None = Field(
        default=None, description="All of these, where nothing is known of them."
    )
    energy_kwh: float | None = Field(
        default=None, description="Of the measured GPU-hours, by the cards' own counters."
    )
    idle_energy_kwh: float | None = Field(
        default=None,
        description="Of these, in windows in which no kernel ran, as far as one job had the GPU for the whole hour: "
        "what is known is less than all.",
    )
    cost: float | None = Field(description="Of the held GPU-hours whose price is known.")
    wasted_cost: float | None
    idle_cost: float | None
    recoverable_gpu_hours: float | None = Field(
        default=None,
        description="What can be had back: idle hours, and of busy ones what the same work would not take at the OFU "
        "of comparable jobs or the target. Never below 0; null where nothing is known to measure it against.",
    )
    recoverable_cost: float | None = None


class JobRow(ServedColumns, SumsRow):
    """One job."""

    cluster: str
    job_id: str
    job_name: str
    user: str
    account: str
    partition: str
    namespace: str
    gpus: float | None = Field(description="That it had for most of its time.")
    model: str | None = Field(description="Of most of its GPUs.")
    framework: str | None = Field(description="As its reports say.")
    begin: str = Field(description="The begin of the first hour with data of it, UTC.")
    end: str
    away_gpu_hours: float | None = Field(
        default=None,
        description="At most, that it held beyond what is known, while its nodes were away; null where all were seen.",
    )
    error: float | None = Field(description="MFU - OFU over the same GPU-hours.")
    relative_error: float | None = Field(description="|MFU - OFU| / OFU.")
    verdict: str | None = Field(description="The verdict that its agents held longest.")
    cause: str | None = Field(description="The cause that its agents named longest.")
    finding: str | None = Field(
        default=None, description="What cost most in its traces; null where none was taken."
    )
    finding_ratio: float | None = Field(
        default=None, description="Share of the time of its traced ranks that this cost at most."
    )

    @property
    def shown_name(self) -> str:
        """The id, with the cluster where there is one."""
        return f"{self.cluster}/{self.job_id}" if self.cluster else self.job_id


NOT_KNOWN, NO_JOB, ALL_JOBS = "(not known)", "(no job)", "all jobs"
"""Stand where there is no name."""


class GroupRow(ServedColumns, SumsRow):
    """Some jobs that have something in common."""

    name: str
    jobs: int
    flagged_jobs: int = Field(description="Jobs whose MFU is above what their GPUs did.")
    priced_ratio: float | None = Field(
        description="Share of the held GPU-hours whose price is known."
    )
    ofu_change: float | None = Field(
        default=None, description="OFU less that of the period before; null where none is known."
    )
    recoverable_share: float | None = Field(
        default=None, description="Of the GPU-hours of all jobs that can be had back."
    )
    is_named: bool = Field(
        description=f"False for jobs without a name, {NOT_KNOWN}, for {NO_JOB} and for {ALL_JOBS}."
    )

    @property
    def shown_name(self) -> str:
        """The name in quotes where it reads as one of those that stand for no name."""
        is_mistakable = self.is_named and self.name in (NOT_KNOWN, NO_JOB, ALL_JOBS)
        return f'"{self.name}"' if is_mistakable else self.name


class SweepRow(GroupRow):
    """Jobs that one user ran under one name many times."""

    cluster: str
    user: str
    job_name: str
    job_id: str = Field(description="Of the one with most GPU-hours.")
    fewest_gpus: float | None
    most_gpus: float | None
    error: float | None = Field(description="MFU - OFU over the same GPU-hours.")
    verdict: str | None = Field(description="Of those with most GPU-hours.")

    @property
    def shown_name(self) -> str:
        """The id of one, with the cluster where there is one."""
        return f"{self.cluster}/{self.job_id}" if self.cluster else self.job_id


AGENTS = "agents"
"""Stands for the server of a report that agents were asked for."""


class Agreement(BaseModel, frozen=True):
    """Statistics over jobs. Ratios are 0..1, so an error of 0.05 is 5 points."""

    jobs: int = Field(description="Jobs that report.")
    mean_mfu: float | None
    mean_ofu: float | None
    pearson: float | None = Field(
        description="Correlation of MFU and OFU; null below 3 jobs, or where one does not vary."
    )
    mean_absolute_error: float | None = Field(description="Mean of |MFU - OFU|.")
    within_2_points: float | None = Field(description="Share of jobs with |MFU - OFU| <= 0.02.")
    within_5_points: float | None
    within_10_points: float | None
    beyond_20_points: float | None


class SizeRow(ResultRow):
    """Jobs of one size that report."""

    gpus: str
    jobs: int
    mfu: float | None
    mfu_deviation: float | None
    ofu: float | None
    absolute_error: float | None
    absolute_error_deviation: float | None


class DayRow(ResultRow):
    """One day (UTC) of one account and GPU model; or of a model's GPUs that no job held, busy or not. An hour over
    midnight is of the day in which it began."""

    day: str
    kind: Literal["held", "free"]
    cluster: str
    account: str
    model: str | None
    gpu_hours: float = Field(description="Held by the account's jobs, or free.")
    observed_gpu_hours: float | None = Field(
        description="Of these, measured; of free ones, as far as looks at them tell."
    )
    idle_gpu_hours: float | None
    effective_gpu_hours: float | None
    wasted_gpu_hours: float | None
    cost: float | None
    wasted_cost: float | None


class HourRow(ResultRow):
    """One hour of all jobs."""

    end: str
    held_gpus: float | None = Field(description="Mean; null where no data covers the hour.")
    ofu: float | None = Field(description="Of all jobs.")
    mfu: float | None
    no_job_ofu: float | None = Field(description="Of the GPUs that no job held.")


class PeriodRow(ResultRow):
    """A stretch of time as long as that of the report: one before it, or its own."""

    start: str
    end: str
    covered_ratio: float | None
    delivered_ratio: float | None = Field(
        description="Of the peak of all GPUs; null where less than half of the time is known."
    )
    ofu: float | None = Field(description="Of jobs.")
    groups: dict[str, float] = Field(description="OFU by the names of the report's groups.")
    chain: list[ChainStep] = Field(
        default=[], description="Of the report's own period and the one before; empty for others."
    )


class ActionRow(ResultRow):
    """One thing to do first."""

    kind: str
    who: str
    what: str = Field(default="", description="What they did, to be read after `who`.")
    gpu_hours: float | None = Field(
        description="That can be had back; null where none are known to be."
    )
    cost: float | None
    why: str
    next: str = Field(description="The next step.")
    link: str = Field(description="The page of the documentation that says more.")
    at: str = Field(default="", description="Id of the element of the HTML page with its numbers.")


class FleetReport(ResultRow):
    """Where the GPU-hours of a fleet went."""

    schema_version: Literal[1] = 1
    server: str
    tenant: str = Field(default="", description="Sent to the server as X-Scope-OrgID; empty: none.")
    source: Literal["agents", "dcgm-exporter"] = Field(
        default="agents", description="The exporter whose series were read."
    )
    mark: str = Field(
        default="",
        description="Begins with SIMULATED where values are; empty where all were measured.",
    )
    headline: str
    time: AskedTime
    clusters: list[ClusterRow]
    currency: str
    target: float | None = Field(description="The OFU that waste is counted against.")
    periods: list[PeriodRow] = Field(
        default=[],
        description="Up to eight, the oldest first, the last is the report's own. Those before are read where the "
        "recording rules kept their hours.",
    )
    delivered_change: float | None = Field(
        default=None,
        description="Share of the peak that was delivered, less that of the period before.",
    )
    actions: list[ActionRow] = Field(
        default=[], description="What to do first: at most five, in order."
    )
    chain: list[ChainStep] = Field(
        default=[], description="From the capacity to the OFU of progress, as far as it is known."
    )
    waterfall: list[WaterfallStep] = Field(
        description="Where the peak went: the first step without all between is the last."
    )
    funnel: list[FunnelStep]
    total: GroupRow = Field(description="All jobs.")
    no_job: GroupRow | None = Field(
        description="GPU-hours that no job held (`held_gpu_hours` here), and what was measured of which no job has the "
        "OFU, also on GPUs that jobs shared. null if none."
    )
    ofu: float | None = Field(description="Of all measured GPU-hours, held by a job or not.")
    by: By
    groups: list[GroupRow]
    changes: ChangesReport | None = Field(
        default=None,
        description="What fleet changes says of the same time; null where nobody looked.",
    )
    progress: list[ProgressRow] = Field(
        default=[],
        description="What of the held GPU-hours was no progress: of all jobs, by user, by account and by job; empty "
        "where nothing is known of it.",
    )
    restarts: list[RestartRow] = Field(
        default=[], description="Of all jobs, the most expensive first."
    )
    reporting_ratio: float | None = Field(
        description="Share of the measured GPU-hours of jobs that report at all."
    )
    agreement: Agreement
    agreement_without_flagged: Agreement
    sizes: list[SizeRow]
    jobs: list[JobRow] = Field(description="By held GPU-hours.")
    sweeps: list[SweepRow] = Field(
        default=[],
        description="Jobs of one name and user, where there are three or more: one line of the table.",
    )
    days: list[DayRow]
    served_models: list[ServedModelRow] = Field(
        default=[], description="What jobs served, by the model that the engines name."
    )
    hours: list[HourRow]
    missing: list[MissingRow]
    contradictions: list[str] = Field(
        default=[],
        description="What cannot be, such as jobs that held more GPU-hours than there are.",
    )
    notes: list[str]
    reading: ReadingCost

    @property
    def is_sound(self) -> bool:
        """Whether all was read, and nothing in it contradicts itself."""
        return not self.missing and not self.contradictions

    @cached_property
    def reused_ids(self) -> frozenset[tuple[str, str]]:
        """Clusters and ids that more than one of the jobs has."""
        counts = Counter((row.cluster, row.job_id) for row in self.jobs)
        return frozenset(key for key, count in counts.items() if count > 1)
