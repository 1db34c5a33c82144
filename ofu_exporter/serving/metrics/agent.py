"""Names the metrics of the agent itself: its sources, its schedulers, its process."""

from __future__ import annotations

from collections.abc import Mapping

from ofu_exporter.serving.metrics.spec import Metric, Rows, counter, gauge, single, summary
from ofu_exporter.values.snapshot import SchedulerHealth, SourceHealth


def _by_reason(name: str, counts: Mapping[str, int]) -> Rows:
    return [((name, why), count) for why, count in counts.items()]


SOURCE_METRICS: tuple[Metric[[SourceHealth]], ...] = (
    Metric(
        gauge(
            "ofu_exporter_simulated",
            "1 when the values on this page are simulated and no GPU was measured.",
        ),
        lambda health: single(float(health.simulated)),
    ),
    Metric(
        gauge("ofu_exporter_source_up", "Whether the counter source can be read.", "source"),
        lambda health: [((health.name,), float(health.up))],
    ),
    Metric(
        gauge(
            "ofu_exporter_source_unavailable",
            "1 while the counter source cannot be read, with the reason.",
            "source",
            "reason",
        ),
        lambda health: [((health.name, health.reason.value), 1.0)] if health.reason else (),
    ),
    Metric(
        summary(
            "ofu_exporter_read_seconds",
            "Time spent in reads of the counter source, one read per GPU or page and window.",
            "source",
        ),
        lambda health: [((health.name,), health.read_seconds)],
    ),
    Metric(
        counter(
            "ofu_exporter_read_failures",
            "Reads of the counter source that failed.",
            "source",
            "reason",
        ),
        lambda health: _by_reason(health.name, health.failures),
    ),
    Metric(
        counter(
            "ofu_exporter_rejected_rows",
            "Rows and pages of the counter source that could not be used and belong to no one GPU.",
            "source",
            "reason",
        ),
        lambda health: _by_reason(health.name, health.rejected),
    ),
    Metric(
        counter(
            "ofu_exporter_missed_deadlines",
            "Deadlines of the sampler that passed before it came to them.",
        ),
        lambda health: single(health.missed_deadlines),
    ),
)


SCHEDULER_METRICS: tuple[Metric[[SchedulerHealth]], ...] = (
    Metric(
        gauge(
            "ofu_exporter_scheduler_up",
            "Whether the scheduler says who owns the GPUs.",
            "scheduler",
        ),
        lambda health: [((health.name,), float(health.up))],
    ),
    Metric(
        gauge(
            "ofu_exporter_scheduler_unavailable",
            "1 while the scheduler does not say who owns the GPUs, with the reason.",
            "scheduler",
            "reason",
        ),
        lambda health: [((health.name, health.reason.value), 1.0)] if health.reason else (),
    ),
    Metric(
        counter("ofu_exporter_scheduler_polls", "Questions put to the scheduler.", "scheduler"),
        lambda health: [((health.name,), health.polls)],
    ),
    Metric(
        counter(
            "ofu_exporter_scheduler_poll_seconds",
            "Time spent waiting for the scheduler's answers.",
            "scheduler",
        ),
        lambda health: [((health.name,), health.poll_seconds)],
    ),
    Metric(
        counter(
            "ofu_exporter_scheduler_failures",
            "Questions that the scheduler did not answer.",
            "scheduler",
            "reason",
        ),
        lambda health: _by_reason(health.name, health.failures),
    ),
    Metric(
        counter(
            "ofu_exporter_scheduler_rejected",
            "Job files, pods and claims that were not believed.",
            "scheduler",
            "reason",
        ),
        lambda health: _by_reason(health.name, health.rejected),
    ),
)

CLOCK_STEPS = counter(
    "ofu_exporter_clock_steps",
    "Times the node's clock was set by more than a second; windows and totals do not go by it.",
)
PAUSED = gauge(
    "ofu_exporter_paused",
    "Whether the agent was told to let go of the GPUs, so that none is measured.",
)
RELEASED = gauge(
    "ofu_exporter_released",
    "While the agent is told to let go: whether a pause is in effect, so that nothing is held of any GPU, the driver "
    "or a host engine.",
)
BUILD_INFO = gauge(
    "ofu_exporter_build_info",
    "1; what runs. The revision is the commit of a release, and empty where it was not made from one.",
    "version",
    "revision",
    "python",
)
SNAPSHOT_TIMESTAMP = gauge(
    "ofu_exporter_snapshot_timestamp_seconds",
    "Unix time at which the sampler last made a snapshot.",
)
RELOADS = counter(
    "ofu_exporter_config_reloads",
    "Times the configuration was read anew; a failed one leaves the last good settings in force.",
    "outcome",
)
LAST_RELOAD = gauge(
    "ofu_exporter_config_last_reload_successful",
    "Whether the configuration file and the web configuration are in force as they were when they were last read; 1 "
    "before the first reload.",
)
STATE_WRITES = counter(
    "ofu_exporter_state_writes",
    "Writes of the state file; what could not be written is written the next time.",
    "outcome",
)
STATE_SET_ASIDE = counter(
    "ofu_exporter_state_files_set_aside",
    "State files that were damaged and kept under another name.",
)
REJECTED_REPORTS = counter(
    "ofu_exporter_rejected_reports",
    "Reports of jobs that were refused, or never became one.",
    "reason",
)
PULLS = counter(
    "ofu_exporter_pulls",
    "Pulls of a serving engine's counter of FLOPs: reported, or why not.",
    "job_id",
    "outcome",
)
DROPPED_LOG_LINES = counter(
    "ofu_exporter_dropped_log_lines",
    "Lines of the log that were not written: too many at once, or nobody takes them.",
)
REQUESTS = counter("ofu_exporter_http_requests", "HTTP requests answered.", "path", "code")
FAULTS = counter(
    "ofu_exporter_faults",
    "Errors of this program, by the series or the path they cost; each is to be reported.",
    "where",
)
SCHEDULER_TIMESTAMP = gauge(
    "ofu_exporter_scheduler_answer_timestamp_seconds",
    "Unix time at which the scheduler last answered.",
    "scheduler",
)
AGENT_METRICS = (
    SCHEDULER_TIMESTAMP,
    CLOCK_STEPS,
    PAUSED,
    RELEASED,
    BUILD_INFO,
    SNAPSHOT_TIMESTAMP,
    RELOADS,
    LAST_RELOAD,
    STATE_WRITES,
    STATE_SET_ASIDE,
    REJECTED_REPORTS,
    PULLS,
    REQUESTS,
    FAULTS,
    DROPPED_LOG_LINES,
)
