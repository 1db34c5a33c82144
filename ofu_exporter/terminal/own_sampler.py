"""Samples this node's GPUs itself, as `check` does, if there is no agent."""

from __future__ import annotations

import platform
import threading
import time

from ofu_exporter.agent.build import build_attribution, build_sampler
from ofu_exporter.serving.node_json import node_state
from ofu_exporter.serving.page import Page
from ofu_exporter.settings import Configured
from ofu_exporter.terminal.scene import Scene, SceneAnswer
from ofu_exporter.values.snapshot import Snapshot

ORIGIN = "sampled by top itself"
STOP_SECONDS = 0.5


class OwnSampler:
    def __init__(self, configured: Configured) -> None:
        self._node = platform.node()
        self._page = Page(time.monotonic, process=False, unix=time.time)
        self._complete = threading.Event()
        self._attribution = build_attribution(configured)
        self._sampler = build_sampler(configured, self._publish, self._attribution)

    def start(self) -> None:
        self._attribution.start(self._sampler.cut)
        self._sampler.start()

    def scene(self) -> Scene:
        page = self._page
        age = page.snapshot_age()
        node = node_state(page.snapshot(), page.history, self._node, age, page.faults)
        return Scene((SceneAnswer(self._node, node, age=age),), ORIGIN)

    def complete(self, seconds: float) -> Scene:
        self._complete.wait(seconds)
        return self.scene()

    def stop(self) -> None:
        self._sampler.stop(STOP_SECONDS)
        self._attribution.stop(STOP_SECONDS)

    def _publish(self, snapshot: Snapshot) -> None:
        self._page.publish(snapshot)
        if snapshot.is_complete and not self._sampler.choosing:
            self._complete.set()
