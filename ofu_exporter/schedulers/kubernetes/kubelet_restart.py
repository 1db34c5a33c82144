"""Tells a pod that is gone from a pod that kubelet does not know yet.

Kubelet answers as soon as it starts, before it has its pods from the API server; without the API server
it knows only static ones. To believe it then would end every job on the node at each restart of kubelet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from pathlib import Path

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes.gpu_pods import PodName
from ofu_exporter.values.reasons import SchedulerReason

SETTLE_SECONDS = 30.0
"""How long a restarted kubelet may leave out pods that it had, after it lists the first one."""
BLANK_SECONDS = 300.0
"""How long a restarted kubelet may list no pods at all; the last answer is not believed for longer than that anyway."""

Kubelet = tuple[int, int] | None
"""Identifies one run of kubelet; None where that is not known."""


class KubeletRestart:
    """Watches for a new run of kubelet: each run makes a new socket."""

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
