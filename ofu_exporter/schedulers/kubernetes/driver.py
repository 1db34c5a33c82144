"""Asks kubelet which pod has which GPU, and, if allowed, asks the API server which job the pod is part of.

Kubelet's pod-resources socket has the devices of every pod of this node. A pod's labels and owner, which
only the API server has, name its job: `workloads.py` says how. Without them every pod counts as a job, and so does a
pod that the API server does not know.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from pathlib import Path

from ofu_exporter import schedulers
from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes import pod_resources, workloads
from ofu_exporter.schedulers.kubernetes.api_server import ApiServer
from ofu_exporter.schedulers.kubernetes.claims import JobPod, by_job
from ofu_exporter.schedulers.kubernetes.dra_facts import DraFacts
from ofu_exporter.schedulers.kubernetes.gpu_pods import GpuPods, PodName
from ofu_exporter.schedulers.kubernetes.mig_devices import MINORS, MigDevices
from ofu_exporter.schedulers.kubernetes.options import Options as Options
from ofu_exporter.schedulers.kubernetes.pod_resources import PodResources
from ofu_exporter.schedulers.kubernetes.pods import Pods
from ofu_exporter.values.job import Claim, JobKey
from ofu_exporter.values.reasons import SchedulerReason

log = logging.getLogger(__name__)

NAME = "kubernetes"
MAX_GPU_PODS = 4096
"""Most pods with GPUs. A GPU can be divided by seven and each part shared by many, but no node runs this many pods."""


class Scheduler(schedulers.Scheduler):
    """The pods of this node that hold GPUs, by job."""

    def __init__(
        self,
        options: Options,
        api: ApiServer | None = None,
        clock: Callable[[], float] = time.monotonic,
        mig_minors: Path = MINORS,
    ) -> None:
        self._options = options
        self._api = api or ApiServer()
        self._rejected: Counter[str] = Counter()
        self._finder = GpuPods(options.more_resources, options.slurmd, self._rejected)
        self._dra = DraFacts(options.node_name, self._rejected)
        self._mig = MigDevices(options.cdi_dir, mig_minors)
        read = partial(
            workloads.read,
            user_label=options.kubernetes_user_label,
            account_label=options.kubernetes_account_label,
        )
        self._pods = Pods(self._api, read, self._rejected, clock)
        self._settling = KubeletRestart(options.kubelet_socket, clock)
        self._names: Mapping[str, str] = {}
        """The names by which devices given out by DRA can be found, by the driver's names."""
        self._slurm_pods: Set[PodName] = frozenset()
        self._has_answered = False
        self._members: Mapping[PodName, JobPod] = {}
        """The pods of the last answer."""
        self._is_doubtful = False
        """Whether kubelet has not answered since then, or was not to be believed."""
        self._ended: tuple[Claim, ...] = ()
        """The jobs that ended in such a time, with their end."""

    @property
    def poll_seconds(self) -> float:
        return self._options.kubernetes_poll

    @property
    def rejected(self) -> Mapping[str, int]:
        return dict(+self._rejected)

    def claims(self) -> Sequence[Claim]:
        was_doubtful, self._is_doubtful = self._is_doubtful, True
        kubelet = self._settling.kubelet()
        pods = self._finder.find(self._listed())
        if len(pods) > MAX_GPU_PODS:
            detail = f"{self._options.kubelet_socket}: {len(pods)} pods with GPUs"
            raise SchedulerError(SchedulerReason.TOO_LARGE, detail)
        self._settling.check(kubelet, pods.keys())
        self._tell_slurm_pods()
        learn = partial(self._dra.learn, pods=pods)
        workloads = self._pods.workloads(pods, self._asks_api, learn)
        holders = self._dra.holders(pods)
        allotted = (each for pod in holders.values() for each in pod.allotted)
        self._names = {**self._dra.uuids, **self._mig.places(allotted)}
        members = {
            name: JobPod(holders[name], workload, name[1])
            for name, workload in workloads.items()
            if name in holders
        }
        claims = by_job(NAME, members, self._names, self._rejected)
        running = {claim.job.key for claim in claims}
        if was_doubtful and self._asks_api:
            self._ended = self._ended_meanwhile(pods.keys(), running)
        self._members, self._is_doubtful = members, False
        return [*claims, *(claim for claim in self._ended if claim.job.key not in running)]

    def _ended_meanwhile(
        self, listed: Collection[PodName], running: Collection[JobKey]
    ) -> tuple[Claim, ...]:
        """The jobs that are gone since kubelet was last believed, with the end of which the API server knows."""
        gone = {name: pod for name, pod in self._members.items() if name not in listed}
        finished = self._pods.finished(gone) if gone else {}
        ended = []
        for claim in by_job(NAME, gone, self._names, Counter()):
            names = (claim.job.job_id, *claim.job.aliases)  # a pod may have the job's name
            pods = {name for name in gone if "/".join(name) in names}
            if claim.job.key not in running and pods and pods <= finished.keys():
                ended.append(replace(claim, ended=max(finished[name] for name in pods)))
        return tuple(ended)

    @property
    def _asks_api(self) -> bool:
        wanted = self._options.kubernetes_metadata
        return wanted == "on" or (wanted == "auto" and self._api.configured)

    def _listed(self) -> list[PodResources]:
        try:
            listed = pod_resources.ask(self._options.kubelet_socket, self._finder.marks)
        except SchedulerError as error:
            if error.reason is SchedulerReason.ABSENT and self._has_answered:
                # Kubelet makes a new socket when it starts: the node still has this scheduler.
                raise SchedulerError(SchedulerReason.UNREACHABLE, error.detail) from error
            raise
        self._has_answered = True
        return listed

    def _tell_slurm_pods(self) -> None:
        """Say once of each pod that it is no job, because without Slurm's hooks nobody else names its GPUs' jobs."""
        pods = self._finder.slurm_pods
        for namespace, name in sorted(pods - self._slurm_pods):
            log.info("pod %s/%s runs slurmd: its GPUs are those of Slurm's jobs", namespace, name)
        self._slurm_pods = pods


SETTLE_SECONDS = 30.0
"""How long a restarted kubelet may leave out pods that it had, after it lists the first one."""
BLANK_SECONDS = 300.0
"""How long a restarted kubelet may list no pods at all; the last answer is not believed for longer than that anyway."""

Kubelet = tuple[int, int] | None
"""Identifies one run of kubelet; None where that is not known."""


class KubeletRestart:
    """Tells a pod that is gone from a pod that kubelet does not know yet; each run of kubelet makes a new socket.

    Kubelet answers as soon as it starts, before it has its pods from the API server; without the API server
    it knows only static ones. To believe it then would end every job on the node at each restart of kubelet.
    """

    def __init__(self, socket: Path, clock: Callable[[], float]) -> None:
        self._socket = socket
        self._clock = clock
        self._kubelet: Kubelet = None
        self._changed_at = -math.inf
        self._blank_at = -math.inf
        """When kubelet last listed no pod with a GPU."""
        self._pods: Set[PodName] = frozenset()

    def kubelet(self) -> Kubelet:
        """The run of kubelet that is there now."""
        try:
            status = self._socket.stat()
        except OSError:
            return None
        return (status.st_ino, status.st_ctime_ns)

    def check(self, kubelet: Kubelet, pods: Set[PodName]) -> None:
        """Raises SchedulerError when pods are missing from the answer of a kubelet that has just started.

        Once an answer was believed, later ones of the same run are too.
        """
        now = self._clock()
        if self._kubelet not in (None, kubelet):
            self._changed_at = self._blank_at = now
        self._kubelet = kubelet
        if not pods:
            self._blank_at = now
        missing = self._pods - pods
        since, patience = self._changed_at, BLANK_SECONDS
        if pods:  # kubelet lists the others one after another, once it lists the first
            since, patience = self._blank_at, SETTLE_SECONDS
        if missing and now - since < patience:
            detail = f"kubelet was restarted and does not list {len(missing)} of its pods yet"
            raise SchedulerError(SchedulerReason.SETTLING, detail)
        self._pods = frozenset(pods)
        self._changed_at = self._blank_at = -math.inf
