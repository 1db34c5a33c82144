"""The snapshot that the agent shows, and its parts: base units, and None where nothing was measured."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ofu_exporter.values.gpu import WHOLE_GPU, Gpu, GpuKey, Rating, Share
from ofu_exporter.values.job import NO_START, GpuUsage, Job, JobKey, Run, Start, current_run
from ofu_exporter.values.losses import NO_LOSSES, LossSums, known_sum
from ofu_exporter.values.reading import Window
from ofu_exporter.values.reasons import Reason, SchedulerReason
from ofu_exporter.values.reported import ReportsView
from ofu_exporter.values.text import show


class GpuView(NamedTuple):
    """Everything that the agent's pages may say about one GPU."""

    gpu: Gpu
    rating: Rating | None
    window: Window | None = None
    """The last window; None when that is too old, or after a fault."""
    reason: Reason | None = Reason.STARTING
    """Why there is no OFU; None exactly when the window has one."""
    detail: str = ""
    utilization_seconds: float = 0.0
    """Integral of OFU over the observed GPU-seconds."""
    observed_seconds: float = 0.0
    """GPU-seconds in which OFU was measured: time x share."""
    sums: LossSums = NO_LOSSES
    """Where the rest of the peak went in these seconds."""
    rejected: Mapping[str, int] = {}
    sampled_at: float | None = None
    """End of the last window that had an OFU; it stays when the window itself is gone."""
    fresh_until: float = 0.0
    """After this instant the window must not be shown any more."""
    source: str = ""
    """Name of the source that reads the GPU; "" = the snapshot's first source."""
    share: Share = WHOLE_GPU
    """The part of a whole GPU that the device counts as."""
    holders: tuple[Job, ...] = ()
    """The jobs that have the GPU now; its OFU is credited to a job only while it has just one."""


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """The health of a counter source, apart from what it measured."""

    name: str
    up: bool = False
    reason: Reason | None = Reason.STARTING
    detail: str = ""
    simulated: bool = False
    recorded: str = ""
    """The day on which a recording was made that this source replays; "" = it measures now."""
    reads: int = 0
    read_seconds: float = 0.0
    failures: Mapping[str, int] = field(default_factory=dict)
    missed_deadlines: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Rows of the source that belong to no GPU: over-long labels, unreadable lines."""

    def __post_init__(self) -> None:
        show(self, ("detail", "recorded"))


@dataclass(frozen=True)
class JobView:
    """Everything that the agent's pages may say about one job on this node."""

    job: Job
    began: float
    """Unix time at which the first of the job's runs was first seen here."""
    usage: Mapping[GpuKey, GpuUsage] = field(default_factory=dict)
    """The job's use of every GPU that it holds or held here."""
    distribution: Mapping[int, float] = field(default_factory=dict)
    """Observed GPU-seconds by the OFU of their window, in steps of `job_state.DISTRIBUTION_STEP`."""
    ended: float | None = None
    """Unix time at which the job was no longer seen; None while it holds a GPU."""
    updated: float = 0.0
    """Unix time of this view; 0 = it is not shown yet."""
    reports: ReportsView | None = None
    """None while the job has reported nothing."""
    earlier: tuple[Run, ...] = ()
    """The runs before the current one; the totals are of all runs."""
    run_began: float | None = None
    """Unix time at which the current run was first seen here; None = with the job."""
    held_since: float | None = None
    """Unix time since which its GPUs were counted as held, where that is before it was seen."""
    start: Start = NO_START
    worked_since: float | None = None
    """Unix time at which the current run began to work here; None while it starts, and where that is not known."""
    restarts: int = 0
    """How often it was started again, as far as the scheduler and this agent know."""

    @property
    def current_began(self) -> float:
        """Unix time at which the current run was first seen here."""
        return self.began if self.run_began is None else self.run_began

    @property
    def starts(self) -> tuple[tuple[float, float | None], ...]:
        """Unix times of its starts: from and until; None while the last one lasts."""
        start = self.start
        if start.since is None:
            return start.earlier
        until = self.ended if self.worked_since is None else self.worked_since
        return (*start.earlier, (start.since, until))

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every run, the current one last."""
        lasted = (self.current_began, self.ended)
        run = current_run(self.job.uid, lasted, self.usage.values(), self.earlier)
        return (*self.earlier, run._replace(worked_since=self.worked_since))

    @property
    def observed_seconds(self) -> float:
        return math.fsum(usage.observed_seconds for usage in self.usage.values())

    @property
    def utilization_seconds(self) -> float:
        return math.fsum(usage.utilization_seconds for usage in self.usage.values())

    @functools.cached_property  # several metrics of each page are made of it
    def sums(self) -> LossSums:
        """Where the rest of the peak went in the observed seconds."""
        return functools.reduce(
            LossSums.plus, (usage.sums for usage in self.usage.values()), NO_LOSSES
        )

    @property
    def held_seconds(self) -> float:
        return math.fsum(usage.held_seconds for usage in self.usage.values())

    @property
    def gpu_count(self) -> float:
        """How many GPUs its last run has had; a MIG instance is a part of one."""
        return math.fsum(usage.share for usage in self.usage.values() if usage.in_last_run)

    @property
    def waiting_seconds(self) -> float | None:
        return known_sum(usage.waiting_seconds for usage in self.usage.values())

    @property
    def shared_seconds(self) -> float | None:
        return known_sum(usage.shared_seconds for usage in self.usage.values())


@dataclass(frozen=True, slots=True)
class SchedulerHealth:
    """The health of a scheduler, apart from what it says."""

    name: str
    up: bool = False
    reason: SchedulerReason | None = SchedulerReason.STARTING
    detail: str = ""
    polls: int = 0
    poll_seconds: float = 0.0
    failures: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Claims that were not believed, by reason."""
    answered_at: float | None = None
    """When the scheduler last answered, on the monotonic clock."""

    def __post_init__(self) -> None:
        show(self, ("detail",))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent state of the agent; replaced as a whole, never changed."""

    at: float
    """Seconds, on the monotonic clock of the readings."""
    gpus: tuple[GpuView, ...]
    source: SourceHealth
    """The first source; GPUs that it cannot measure may be read by another."""
    jobs: tuple[JobView, ...] = ()
    schedulers: tuple[SchedulerHealth, ...] = ()
    unknown_devices: tuple[tuple[JobKey, str], ...] = ()
    """Devices that a scheduler gave to a job but that are not among the GPUs measured here."""
    unowned_reports: tuple[tuple[str, ReportsView], ...] = ()
    """Reports of jobs that own no GPU here, by job id."""
    other_sources: tuple[SourceHealth, ...] = ()
    """Sources that are or were tried for GPUs that the first one cannot measure."""
    paused: bool = False
    """Whether the agent was told to let go of the GPUs."""
    released: bool = False
    """Whether it has let go: it holds no GPU, no driver and no host engine."""
    clock_steps: int = 0
    """How often somebody set the node's clock while the agent ran."""
    unix: float = 0.0
    """Unix time at `at`; 0 = not known."""

    @property
    def is_complete(self) -> bool:
        """Whether every GPU has a window or a reason, or the source cannot be read."""
        if self.gpus:
            return all(view.reason is not Reason.STARTING for view in self.gpus)
        return self.source.reason not in (None, Reason.STARTING)

    def fresh(self, now: float) -> Snapshot:
        """The snapshot without the windows that have become too old.

        Where all of them are too old the sampler hangs; then no report is compared any more either.
        """
        old = {view.gpu.key for view in self.gpus if view.window and now > view.fresh_until}
        if not old:
            return self
        views = tuple(
            view._replace(window=None, reason=Reason.STALE) if view.gpu.key in old else view
            for view in self.gpus
        )
        fresh = replace(self, gpus=views)
        return fresh if any(view.window for view in views) else fresh._without_comparisons()

    def _without_comparisons(self) -> Snapshot:
        jobs = tuple(
            replace(view, reports=view.reports.of_the_past()) if view.reports else view
            for view in self.jobs
        )
        unowned = tuple((job_id, reports.of_the_past()) for job_id, reports in self.unowned_reports)
        return replace(self, jobs=jobs, unowned_reports=unowned)

    def unix_at(self, instant: float) -> float | None:
        """Unix time at an instant of the monotonic clock, by the node's clock as of this snapshot; None = not known."""
        return self.unix - (self.at - instant) if self.unix else None
