"""Replays the jobs of a recording in step with the source `replay`; used only on request."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ofu_exporter import recordings, schedulers
from ofu_exporter.errors import SchedulerError, SourceError
from ofu_exporter.recordings.jobs import RecordedJob, RecordedJobs, read_jobs
from ofu_exporter.schedulers.replay.options import Options as Options
from ofu_exporter.values.job import Claim
from ofu_exporter.values.reasons import ClaimRejection, SchedulerReason


class Scheduler(schedulers.Scheduler):
    """The recorded jobs, a function of the time since the recording began."""

    poll_seconds = 0.25

    def __init__(
        self,
        options: Options,
        clock: Callable[[], float] = time.monotonic,
        unix: Callable[[], float] = time.time,
    ) -> None:
        self._options = options
        self._clock = clock
        self._begin = recordings.began(options.path, clock)
        self._begin_unix = unix() - (clock() - self._begin)
        self._recorded: RecordedJobs | None = None

    @property
    def rejected(self) -> Mapping[str, int]:
        damaged = self._recorded.damaged if self._recorded else 0
        return {ClaimRejection.MALFORMED.value: damaged} if damaged else {}

    def claims(self) -> Sequence[Claim]:
        if self._recorded is None:
            self._recorded = self._read()
        seconds = self._recorded.seconds
        elapsed = self._clock() - self._begin
        rounds = elapsed // seconds if self._options.loop and seconds > 0 else 0.0
        into, begun = elapsed - rounds * seconds, self._begin_unix + rounds * seconds
        running = (each for each in self._recorded.jobs if each.start <= into < each.end)
        return [_claim(each, begun) for each in running]

    def _read(self) -> RecordedJobs:
        try:
            return read_jobs(self._options.path)
        except SourceError as error:
            raise SchedulerError(SchedulerReason.BAD_ANSWER, error.detail) from error


def _claim(recorded: RecordedJob, begun: float) -> Claim:
    """The job as one that runs now. Each round of a loop is another run of it."""
    started = begun + recorded.start
    return Claim(replace(recorded.job, started=started, uid=f"{started:.0f}"), recorded.gpus)
