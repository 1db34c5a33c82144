"""Tells a pod that is gone from one that kubelet does not know of yet.

Kubelet answers as soon as it starts, before the API server has told it its pods. To believe that would
end every job on the node each time that kubelet is restarted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from pathlib import Path

from ofu_exporter.errors import SchedulerError, SchedulerReason
from ofu_exporter.kube.gpu_pods import PodName

SETTLE_SECONDS = 30.0
"""So long a kubelet that was restarted may leave out pods that it had."""

Kubelet = tuple[int, int] | None
"""What tells one run of kubelet from the next; None where that is not known."""


class Settling:
    """Watches for a new kubelet: each makes its socket anew."""

    def __init__(self, socket: Path, clock: Callable[[], float]) -> None:
        self._socket = socket
        self._clock = clock
        self._kubelet: Kubelet = None
        self._started_at = -math.inf
        self._pods: Set[PodName] = frozenset()

    def kubelet(self) -> Kubelet:
        """The one that is there now."""
        try:
            found = self._socket.stat()
        except OSError:
            return None
        return (found.st_ino, found.st_ctime_ns)

    def check(self, kubelet: Kubelet, pods: Set[PodName]) -> None:
        """Raises SchedulerError for pods that are missing from the answer of a kubelet too early."""
        if self._kubelet not in (None, kubelet):
            self._started_at = self._clock()
        self._kubelet = kubelet
        missing = self._pods - pods
        if missing and self._clock() - self._started_at < SETTLE_SECONDS:
            detail = f"kubelet has just started and does not list {len(missing)} of its pods yet"
            raise SchedulerError(SchedulerReason.UNREACHABLE, detail)
        self._pods = frozenset(pods)
