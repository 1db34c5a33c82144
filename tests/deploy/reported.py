"""A page with the series of jobs that report their MFU, as an agent would have them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def page(jobs: Mapping[tuple[str, str], tuple[float, float, float]]) -> Callable[[], str]:
    """By node and job: the MFU that it reports, the OFU over the same seconds, and its GPUs."""
    begin = time.time()

    def now() -> str:
        elapsed = time.time() - begin
        found = []
        for (node, job), (mfu, ofu, gpus) in jobs.items():
            labels = f'instance="{node}",job_id="{job}"'
            verdict = "mfu_above_ofu" if mfu > ofu + 0.02 else "agree"
            found += [
                f"ofu_job_compared_mfu_seconds_total{{{labels}}} {mfu * gpus * elapsed}",
                f"ofu_job_compared_utilization_seconds_total{{{labels}}} {ofu * gpus * elapsed}",
                f"ofu_job_compared_gpu_seconds_total{{{labels}}} {gpus * elapsed}",
                f"ofu_job_report_timestamp_seconds{{{labels}}} {time.time()}",
                f'ofu_job_reports_total{{{labels},outcome="accepted"}} {elapsed}',
                f'ofu_job_divergence_verdict{{{labels},verdict="{verdict}"}} 1',
                f'ofu_exporter_rejected_reports_total{{instance="{node}",reason="overlap"}} 1',
            ]
            if verdict != "agree":
                found.append(f'ofu_job_divergence_cause{{{labels},cause="no_known_cause"}} 1')
        return "\n".join([*found, ""])

    return now
