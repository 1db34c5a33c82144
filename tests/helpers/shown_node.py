"""A node with an hour behind it, as its pages show it: jobs of several kinds, a lost GPU and an idle one."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import lru_cache

from ofu_exporter.errors import ReportError
from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.history import History
from ofu_exporter.serving.node_json import NodeJson, node_state
from ofu_exporter.serving.pages.job_page import job_page
from ofu_exporter.serving.pages.node_page import node_page
from ofu_exporter.support.logs import LastLine
from ofu_exporter.values.clock_limit import ClockLimit
from ofu_exporter.values.job import Job
from ofu_exporter.values.reading import Activity, Fault, Reading
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import Snapshot
from tests.helpers.desk import Desk
from tests.helpers.node import EPOCH, whole
from tests.helpers.values import gpu, health, reading

LLAMA = Job("slurm", "48213", "llama-8b-train", "ada", partition="gpu")
MOE = Job("slurm", "48230", "moe-pretrain", "grace", partition="gpu")
NOTEBOOK = Job("slurm", "48144", "notebook", "alan", partition="interactive")
HELD = {LLAMA: ("0", "1", "2", "3"), MOE: ("4", "5"), NOTEBOOK: ("6",)}
LOST = 7
LINES = [
    LastLine(EPOCH + 1805.0, "warning", "GPU 7 (GPU-0007) is not measured (lost). Drain the node."),
    LastLine(EPOCH, "info", "job 48213 (llama-8b-train, ada) holds GPU 0, 1, 2, 3"),
]
"""The last lines of its log of changes."""


@lru_cache
def node_after(seconds: float = 3600.0, simulated: bool = False) -> ShownNode:
    """One that is only looked at, and so is made once: an hour takes some seconds."""
    return ShownNode(seconds, simulated)


class ShownNode:
    """The node, its last snapshot, and the history of its hour."""

    def __init__(self, seconds: float, simulated: bool) -> None:
        self.desk, self.history = Desk(8), History()
        self.simulated = simulated
        self._chance = random.Random(7)
        self.desk.node.give(0.0, *(whole(job, *devices) for job, devices in HELD.items()))
        self._show()
        for number in range(int(seconds / 5)):
            self._window(5.0 * number)

    def _window(self, start: float) -> None:
        end = start + 5.0
        events = [self._event(index, start, end) for index in range(8)]
        self.desk.node.tick(end, *(each for each in events if each is not None))
        self.desk.clock.now = end
        if end % 30 == 0:
            self._report(LLAMA, 0.335)
            self._report(MOE, 0.567)
        self._show()

    def _report(self, job: Job, mfu: float) -> None:
        model = {"gpus": len(HELD[job]), "precision": "bf16"}
        try:
            self.desk.report(job.job_id, mfu=mfu + self._chance.gauss(0, 0.004), **model)
        except ReportError as error:
            raise AssertionError(error.detail) from error

    def _event(self, index: int, start: float, end: float) -> Reading | Fault | None:
        if index == LOST and start > 1800:
            return Fault(gpu(index), end, Reason.LOST)
        if index == 2 and 1500 < start < 1800:
            return None
        saving = start % 900 < 40
        tensor = {0: 0.51, 1: 0.51, 2: 0.5, 3: 0.37, 4: 0.58, 5: 0.57, 6: 0.0, 7: 0.2}[index]
        tensor *= 0.05 if saving else 1 + 0.04 * math.sin(start / 300) + self._chance.gauss(0, 0.02)
        slow = 0.76 if index == 3 else 1.0
        hz = [slow * self._chance.gauss(1410e6, 18e6) for _ in range(10)]
        limits = {3: (ClockLimit.SW_THERMAL,), 6: ()}.get(index, (ClockLimit.SW_POWER_CAP,))
        tensor = max(tensor, 0.0)
        activity = Activity(engine=min(1.75 * tensor, 1.0), sm=1.5 * tensor)
        taken = reading(start, end, tensor, hz, device=gpu(index), activity=activity)
        return replace(taken, clock_limits=limits)

    def _show(self) -> None:
        self.desk.show()
        self.history.take(self.desk.shown)

    @property
    def snapshot(self) -> Snapshot:
        source = health("simulate", simulated=True) if self.simulated else health()
        return replace(self.desk.shown, source=source)

    def state(self, **changes: object) -> NodeJson:
        """The node, perhaps with other GPUs or jobs."""
        snapshot = replace(self.snapshot, **changes)  # type: ignore[arg-type]
        return node_state(snapshot, self.history, "node-17", 1.4, Faults())

    def node_page(self) -> str:
        return node_page(self.state(), LINES)

    def job_page(self, job_id: str) -> str:
        found = JobBook(lambda: self.snapshot, "node-17").find(job_id)
        assert found is not None
        return job_page(found, self.history)
