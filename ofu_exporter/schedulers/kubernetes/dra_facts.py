"""Remembers what the API server says of devices that DRA gives out: their uuids, and which are only looked at."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes.api_server import Get
from ofu_exporter.schedulers.kubernetes.gpu_pods import (
    ClaimName,
    GpuPod,
    PodName,
    admin_devices,
    uuids_of_claimed,
)
from ofu_exporter.values.reasons import ClaimRejection

log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")
PodsByName = Mapping[PodName, GpuPod]


class DraFacts:
    """A refusal of the API server costs only what it would have said."""

    def __init__(self, node: str, rejected: Counter[str]) -> None:
        self._node = node
        self._rejected = rejected
        self._failed: set[str] = set()
        self._admin: dict[ClaimName, frozenset[str]] = {}
        """By claim, the devices to which it has only admin access."""
        self.uuids: Mapping[str, str] = {}

    def learn(self, get: Get, pods: PodsByName) -> None:
        """Ask for what the pods' claims need: ResourceSlices each time, a claim once."""
        claims = {each.claim for pod in pods.values() for each in pod.allotted}
        self._admin = {claim: devices for claim, devices in self._admin.items() if claim in claims}
        if claims and self._node:
            uuids = self._ask("uuids", lambda: uuids_of_claimed(get, self._node))
            self.uuids = self.uuids if uuids is None else uuids
        for claim in sorted(claims - self._admin.keys() - {("", "")}):
            admin = self._ask("claims", lambda claim=claim: admin_devices(get, claim))  # type: ignore[misc]
            if admin is not None:  # else the next round asks again
                self._admin[claim] = admin

    def _ask(self, what: str, question: Callable[[], AnswerT]) -> AnswerT | None:
        try:
            answer = question()
        except SchedulerError as error:
            self._rejected[ClaimRejection.UNREADABLE.value] += 1
            if what not in self._failed:
                log.warning("the %s of DRA devices are not known: %s", what, error.detail)
            self._failed.add(what)
            return None
        self._failed.discard(what)
        return answer

    def holders(self, pods: PodsByName) -> dict[PodName, GpuPod]:
        """The pods that hold a device, without those that only look at it."""
        holders = {}
        for name, pod in pods.items():
            devices = {
                each for each in pod.allotted if each.name not in self._admin.get(each.claim, ())
            }
            if pod.devices or devices or not pod.allotted:
                holders[name] = replace(pod, allotted=devices)
        return holders
