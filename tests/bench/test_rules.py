"""What the rules are measured over has all that they read."""

from __future__ import annotations

from pathlib import Path

from tests.bench.rules import Fleet
from tests.deploy.promtool import ALERTS, RULES, groups, selected
from tests.helpers.every import every

NOT_ON_A_SOUND_NODE = {
    "ofu_exporter_faults_total",
    "ofu_exporter_rejected_reports_total",
    "ofu_exporter_scheduler_rejected_total",
    "ofu_exporter_scheduler_unavailable",
    "ofu_exporter_source_unavailable",
    "ofu_gpu_instance_share_ratio",
    "ofu_gpu_shared",
    "ofu_gpu_unavailable",
    "ofu_job_divergence_cause",
    *(
        "ofu_job_tokens_total",
        "ofu_job_requests_running",
        "ofu_job_engines",
        "job:ofu_job_tokens:rate5m",
    ),  # none serves
    *("ofu_job_finding_seconds_total", "ofu_job_traced_seconds_total"),  # none is traced
    "ofu_exporter_tls_certificate_expires_timestamp_seconds",  # none serves by TLS
    *("ofu_job_step", "ofu_job_restarts_total"),  # none states its steps
}


@every([*RULES, *ALERTS])
def test_every_series_that_is_read_is_there(path: Path) -> None:
    fleet = Fleet(2, 8, 0.0)
    samples = [*fleet.scraped(3600.0), *fleet.recorded(3600.0, 0.0)]
    there = {series.partition("{")[0] for series, _ in samples}
    for group in groups(path):
        for rule in group["rules"]:
            assert selected(rule["expr"]) - there <= NOT_ON_A_SOUND_NODE, rule["expr"]
