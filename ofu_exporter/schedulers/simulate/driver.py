"""Simulates jobs that start and end on a simulated node, for demonstrations and tests; used only on request."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ofu_exporter import schedulers
from ofu_exporter.schedulers.simulate.options import Options as Options
from ofu_exporter.values.job import Claim, Job

PAUSE_SECONDS = 20.0
"""Time between the end of a job and the start of the next on the same GPUs."""
FIRST_JOB = 1001


@dataclass(frozen=True, slots=True)
class Queue:
    """Jobs that have the same GPUs one after the other."""

    name: str
    user: str
    account: str
    gpus: tuple[str, ...]
    seconds: float = math.inf
    """How long each job runs."""


# Each queue has the GPUs on which the source `simulate` runs the same kind of work; the last GPU is free.
# The documentation uses the first jobs of three queues as examples, so they run for long.
QUEUES = (
    Queue("llama-8b-train", "ada", "physics", ("0", "1", "2")),
    Queue("moe-pretrain", "grace", "ml", ("3",)),
    Queue("chat-serving", "alan", "serving", ("4", "5")),
    Queue("plane-wave-dft", "marie", "chemistry", ("6",), 240.0),
)


class Scheduler(schedulers.Scheduler):
    """The simulated jobs, a function of the time since the scheduler was built."""

    poll_seconds = 1.0

    def __init__(
        self,
        options: Options,  # noqa: ARG002 - as every scheduler
        clock: Callable[[], float] = time.monotonic,
        unix: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._begin = clock()
        self._begin_unix = unix()

    def claims(self) -> Sequence[Claim]:
        elapsed = self._clock() - self._begin
        running = (self._running(place, elapsed) for place in range(len(QUEUES)))
        return [claim for claim in running if claim is not None]

    def _running(self, place: int, elapsed: float) -> Claim | None:
        queue = QUEUES[place]
        period = queue.seconds + PAUSE_SECONDS
        run, into = divmod(elapsed, period)
        if into >= queue.seconds:
            return None
        job = Job(
            scheduler="simulate",
            job_id=str(FIRST_JOB + place + len(QUEUES) * int(run)),
            name=queue.name,
            user=queue.user,
            account=queue.account,
            partition="demo",
            started=self._begin_unix + (run * period if run else 0.0),
        )
        return Claim(job, queue.gpus)
