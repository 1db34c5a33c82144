"""Asks the API server, rarely, which job each pod that holds a GPU belongs to."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import quote

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes.api_server import ApiServer, Get
from ofu_exporter.schedulers.kubernetes.gpu_pods import GpuPod, PodName
from ofu_exporter.schedulers.kubernetes.workloads import Workload
from ofu_exporter.values.reasons import ClaimRejection, SchedulerReason

log = logging.getLogger(__name__)

PACE_SECONDS = 10.0
"""Time between two rounds of questions about pods that are known or were asked about in vain."""
HOLD_SECONDS = 10.0
"""How long a new pod is left out while its job is not known, so that the job's name does not change."""
NODE_SECONDS = 75.0
"""Time between two questions about a known pod, times the pods of the node: a cluster's API server is asked no more
often by nodes of many pods than by those of one."""
REFRESH_SECONDS = 600.0
"""Longest time until the agent notices a pod that was replaced under the same name between two polls, and got the
same GPUs."""
PENDING_SECONDS = 45.0
"""How long a pod counts as not started without a fresh answer of the API server; it may have started since."""
SLOWEST_SECONDS = 300.0
"""Longest pause after failures, and the pause after a refusal."""


@dataclass(slots=True)
class _KnownPod:
    held: GpuPod
    first_seen: float
    ask_at: float
    misses: int = 0
    """How often the API server did not know the pod."""
    workload: Workload | None = None
    answered_at: float = 0.0
    is_asked: bool = False
    """Whether the API server was ever asked about it."""

    def hold(self, pod: GpuPod, now: float) -> None:
        """Ask at once about a pod that has other GPUs: it is another one of that name."""
        if pod != self.held:
            self.held, self.ask_at, self.is_asked = pod, now, False

    @property
    def is_urgent(self) -> bool:
        """Whether it is asked about at every poll: it is new, or waits and may have started since."""
        return not self.is_asked or (self.workload is not None and self.workload.pending)

    def workload_at(self, now: float) -> Workload | None:
        """The pod's job. Without a fresh answer, the pod does not count as waiting for long."""
        workload = self.workload
        if workload is None or not workload.pending or now - self.answered_at < PENDING_SECONDS:
            return workload
        return replace(workload, pending=False)


class Pods:
    """The pods of this node that hold a GPU now. Never raises: a pod without a known job counts as a job."""

    def __init__(
        self,
        api: ApiServer,
        read: Callable[[object], Workload],
        rejected: Counter[str],
        clock: Callable[[], float],
    ) -> None:
        self._api = api
        self._read = read
        self._rejected = rejected
        self._clock = clock
        self._known: dict[PodName, _KnownPod] = {}
        self._next_round = 0.0
        self._failures = 0

    def workloads(
        self, pods: Mapping[PodName, GpuPod], ask: bool, more: Callable[[Get], None]
    ) -> Mapping[PodName, Workload | None]:
        """The job of each pod; None where it is not known. A pod whose job may be known soon is left out.

        `ask` = whether to ask the API server; `more` can make further requests in the same round.
        """
        now = self._clock()
        before = self._known
        self._known = {
            name: before.get(name) or _KnownPod(pod, now, now) for name, pod in pods.items()
        }
        for name, pod in pods.items():
            self._known[name].hold(pod, now)
        if ask:
            self._round(now, more)
        return {
            name: pod.workload_at(now)
            for name, pod in self._known.items()
            if not (ask and self._is_awaited(pod, now))
        }

    def finished(self, names: Iterable[PodName]) -> Mapping[PodName, float]:
        """When pods ended that kubelet no longer lists, as far as the API server still has them. Never raises."""
        finished = {}
        with suppress(SchedulerError, ValueError), self._api.connected() as get:
            for name in names:
                document = get(_path(name))
                workload = None if document is None else self._read(document)
                if workload is not None and workload.finished is not None:
                    finished[name] = workload.finished
        return finished

    def _is_awaited(self, pod: _KnownPod, now: float) -> bool:
        """Whether the next answer on a pod's job may still come in time."""
        until = pod.first_seen + HOLD_SECONDS
        return pod.workload is None and now < until and max(self._next_round, pod.ask_at) <= until

    def _round(self, now: float, more: Callable[[Get], None]) -> None:
        is_early = now < self._next_round
        due = [
            name
            for name, pod in self._known.items()
            if pod.ask_at <= now and (pod.is_urgent or not is_early)
        ]
        if not due or (is_early and self._failures):
            return
        if not is_early:
            self._next_round = now + PACE_SECONDS
        try:
            with self._api.connected() as get:
                for name in due:
                    self._known[name].is_asked = True
                    self._take_answer(self._known[name], get(_path(name)), now)
                more(get)
        except SchedulerError as error:
            self._failed(error, now)
            return
        if self._failures:
            log.info("the API server says again which job a pod belongs to")
        self._failures = 0

    def _take_answer(self, pod: _KnownPod, document: object, now: float) -> None:
        """Note the answer about one pod. A missing document, or one that is not a pod, changes nothing."""
        try:
            workload = None if document is None else self._read(document)
        except ValueError:
            self._rejected[ClaimRejection.MALFORMED.value] += 1
            workload = None
        if workload is None:
            pod.ask_at = now + _pause(pod.misses)
            pod.misses += 1
            return
        self._rejected[ClaimRejection.MALFORMED.value] += workload.rejected
        pod.workload = workload.after(pod.workload)
        # Kubelet does not list an ended pod for long, and then another pod may have its name.
        rest = min(NODE_SECONDS * len(self._known), REFRESH_SECONDS)
        pause = PACE_SECONDS if workload.over else rest
        pod.ask_at = now if workload.pending else now + pause
        pod.answered_at = now
        pod.misses = 0

    def _failed(self, error: SchedulerError, now: float) -> None:
        self._rejected[ClaimRejection.UNREADABLE.value] += 1
        if not self._failures:
            log.warning(
                "the job of a pod is not known, so the pod counts as a job: %s", error.detail
            )
        refused = error.reason is SchedulerReason.NO_PERMISSION
        self._next_round = now + (SLOWEST_SECONDS if refused else _pause(self._failures))
        self._failures += 1


def _pause(times: int) -> float:
    return float(min(PACE_SECONDS * 2 ** min(times, 16), SLOWEST_SECONDS))


def _path(name: PodName) -> str:
    """The path of a pod. The API server answers it from memory, not from its database, and knows a pod before kubelet
    does."""
    namespace, pod = (quote(part, safe="") for part in name)
    return f"/api/v1/namespaces/{namespace}/pods/{pod}?resourceVersion=0"
