"""Defines the chain from the capacity to the OFU of progress, and what of each job's time was none."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ofu_exporter.fleet.answer import ResultRow

Factor = Literal["capacity", "allocated", "together", "progress", "ofu"]


class ChainStep(ResultRow):
    """One factor of the chain. The ratios of all multiply to the share of the last one."""

    factor: Factor = Field(
        description="capacity: the installed GPU-hours. allocated: held by jobs. together: without starts, and without "
        "minutes in which a GPU of the job stood idle. progress: without steps done again, stated evaluations and "
        "checkpoints; lacking where no job states any. ofu: the work of what is left, at the full peak."
    )
    share: float | None = Field(description="Of the capacity.")
    ratio: float | None = Field(description="To the step before.")
    gpu_hours: float | None
    cost: float | None
    share_before: float | None = Field(
        default=None,
        description="Its share in the period before; null where the chain of that is not known as far.",
    )
    ratio_before: float | None = Field(default=None, description="Its ratio then.")


class ProgressRow(ResultRow):
    """How much of the GPU-hours of some jobs was progress. A GPU-hour counts once, for the first of the reasons."""

    by: Literal["all", "user", "account", "job"]
    cluster: str = Field(description="Of a job; else empty.")
    name: str = Field(description="Empty for all jobs, and for those without this name.")
    user: str = Field(default="", description="Of a job; else empty.")
    held_gpu_hours: float
    watched_ratio: float | None = Field(
        description="Share of these of which is known what the engines of the job's GPUs did."
    )
    starting_gpu_hours: float | None = Field(
        description="From the start of the job, or of a restart, to its first tensor work or step; null where no agent "
        "counts it."
    )
    held_idle_gpu_hours: float | None
    alone_gpu_hours: float | None = Field(
        description="Busy while another GPU of the same job stood idle."
    )
    done_again_gpu_hours: float | None = Field(
        description="Steps that were reached before; null where no job states its steps."
    )
    evaluation_gpu_hours: float | None
    checkpoint_gpu_hours: float | None
    together_gpu_hours: float | None
    progress_gpu_hours: float | None
    progress_effective_gpu_hours: float | None = Field(
        description="The work of the progress, or of `together` where no steps are known, at the full peak."
    )
    lost_effective_gpu_hours: float | None = Field(
        description="The rest of the work: what was done while nothing came forward."
    )
    lost_cost: float | None = Field(description="Of the GPU-hours that were no progress.")
    restarts: float | None = Field(description="null where no agent counts them.")
    step: float | None = Field(default=None, description="Of a job: the highest that it stated.")


class RestartRow(ResultRow):
    """Restarts of a job within an hour, and what they cost until the next one."""

    cluster: str
    job_id: str
    job_name: str
    user: str
    account: str
    end: str = Field(description="The end of the hour, UTC.")
    restarts: float
    gpu_hours: float = Field(
        description="Until it computed again, and of steps that it had reached before."
    )
    cost: float | None
    recovery_hours: float | None = Field(
        description="Held time to recover: how long that took after each on all GPUs of the job, without the time "
        "until it held them again."
    )
