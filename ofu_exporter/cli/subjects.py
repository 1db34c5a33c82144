"""Which setting belongs to which subject in the help, and which of them --help shows at once."""

from __future__ import annotations

from collections.abc import Mapping

COUNTERS, JOBS, SERVING, ACCESS, REPORTS, LOG = (
    "Counters",
    "Jobs",
    "Serving",
    "Who may read and report",
    "Reports of MFU",
    "Log",
)
SUBJECTS: Mapping[str, tuple[str, ...]] = {
    COUNTERS: ("source", "interval", "clock_interval", "pause_file", "pause_limit"),
    JOBS: ("scheduler", "owner_max_age", "state_file", "state_interval"),
    SERVING: ("listen", "telemetry_path", "report_socket"),
    ACCESS: (
        *("web_config_file", "tls_cert", "tls_key", "tls_client_ca", "allowed_hosts"),
        *("report_token_file", "job_tokens", "pod_tokens"),
    ),
    REPORTS: (
        *("horizon", "mfu_above", "mfu_below", "mfu_above_relative", "mfu_below_relative"),
        *("unowned_reports", "recipe_folder"),
    ),
    LOG: ("log_level", "log_format"),
}
"""The settings by subject, in the order of the help. The options of sources and schedulers follow."""
OWNED: Mapping[str, str] = {"source": "One source's own", "scheduler": "One scheduler's own"}
"""The subjects of the options that belong to a source or to a scheduler."""
COMMON = frozenset(
    {
        *("source", "interval", "scheduler", "state_file", "listen", "web_config_file"),
        *("log_level", "url", "path"),
    }
)
"""What --help shows of a command that serves; the rest is shown by --help-all."""
SERVE = tuple(name for names in SUBJECTS.values() for name in names)
"""The settings of a command that serves: all of them."""
MEASURE = ("source", "interval", "clock_interval", *SUBJECTS[LOG])
"""The settings of a command that measures but does not serve."""


def subject_of(name: str) -> str:
    """The subject of a setting. Raises KeyError for an unknown name."""
    for subject, names in SUBJECTS.items():
        if name in names:
            return subject
    raise KeyError(name)
