"""What schedulers say of jobs, with each part changed: what is read of it or why not, golden."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes import gpu_pods, workloads
from ofu_exporter.schedulers.slurm import job_files
from ofu_exporter.schedulers.slurm.trusted_files import UntrustedFileError
from tests.helpers.changed import outcomes, wronged

JOB_FILE: dict[str, Any] = {
    "version": 1,
    "job_id": "7",
    "name": "train",
    "user": "ada",
    "account": "physics",
    "partition": "gpu",
    "array_job_id": "5",
    "array_task_id": "2",
    "component": "5+1",
    "nodes": "n[1-2]",
    "started": 1000.0,
    "noted": 1001.5,
    "ends": 4600.0,
    "boot_id": "b",
    "first": True,
    "restarts": 3,
    "token_sha256": "0" * 64,
    "gpus": ["GPU-a", "3"],
}
CONTAINER = {
    "name": "trainer",
    "restartCount": 2,
    "state": {"running": {"startedAt": "2026-01-31T10:00:00Z"}},
    "lastState": {
        "terminated": {"startedAt": "2026-01-31T09:00:00Z", "finishedAt": "2026-01-31T09:30:00Z"}
    },
}
POD: dict[str, Any] = {
    "metadata": {
        "name": "train-0",
        "namespace": "ml",
        "uid": "u-1",
        "labels": {"kueue.x-k8s.io/queue-name": "fast", "batch.kubernetes.io/job-name": "train"},
        "annotations": {"who": "ada", "account": "physics"},
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "train",
                "uid": "j-1",
                "controller": True,
            }
        ],
    },
    "spec": {"hostNetwork": False},
    "status": {
        "phase": "Running",
        "startTime": "2026-01-31T08:59:00Z",
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
        "containerStatuses": [CONTAINER],
        "initContainerStatuses": [{**CONTAINER, "name": "init"}],
    },
}
ENDED: dict[str, Any] = {**POD, "status": {**POD["status"], "phase": "Failed"}}
RAY: dict[str, Any] = {
    **POD,
    "metadata": {**POD["metadata"], "labels": {"ray.io/cluster": "big"}, "ownerReferences": []},
}
SLICES: dict[str, Any] = {
    "items": [
        {
            "spec": {
                "driver": "gpu.nvidia.com",
                "devices": [
                    {"name": "gpu-0", "basic": {"attributes": {"uuid": {"string": "GPU-a"}}}},
                    {"name": "gpu-1", "attributes": {"uuid": {"string": "GPU-b"}}},
                ],
            }
        }
    ]
}
CLAIM: dict[str, Any] = {
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {"device": "gpu-0", "driver": "gpu.nvidia.com", "adminAccess": True},
                    {"device": "gpu-1", "driver": "gpu.nvidia.com"},
                ]
            }
        }
    }
}


Judged = str | dict[str, Any]


def parsed(content: dict[str, Any]) -> Judged:
    try:
        found = job_files.parse("7.json", json.dumps(content))
        of_job = asdict(found.claim.job)
        return {**of_job, "devices": found.claim.devices, **found._asdict(), "claim": ""}
    except UntrustedFileError as error:
        return f"{error.reason.value}: {error}"


def workload(document: dict[str, Any]) -> Judged:
    try:
        return asdict(workloads.read(document, "who", "account"))
    except ValueError as error:
        return str(error)


def devices(read: Callable[[object], object]) -> Callable[[dict[str, Any]], str]:
    def judged(document: dict[str, Any]) -> str:
        try:
            found = read(document)
        except SchedulerError as error:
            return str(error).partition(": ")[2].partition(": ")[0]
        return str(sorted(found) if isinstance(found, frozenset) else found)

    return judged


DOCUMENTS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], Judged]]] = {
    "job-file": (JOB_FILE, parsed),
    "first-job-file": ({**JOB_FILE, "started": None}, parsed),
    "late-job-file": ({**JOB_FILE, "started": 900.0}, parsed),
    "pod": (POD, workload),
    "ended-pod": (ENDED, workload),
    "pod-of-ray": (RAY, workload),
    "slices": (SLICES, devices(gpu_pods.uuids_of_slices)),
    "claim": (CLAIM, devices(gpu_pods.admin_of_claim)),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_changed_document_is_read_or_refused_as_it_was(
    name: str, golden: Callable[[str, str], None]
) -> None:
    document, judged = DOCUMENTS[name]
    golden(f"documents/{name}.txt", outcomes(document, judged, wronged))
