"""Makes the reports of simulated jobs: the true MFU, or the MFU of a wrong formula."""

from __future__ import annotations

import random
from typing import Any

from ofu_exporter.fleet.simulation.spec import MINUTE, FleetSpec
from ofu_exporter.fleet.simulation.truth import JobTruth
from ofu_exporter.values import quantities


def reported_mfu(truth: JobTruth, minute: int, seed: int) -> float | None:
    """The MFU that a job reports at a minute, for the time since its last report; None if it does not report then."""
    reporting = truth.job.draft.group.report
    run = next((run for run in truth.job.runs if run[0] < minute < run[1]), None)
    if reporting is None or run is None or (minute - run[0]) % reporting.every:
        return None
    mean = truth.mean(MINUTE * (minute - reporting.every), MINUTE * minute) * truth.mean_share
    chance = random.Random(f"{seed}/report/{truth.job.draft.job_id}/{minute}")
    return max(0.0, mean * truth.reported_over_ofu * (1 + reporting.noise * chance.gauss(0, 1)))


def report_body(
    truth: JobTruth, minute: int, spec: FleetSpec, begin_unix: float
) -> dict[str, Any] | None:
    """The body of a job's report at a minute of the fleet, the same on each of its nodes; None = no report."""
    mfu = reported_mfu(truth, minute, spec.seed)
    reporting = truth.job.draft.group.report
    if mfu is None or reporting is None:
        return None
    body: dict[str, Any] = {
        "job_id": truth.job.draft.job_id,
        "mfu": quantities.written(mfu),
        "start": begin_unix + MINUTE * (minute - reporting.every),
        "end": begin_unix + MINUTE * minute,
        "precision": reporting.precision,
        "gpus": max(1, round(truth.gpu_shares)),
    }
    if reporting.framework:
        body["framework"] = reporting.framework
    if reporting.recompute is not None:
        body["recompute"] = reporting.recompute
    if reporting.model is not None:
        model = spec.models[reporting.model]
        body["model"] = {"config": model.config, "seq_len": model.seq_len}
    return body
