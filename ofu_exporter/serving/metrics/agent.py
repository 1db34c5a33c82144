"""Names the metrics of the agent itself: its sources, its schedulers, its process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ofu_exporter.serving.metrics.spec import MetricSpec, Rows, single
from ofu_exporter.values.snapshot import SchedulerHealth, SourceHealth


class SourceMetric(NamedTuple):
    """A metric about the counter source."""

    spec: MetricSpec
    rows: Callable[[SourceHealth], Rows]


def _by_reason(name: str, counts: Mapping[str, int]) -> Rows:
    return [((name, why), count) for why, count in counts.items()]


SOURCE_METRICS: tuple[SourceMetric, ...] = (
    SourceMetric(
        MetricSpec(
            "ofu_exporter_simulated",
            "gauge",
            (),
            "1 when the values on this page are simulated and no GPU was measured.",
        ),
        lambda health: single(float(health.simulated)),
    ),
    SourceMetric(
        MetricSpec(
            "ofu_exporter_source_up",
            "gauge",
            ("source",),
            "Whether the counter source can be read.",
        ),
        lambda health: [((health.name,), float(health.up))],
    ),
    SourceMetric(
        MetricSpec(
            "ofu_exporter_source_unavailable",
            "gauge",
            ("source", "reason"),
            "1 while the counter source cannot be read, with the reason.",
        ),
        lambda health: [((health.name, health.reason.value), 1.0)] if health.reason else (),
    ),
    SourceMetric(
        MetricSpec(
            "ofu_exporter_read_seconds",
            "summary",
            ("source",),
            "Time spent in reads of the counter source, one read per GPU or page and window.",
        ),
        lambda health: [((health.name,), health.read_seconds)],
    ),
    SourceMetric(
        MetricSpec(
            "ofu_exporter_read_failures",
            "counter",
            ("source", "reason"),
            "Reads of the counter source that failed.",
        ),
        lambda health: _by_reason(health.name, health.failures),
    ),
    SourceMetric(
        MetricSpec(
            "ofu_exporter_rejected_rows",
            "counter",
            ("source", "reason"),
            "Rows and pages of the counter source that could not be used and belong to no one GPU.",
        ),
        lambda health: _by_reason(health.name, health.rejected),
    ),
    SourceMetric(
        MetricSpec(
            "ofu_exporter_missed_deadlines",
            "counter",
            (),
            "Deadlines of the sampler that passed before it came to them.",
        ),
        lambda health: single(health.missed_deadlines),
    ),
)


class SchedulerMetric(NamedTuple):
    """A metric about one scheduler."""

    spec: MetricSpec
    rows: Callable[[SchedulerHealth], Rows]


SCHEDULER_METRICS: tuple[SchedulerMetric, ...] = (
    SchedulerMetric(
        MetricSpec(
            "ofu_exporter_scheduler_up",
            "gauge",
            ("scheduler",),
            "Whether the scheduler says who owns the GPUs.",
        ),
        lambda health: [((health.name,), float(health.up))],
    ),
    SchedulerMetric(
        MetricSpec(
            "ofu_exporter_scheduler_unavailable",
            "gauge",
            ("scheduler", "reason"),
            "1 while the scheduler does not say who owns the GPUs, with the reason.",
        ),
        lambda health: [((health.name, health.reason.value), 1.0)] if health.reason else (),
    ),
    SchedulerMetric(
        MetricSpec(
            "ofu_exporter_scheduler_polls",
            "counter",
            ("scheduler",),
            "Questions put to the scheduler.",
        ),
        lambda health: [((health.name,), health.polls)],
    ),
    SchedulerMetric(
        MetricSpec(
            "ofu_exporter_scheduler_poll_seconds",
            "counter",
            ("scheduler",),
            "Time spent waiting for the scheduler's answers.",
        ),
        lambda health: [((health.name,), health.poll_seconds)],
    ),
    SchedulerMetric(
        MetricSpec(
            "ofu_exporter_scheduler_failures",
            "counter",
            ("scheduler", "reason"),
            "Questions that the scheduler did not answer.",
        ),
        lambda health: _by_reason(health.name, health.failures),
    ),
    SchedulerMetric(
        MetricSpec(
            "ofu_exporter_scheduler_rejected",
            "counter",
            ("scheduler", "reason"),
            "Job files, pods and claims that were not believed.",
        ),
        lambda health: _by_reason(health.name, health.rejected),
    ),
)

CLOCK_STEPS = MetricSpec(
    "ofu_exporter_clock_steps",
    "counter",
    (),
    "Times the node's clock was set by more than a second; windows and totals do not go by it.",
)
PAUSED = MetricSpec(
    "ofu_exporter_paused",
    "gauge",
    (),
    "Whether the agent was told to let go of the GPUs, so that none is measured.",
)
RELEASED = MetricSpec(
    "ofu_exporter_released",
    "gauge",
    (),
    "While the agent is told to let go: whether a pause is in effect, so that nothing is held of any GPU, the driver "
    "or a host engine.",
)
BUILD_INFO = MetricSpec(
    "ofu_exporter_build_info",
    "gauge",
    ("version", "revision", "python"),
    "1; what runs. The revision is the commit of a release, and empty where it was not made from one.",
)
SNAPSHOT_TIMESTAMP = MetricSpec(
    "ofu_exporter_snapshot_timestamp_seconds",
    "gauge",
    (),
    "Unix time at which the sampler last made a snapshot.",
)
RELOADS = MetricSpec(
    "ofu_exporter_config_reloads",
    "counter",
    ("outcome",),
    "Times the configuration was read anew; a failed one leaves the last good settings in force.",
)
LAST_RELOAD = MetricSpec(
    "ofu_exporter_config_last_reload_successful",
    "gauge",
    (),
    "Whether the configuration file and the web configuration are in force as they were when they were last read; 1 "
    "before the first reload.",
)
STATE_WRITES = MetricSpec(
    "ofu_exporter_state_writes",
    "counter",
    ("outcome",),
    "Writes of the state file; what could not be written is written the next time.",
)
STATE_SET_ASIDE = MetricSpec(
    "ofu_exporter_state_files_set_aside",
    "counter",
    (),
    "State files that were damaged and kept under another name.",
)
REJECTED_REPORTS = MetricSpec(
    "ofu_exporter_rejected_reports",
    "counter",
    ("reason",),
    "Reports of jobs that were refused, or never became one.",
)
PULLS = MetricSpec(
    "ofu_exporter_pulls",
    "counter",
    ("job_id", "outcome"),
    "Pulls of a serving engine's counter of FLOPs: reported, or why not.",
)
DROPPED_LOG_LINES = MetricSpec(
    "ofu_exporter_dropped_log_lines",
    "counter",
    (),
    "Lines of the log that were not written: too many at once, or nobody takes them.",
)
REQUESTS = MetricSpec(
    "ofu_exporter_http_requests", "counter", ("path", "code"), "HTTP requests answered."
)
FAULTS = MetricSpec(
    "ofu_exporter_faults",
    "counter",
    ("where",),
    "Errors of this program, by the series or the path they cost; each is to be reported.",
)
SCHEDULER_TIMESTAMP = MetricSpec(
    "ofu_exporter_scheduler_answer_timestamp_seconds",
    "gauge",
    ("scheduler",),
    "Unix time at which the scheduler last answered.",
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
