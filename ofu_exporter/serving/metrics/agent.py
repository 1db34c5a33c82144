"""Names the metrics of the agent itself: its sources, its schedulers, what has happened to it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ofu_exporter import __revision__, __version__
from ofu_exporter.serving.metrics.spec import Metric, RowValues, Subject
from ofu_exporter.values.served import Served
from ofu_exporter.values.snapshot import SchedulerHealth, Snapshot, SourceHealth


class AgentCounts(NamedTuple):
    """What has happened to the agent itself, up to now."""

    rejected_reports: Mapping[str, int] = {}
    """Refused reports by reason."""
    pulls: Mapping[tuple[str, str], int] = {}
    """Pulls of serving engines, by job and outcome."""
    served: Mapping[str, Served] = {}
    """What pulled engines served, by job."""
    state_writes: Mapping[str, int] | None = None
    """Writes of the state file by outcome; None without a file."""
    state_set_aside: int = 0
    """Damaged state files that were kept under another name."""
    dropped_log_lines: int = 0
    """Lines of the log that were not written."""
    traces: Mapping[str, int] = {}
    """Traces on demand and what was refused of them, by outcome."""
    last_reload_successful: bool = True
    """Whether the configuration is in force as it lies in its files."""
    reloads: Mapping[str, int] = {}
    """Reloads by outcome."""
    certificate_expires: float | None = None
    """Unix time at which the certificate that is served ends."""
    faults: Mapping[str, int] = {}
    """Errors of this program, by what they cost."""
    requests: Mapping[tuple[str, str], int] = {}
    """Answers by path and status."""


def _by_job(
    counts: AgentCounts, values: Callable[[Served], Mapping[Any, float]]
) -> dict[tuple[str, ...], float]:
    """What pulled engines served, by job and the labels of each value."""
    return {
        (job_id, *((key,) if isinstance(key, str) else key)): value
        for job_id, served in counts.served.items()
        for key, value in values(served).items()
    }


SOURCE = Subject[[SourceHealth]](("source",), lambda health: (health.name,))
FIRST_SOURCE = Subject[[SourceHealth]]((), lambda _: ())
SCHEDULER = Subject[[SchedulerHealth]](("scheduler",), lambda health: (health.name,))
NODE = Subject[[Snapshot]]((), lambda _: ())
AGENT = Subject[[AgentCounts]]((), lambda _: ())

SOURCE_METRICS: tuple[Metric[[SourceHealth]], ...] = (
    FIRST_SOURCE.gauge(
        "ofu_exporter_simulated",
        "1 when no GPU of this node is measured: the values are simulated or played from a recording.",
        lambda health: float(health.simulated or bool(health.recorded)),
    ),
    SOURCE.gauge(
        "ofu_exporter_source_up",
        "Whether the counter source can be read.",
        lambda health: float(health.up),
    ),
    SOURCE.gauge(
        "ofu_exporter_source_unavailable",
        "1 while the counter source cannot be read, with the reason.",
        lambda health: {health.reason.value: 1.0} if health.reason else None,
        "reason",
    ),
    SOURCE.summary(
        "ofu_exporter_read_seconds",
        "Time spent in reads of the counter source, one read per GPU or page and window.",
        lambda health: (health.reads, health.read_seconds),
    ),
    SOURCE.counter(
        "ofu_exporter_read_failures",
        "Reads of the counter source that failed.",
        lambda health: health.failures,
        "reason",
    ),
    SOURCE.counter(
        "ofu_exporter_rejected_rows",
        "Rows and pages of the counter source that could not be used and belong to no one GPU.",
        lambda health: health.rejected,
        "reason",
    ),
    FIRST_SOURCE.counter(
        "ofu_exporter_missed_deadlines",
        "Deadlines that the sampler missed.",
        lambda health: health.missed_deadlines,
    ),
)


SCHEDULER_METRICS: tuple[Metric[[SchedulerHealth]], ...] = (
    SCHEDULER.gauge(
        "ofu_exporter_scheduler_up",
        "Whether the scheduler says which job owns which GPU.",
        lambda health: float(health.up),
    ),
    SCHEDULER.gauge(
        "ofu_exporter_scheduler_unavailable",
        "1 while the scheduler does not say which job owns which GPU, with the reason.",
        lambda health: {health.reason.value: 1.0} if health.reason else None,
        "reason",
    ),
    SCHEDULER.counter(
        "ofu_exporter_scheduler_polls",
        "Requests to the scheduler.",
        lambda health: health.polls,
    ),
    SCHEDULER.counter(
        "ofu_exporter_scheduler_poll_seconds",
        "Time spent waiting for the scheduler's answers.",
        lambda health: health.poll_seconds,
    ),
    SCHEDULER.counter(
        "ofu_exporter_scheduler_failures",
        "Requests that the scheduler did not answer.",
        lambda health: health.failures,
        "reason",
    ),
    SCHEDULER.counter(
        "ofu_exporter_scheduler_rejected",
        "Job files, pods and claims that were not believed.",
        lambda health: health.rejected,
        "reason",
    ),
)


NODE_METRICS: tuple[Metric[[Snapshot]], ...] = (
    NODE.counter(
        "ofu_exporter_clock_steps",
        "Times the node's clock was set by more than a second; windows and totals do not depend on it.",
        lambda snapshot: snapshot.clock_steps,
    ),
    NODE.gauge(
        "ofu_exporter_paused",
        "Whether the agent was told to let go of the GPUs, so that none is measured.",
        lambda snapshot: float(snapshot.paused),
    ),
    NODE.gauge(
        "ofu_exporter_released",
        "1 once a paused agent holds no GPU, no driver and no host engine, 0 until then; absent without a pause.",
        lambda snapshot: float(snapshot.released) if snapshot.paused or snapshot.released else None,
    ),
)


def _answers(snapshot: Snapshot) -> RowValues:
    answered = ((each.name, each.answered_at) for each in snapshot.schedulers)
    unix = ((name, snapshot.unix_at(at)) for name, at in answered if at is not None)
    return {name: at for name, at in unix if at is not None}


TIME_METRICS: tuple[Metric[[Snapshot]], ...] = (
    NODE.gauge(
        "ofu_exporter_snapshot_timestamp_seconds",
        "Unix time at which the sampler last made a snapshot.",
        lambda snapshot: snapshot.unix_at(snapshot.at),
    ),
    NODE.gauge(
        "ofu_exporter_scheduler_answer_timestamp_seconds",
        "Unix time at which the scheduler last answered.",
        _answers,
        "scheduler",
    ),
)

COUNT_METRICS: tuple[Metric[[AgentCounts]], ...] = (
    AGENT.gauge(
        "ofu_exporter_build_info",
        "1, for the labels: revision is the commit, empty in a build that no release made.",
        lambda _: {(__version__, __revision__, platform.python_version()): 1.0},
        *("version", "revision", "python"),
    ),
    AGENT.counter(
        "ofu_exporter_config_reloads",
        "Times the configuration was read again; a failed one leaves the last good settings in force.",
        lambda counts: counts.reloads,
        "outcome",
    ),
    AGENT.gauge(
        "ofu_exporter_config_last_reload_successful",
        "Whether the configuration file and the web configuration, as last read, are in force; 1 before the first "
        "reload.",
        lambda counts: float(counts.last_reload_successful),
    ),
    AGENT.gauge(
        "ofu_exporter_tls_certificate_expires_timestamp_seconds",
        "Unix time at which the certificate that the agent serves ends; only with TLS.",
        lambda counts: counts.certificate_expires,
    ),
    AGENT.counter(
        "ofu_exporter_faults",
        "Errors of this program, by the series or the path they cost: please report each.",
        lambda counts: counts.faults,
        "where",
    ),
    AGENT.counter(
        "ofu_exporter_traces",
        "Traces on demand by outcome (done, no_gpu_work, empty, failed), and processes that were refused: foreign "
        "(another user's), unproven (nothing shows that they are the job's), too_many, malformed, stranger.",
        lambda counts: counts.traces,
        "outcome",
    ),
    AGENT.counter(
        "ofu_exporter_pulls",
        "Pulls of a serving engine's page or a trainer's gauge: reported, or why not.",
        lambda counts: counts.pulls,
        *("job_id", "outcome"),
    ),
    AGENT.counter(
        "ofu_job_tokens",
        "Tokens that the job's pulled engines served, by kind, each once: prompt (computed), cached (not computed), "
        "recomputed (cached, yet computed), generation.",
        lambda counts: _by_job(counts, lambda served: served.tokens),
        *("job_id", "served_model", "kind"),
    ),
    AGENT.counter(
        "ofu_job_requests",
        "Requests that the job's pulled engines finished.",
        lambda counts: _by_job(counts, lambda served: served.requests),
        *("job_id", "served_model"),
    ),
    AGENT.gauge(
        "ofu_job_requests_running",
        "Requests that run in the job's pulled engines now; absent while an engine cannot be read.",
        lambda counts: _by_job(counts, lambda served: served.running),
        *("job_id", "served_model"),
    ),
    AGENT.gauge(
        "ofu_job_requests_waiting",
        "Requests that wait in the job's pulled engines now.",
        lambda counts: _by_job(counts, lambda served: served.waiting),
        *("job_id", "served_model"),
    ),
    AGENT.gauge(
        "ofu_job_engines",
        "The job's pulled engines, by the role that the configuration gives them: prefill, decode or both.",
        lambda counts: _by_job(counts, lambda served: served.engines),
        *("job_id", "role"),
    ),
    AGENT.counter(
        "ofu_job_forward_seconds",
        "Seconds of forward passes on all ranks of the job's pulled engines, by the phase that they name.",
        lambda counts: _by_job(counts, lambda served: served.forward_seconds),
        *("job_id", "served_model", "phase"),
    ),
    AGENT.counter(
        "ofu_job_estimated_memory_bytes",
        "Bytes that one GPU of each of the job's pulled engines read or wrote, as the engine estimates.",
        lambda counts: _by_job(counts, lambda served: served.moved_bytes),
        *("job_id", "served_model", "direction"),
    ),
    AGENT.counter(
        "ofu_job_engine_seconds",
        "Seconds over which the counters of the job's pulled engines were read, added over engines.",
        lambda counts: _by_job(counts, lambda served: served.seconds),
        *("job_id", "served_model"),
    ),
    AGENT.counter(
        "ofu_exporter_rejected_reports",
        "Reports of jobs that were refused, and requests that never became a report.",
        lambda counts: counts.rejected_reports,
        "reason",
    ),
    AGENT.counter(
        "ofu_exporter_dropped_log_lines",
        "Lines of the log that were not written: too many at once, or nobody reads them.",
        lambda counts: counts.dropped_log_lines,
    ),
    AGENT.counter(
        "ofu_exporter_state_writes",
        "Writes of the state file; the next write has what a failed one lacks.",
        lambda counts: counts.state_writes or {},
        "outcome",
    ),
    AGENT.counter(
        "ofu_exporter_state_files_set_aside",
        "State files that were damaged and kept under another name.",
        lambda counts: None if counts.state_writes is None else counts.state_set_aside,
    ),
    AGENT.counter(
        "ofu_exporter_http_requests",
        "HTTP requests answered.",
        lambda counts: counts.requests,
        *("path", "code"),
    ),
)
