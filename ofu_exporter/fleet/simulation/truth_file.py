"""Writes the truth of a simulated fleet: what every job is, its true OFU and MFU minute by minute, and all faults."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ofu_exporter.fleet.simulation.fleet import SimulatedFleet
from ofu_exporter.fleet.simulation.observed import activity
from ofu_exporter.fleet.simulation.reporting import reported_mfu
from ofu_exporter.fleet.simulation.spec import MINUTE
from ofu_exporter.fleet.simulation.truth import JobTruth
from ofu_exporter.support.whole_file import whole_file

JOBS, MINUTES, FAULTS = "jobs.jsonl", "minutes.csv", "faults.jsonl"
HEAD = "unix,job_id,ofu,mfu,reported_mfu\n"


def write(fleet: SimulatedFleet, begin_unix: float, folder: Path) -> None:
    """Write the three files of the truth into a folder. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / JOBS) as file:
        file.writelines(_line(job_facts(truth, fleet, begin_unix)) for truth in fleet.jobs)
    with whole_file(folder / MINUTES) as file:
        file.write(HEAD)
        for truth in fleet.jobs:
            file.writelines(_minutes(truth, fleet.spec.seed, begin_unix))
    with whole_file(folder / FAULTS) as file:
        file.writelines(_line(each) for each in _faults(fleet, begin_unix))


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record) + "\n"


def job_facts(truth: JobTruth, fleet: SimulatedFleet, begin_unix: float) -> dict[str, Any]:
    """What a job truly is: its means are over the minutes in which it holds its GPUs."""
    job, draft, group = truth.job, truth.job.draft, truth.job.draft.group
    held = max(1, sum(truth.is_running))
    ofu = truth.done[-1] / MINUTE / held * truth.mean_share
    facts: dict[str, Any] = {
        "job_id": draft.job_id,
        "name": group.name,
        "user": draft.user,
        "account": group.account,
        "partition": group.partition,
        "namespace": group.namespace,
        "work": group.work,
        "gpus": truth.gpu_shares,
        "nodes": [fleet.nodes[node].name for node in job.devices],
        "runs": [[begin_unix + MINUTE * each for each in run] for run in job.runs],
        "held_gpu_seconds": MINUTE * held * truth.gpu_shares,
        "ofu": ofu,
        "mfu": ofu * truth.mfu_over_ofu,
        "reported_mfu": ofu * truth.reported_over_ofu if group.report else None,
        "lost": _lost(truth, fleet),
        "mistake": None,
        "changes": [
            {"unix": begin_unix + MINUTE * (job.start + change.at), "factor": change.factor}
            for change in group.changes
        ],
        "straggler": None,
    }
    if group.report is not None:
        facts["mistake"] = group.report.mistake or group.report.convention
        facts["recompute"] = group.report.recompute
    if truth.straggler is not None:
        node, device = truth.straggler
        gpu = fleet.nodes[node].devices[device]
        facts["straggler"] = {"node": fleet.nodes[node].name, "gpu": gpu.index, "uuid": gpu.uuid}
    return facts


def _lost(truth: JobTruth, fleet: SimulatedFleet) -> dict[str, float]:
    """Where the rest of the peak truly goes, by part: with the OFU the means add up to 1."""
    minutes = [
        truth.lost(ofu * truth.mean_share, active)
        for ofu, active, is_running in zip(
            truth.ofu, activity(truth, fleet), truth.is_running, strict=True
        )
        if is_running
    ]
    parts = minutes[0] if minutes else {}
    return {part: math.fsum(each[part] for each in minutes) / len(minutes) for part in parts}


def _minutes(truth: JobTruth, seed: int, begin_unix: float) -> Iterator[str]:
    """A line for each minute in which the job holds its GPUs; a report is in the line of its minute."""
    job = truth.job
    for place, is_running in enumerate(truth.is_running):
        if is_running:
            minute = job.start + place
            ofu = truth.ofu[place] * truth.mean_share
            mfu = reported_mfu(truth, minute, seed)
            reported = "" if mfu is None else f"{mfu:.6g}"
            unix = f"{begin_unix + MINUTE * minute:.0f}"
            right = f"{ofu * truth.mfu_over_ofu:.6g}"
            yield f"{unix},{job.draft.job_id},{ofu:.6g},{right},{reported}\n"


def _faults(fleet: SimulatedFleet, begin_unix: float) -> Iterator[dict[str, Any]]:
    for number, faults in fleet.faults.items():
        node = fleet.nodes[number]
        for fault in faults:
            yield {
                "node": node.name,
                "fault": fault.kind,
                "from": begin_unix + MINUTE * fault.start,
                "to": begin_unix + MINUTE * fault.end,
                "uuids": sorted({node.devices[device].uuid for device in fault.devices}),
                "clock_hz": fault.clock_hz,
            }
