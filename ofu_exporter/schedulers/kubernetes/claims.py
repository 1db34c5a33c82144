"""Makes one claim from all pods of a job on this node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ofu_exporter.schedulers.kubernetes.gpu_pods import GpuPod, PodName, claimed_device
from ofu_exporter.schedulers.kubernetes.workloads import Workload
from ofu_exporter.values import device_names
from ofu_exporter.values.job import Claim, Job
from ofu_exporter.values.reasons import ClaimRejection


class JobPod(NamedTuple):
    """A pod, and its workload if that is known."""

    pod: GpuPod
    workload: Workload | None
    name: str
    """Name of the pod."""

    @property
    def started(self) -> float | None:
        return self.workload.started if self.workload else None

    @property
    def waits(self) -> bool:
        """Whether none of the containers that have the GPUs has ever started."""
        return self.workload is not None and self.workload.pending and self.running_since is None

    @property
    def running_since(self) -> float | None:
        """When the first of the containers that have the GPUs started."""
        starts = self.workload.first_starts if self.workload else {}
        return min((starts[name] for name in self.pod.containers & starts.keys()), default=None)

    @property
    def restarts(self) -> int | None:
        """How often its job, and then the container that has the GPUs, was started again; None where not known."""
        if self.workload is None:
            return None
        restarts = self.workload.restarts
        counts = [restarts[name] for name in self.pod.containers & restarts.keys()]
        if self.workload.attempt is None and not counts:
            return None
        return (self.workload.attempt or 0) + max(counts, default=0)


JobName = tuple[str, str]
"""Namespace and name."""
HeldDevice = tuple[str, bool]
"""The name of a device, and whether the pod that has it waits."""


def by_job(
    scheduler: str, pods: Mapping[PodName, JobPod], uuids: Mapping[str, str], rejected: Counter[str]
) -> list[Claim]:
    """The claims of all jobs, sorted, because kubelet lists pods in another order each time."""
    jobs: dict[JobName, list[JobPod]] = {}
    for (namespace, _), member in sorted(pods.items(), key=lambda item: item[0]):
        if member.workload is not None and member.workload.over:
            rejected[ClaimRejection.EXPIRED.value] += 1
            continue
        name = member.workload.name if member.workload else member.name
        jobs.setdefault((namespace, name), []).append(member)
    newest = _newest(jobs.values())
    sharers = _sharers(jobs)
    claims = []
    for key, members in sorted(jobs.items()):
        devices = [
            *_plugin_devices(members, newest, rejected),
            *_claimed_devices(key, members, sharers, uuids),
        ]
        if devices:
            claims.append(_claim(_job(scheduler, *key, members), devices))
    return claims


def _claim(job: Job, devices: Iterable[HeldDevice]) -> Claim:
    """The claim of a job on devices. A device of several pods is waiting only if all of these pods are."""
    names = {name for name, _ in devices}
    in_use = {name for name, waits in devices if not waits}
    return Claim(job, tuple(sorted(names)), waiting=frozenset(names - in_use))


def _newest(jobs: Iterable[Sequence[JobPod]]) -> Mapping[str, float]:
    """For each device, when the newest pod that holds it started; pods without a start do not count."""
    newest: dict[str, float] = {}
    for member in (member for members in jobs for member in members):
        if (started := member.started) is not None:
            newest |= {name: max(newest.get(name, started), started) for name in member.pod.devices}
    return newest


def _plugin_devices(
    members: Iterable[JobPod], newest: Mapping[str, float], rejected: Counter[str]
) -> Iterable[HeldDevice]:
    """The devices of pods, without those of ended pods, which kubelets before 1.34 may list together with the new
    holder."""
    for member in members:
        for name in member.pod.devices:
            started = member.started
            if started is None or started >= newest[name] or device_names.parse(name).shared:
                yield name, member.waits
            else:
                rejected[ClaimRejection.EXPIRED.value] += 1


def _sharers(jobs: Mapping[JobName, Sequence[JobPod]]) -> Mapping[str, list[JobName]]:
    sharers: dict[str, list[JobName]] = {}
    for key, members in jobs.items():
        for name in {name for member in members for name in member.pod.claimed}:
            sharers.setdefault(name, []).append(key)
    return sharers


def _claimed_devices(
    key: JobName,
    members: Iterable[JobPod],
    sharers: Mapping[str, list[JobName]],
    uuids: Mapping[str, str],
) -> Iterable[HeldDevice]:
    """The devices from ResourceClaims. A device that several jobs use is shared on purpose, and gets the name of a
    share."""
    for member in members:
        for name in member.pod.claimed:
            among = sharers[name]
            share = f"::{among.index(key)}"
            is_share = len(among) > 1 or name in member.pod.shares
            yield claimed_device(name, uuids) + (share if is_share else ""), member.waits


def _job(scheduler: str, namespace: str, name: str, members: Sequence[JobPod]) -> Job:
    """The job that its pods describe together.

    A pod of an earlier job with the same name may still be ending, so the newest pod decides which job it is.
    """
    workloads = [member.workload for member in members if member.workload]
    newest_first = sorted(workloads, key=lambda workload: -(workload.started or 0.0))
    uid = next((workload.uid for workload in newest_first if workload.uid), "")
    of_pod = [workload for workload in newest_first if workload.uid in ("", uid)]
    starts = [workload.started for workload in of_pod if workload.started is not None]
    of_run = [member for member in members if member.workload in of_pod]
    runs = [member.running_since for member in of_run if member.running_since is not None]
    restarts = [member.restarts for member in of_run if member.restarts is not None]
    return Job(
        scheduler=scheduler,
        job_id=f"{namespace}/{name}",
        name=name,
        user=_first(workload.user for workload in of_pod),
        account=_first(workload.account for workload in of_pod),
        partition=_first(workload.queue for workload in of_pod),
        namespace=namespace,
        started=min(starts, default=None),
        running_since=min(runs, default=None),
        uid=uid,
        aliases=tuple(f"{namespace}/{member.name}" for member in members if member.name != name),
        restarts=max(restarts, default=None),
        addresses=tuple(sorted({ip for workload in of_pod for ip in workload.addresses})),
        pod_uids=tuple(sorted({each.pod_uid for each in of_pod if each.pod_uid})),
    )


def _first(words: Iterable[str]) -> str:
    return next((word for word in sorted(words) if word), "")
