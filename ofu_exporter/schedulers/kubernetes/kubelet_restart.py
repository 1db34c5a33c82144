"""Tells a pod that is gone from one that kubelet does not know of yet.

Kubelet answers as soon as it starts, before the API server has told it its pods; as long as it cannot
reach the API server it knows none but static ones. To believe that would end every job on the node each
time that kubelet is restarted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from pathlib import Path

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes.gpu_pods import PodName
from ofu_exporter.values.reasons import SchedulerReason

SETTLE_SECONDS = 30.0
"""So long a kubelet that was restarted may leave out pods that it had, from when it lists the first."""
BLANK_SECONDS = 300.0
"""So long it may list none of them; no answer is believed for longer than that anyway."""

Kubelet = tuple[int, int] | None
"""What tells one run of kubelet from the next; None where that is not known."""


class KubeletRestart:
    """Watches for a new kubelet: each makes its socket anew."""

    def __init__(self, socket: Path, clock: Callable[[], float]) -> None:
        self._socket = socket
        self._clock = clock
        self._kubelet: Kubelet = None
        self._changed_at = -math.inf
        self._blank_at = -math.inf
        """When it last listed no pod with a GPU."""
        self._pods: Set[PodName] = frozenset()

    def kubelet(self) -> Kubelet:
        """The one that is there now."""
        try:
            found = self._socket.stat()
        except OSError:
            return None
        return (found.st_ino, found.st_ctime_ns)

    def check(self, kubelet: Kubelet, pods: Set[PodName]) -> None:
        """Raises SchedulerError for pods that are missing from the answer of a kubelet too early.

        Once an answer was taken for the truth, the next one is as well.
        """
        now = self._clock()
        if self._kubelet not in (None, kubelet):
            self._changed_at = self._blank_at = now
        self._kubelet = kubelet
        if not pods:
            self._blank_at = now
        missing = self._pods - pods
        since, patience = self._changed_at, BLANK_SECONDS
        if pods:  # from the first that it lists the others come one after another
            since, patience = self._blank_at, SETTLE_SECONDS
        if missing and now - since < patience:
            detail = f"kubelet was restarted and does not list {len(missing)} of its pods yet"
            raise SchedulerError(SchedulerReason.SETTLING, detail)
        self._pods = frozenset(pods)
        self._changed_at = self._blank_at = -math.inf
