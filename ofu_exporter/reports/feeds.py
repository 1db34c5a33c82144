"""Runs the agent's own reporters: the pulls of serving engines, and the reports of simulated and recorded jobs."""

from __future__ import annotations

import logging
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ofu_exporter.errors import OfuError, SourceError
from ofu_exporter.jobs.kept_served import KeptServed
from ofu_exporter.ofu.observed import observed
from ofu_exporter.recordings import Options
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.pulls import Pulls
from ofu_exporter.reports.served_ledger import Ledger
from ofu_exporter.reports.simulated_serving import simulated_served
from ofu_exporter.settings import PullSetting
from ofu_exporter.values import quantities
from ofu_exporter.values.job import RECORDED
from ofu_exporter.values.served import Served
from ofu_exporter.values.snapshot import JobView, Snapshot

if TYPE_CHECKING:
    from ofu_exporter.recordings.jobs import RecordedJobs

log = logging.getLogger(__name__)


class OwnReports(ABC):
    """Reports for the jobs of one scheduler, and for nobody else's."""

    kind: str
    scheduler: str
    every_seconds: float
    """Time between two looks at the jobs."""

    def __init__(self, snapshot: Callable[[], Snapshot | None], book: ReportBook) -> None:
        self._snapshot = snapshot
        self._book = book
        self._stop = threading.Event()
        self.until: dict[str, float] = {}
        """By job id: Unix time of the end of the last report that was taken in."""

    @abstractmethod
    def take_due(self, view: JobView) -> Iterable[Mapping[str, Any]]:
        """The bodies of the reports that are due for one job. Times are Unix times."""

    def start(self) -> None:
        thread = threading.Thread(target=self._run, name=f"ofu-{self.kind}-reports", daemon=True)
        thread.start()

    def stop(self) -> None:
        self._stop.set()

    def report(self, view: JobView) -> None:
        """Report for one job, if it is one of this scheduler's."""
        if view.job.scheduler != self.scheduler:
            return
        for body in self.take_due(view):
            try:
                self._book.submit(dict(body))
                self.until[view.job.job_id] = body["end"]
            except OfuError as error:
                log.warning("%s report of job %s: %s", self.kind, view.job.job_id, error)

    def _run(self) -> None:
        while not self._stop.wait(self.every_seconds):
            snapshot = self._snapshot()
            for view in snapshot.jobs if snapshot else ():
                self.report(view)


NOISE = 0.005
"""Standard deviation of the reported MFU, as a share of it."""


@dataclass(frozen=True, slots=True)
class SimulatedReporting:
    ratio: float
    """Reported MFU over the OFU of its GPUs."""
    facts: Mapping[str, Any]


# A right MFU is below OFU: tiles add 1.5 % to the FLOPs.
_RIGHT = 1 / 1.015
_MOE = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151936,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "tie_word_embeddings": False,
}
_FULL_OVER_CAUSAL = 1.3462
"""FLOPs of this model at 8192 tokens with every pair of attention, divided by those with half of the pairs."""
REPORTING: Mapping[str, SimulatedReporting] = {
    "llama-8b-train": SimulatedReporting(
        _RIGHT, {"precision": "bf16", "recompute": "none", "gpus": 3}
    ),
    "moe-pretrain": SimulatedReporting(
        _RIGHT * _FULL_OVER_CAUSAL,
        {
            "precision": "bf16",
            "recompute": "none",
            "gpus": 1,
            "model": {"config": _MOE, "seq_len": 8192},
        },
    ),
}
"""By the job's name; the other jobs report nothing."""


class SimulatedReports(OwnReports):
    kind = "simulated"
    scheduler = "simulate"
    every_seconds = 5.0

    def __init__(self, snapshot: Callable[[], Snapshot | None], book: ReportBook) -> None:
        super().__init__(snapshot, book)
        self._random = random.Random(1)

    def take_due(self, view: JobView) -> Iterator[Mapping[str, Any]]:
        """The time since the last report, for a job that reports."""
        reporting = REPORTING.get(view.job.name)
        if reporting is None or view.ended is not None:
            return
        end = view.updated
        start = self.until.get(view.job.job_id, end - self.every_seconds)
        back = [usage.recent[-1].end for usage in view.usage.values() if usage.recent]
        if not back or end <= start:
            return
        latest = max(back)
        sums = observed(view.usage.values(), latest - (end - start), latest)
        mfu = sums.utilization_seconds / sums.gpu_seconds * reporting.ratio
        mfu *= 1 + self._random.gauss(0, NOISE)
        stated = {"job_id": view.job.job_id, "mfu": quantities.written(mfu)}
        yield {**stated, "start": start, "end": end, **reporting.facts}


class RecordedReports(OwnReports):
    kind = "recorded"
    scheduler = RECORDED
    every_seconds = 1.0

    def __init__(
        self,
        snapshot: Callable[[], Snapshot | None],
        book: ReportBook,
        path: Path,
        unix: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(snapshot, book)
        self._path = path
        self._unix_until = unix()
        """Reports that ended before are not made: an earlier agent has made them."""
        self._made_until: dict[str, float] = {}
        """By job id: Unix time of the end of the last report, whether or not it was taken in."""
        self._recorded: RecordedJobs | None = None

    def take_due(self, view: JobView) -> Iterator[Mapping[str, Any]]:
        """The reports that ended by now, in the run of the job that began at `started`."""
        recorded = self._recorded = self._recorded or self._read()
        job_id, started = view.job.job_id, view.job.started
        begun = [each.start for each in recorded.jobs if each.job.job_id == job_id]
        if started is None or not begun:
            return
        by = started - begun[0]
        for report in recorded.reports:
            end = report.end + by
            last = self._made_until.get(job_id, self._unix_until)
            if report.job_id == job_id and last < end <= view.updated:
                self._made_until[job_id] = end
                yield {**report.body, "start": report.body["start"] + by, "end": end}

    def _read(self) -> RecordedJobs:
        from ofu_exporter.recordings.jobs import RecordedJobs, read_jobs  # noqa: PLC0415 - only to replay

        try:
            return read_jobs(self._path)
        except SourceError as error:
            log.warning("no recorded report is made: %s", error)
            return RecordedJobs((), (), 0.0, 0)


STOP_SECONDS = 0.2
Schedulers = Mapping[str, BaseModel]
"""Options of the schedulers in use, by name."""


class Feeds:
    """Runs the pulls and the reports of jobs that are not real, and replaces them when the settings change."""

    def __init__(self, snapshot: Callable[[], Snapshot | None], book: ReportBook) -> None:
        self._snapshot = snapshot
        self._book = book
        self._settings: tuple[Sequence[PullSetting], Schedulers] | None = None
        self._own: list[OwnReports] = []
        self._ledger = Ledger(snapshot)
        self.pulls = Pulls((), book.submit)

    def run(self, pulls: Sequence[PullSetting], schedulers: Schedulers) -> None:
        """Run these pulls from now on and no others, and report for jobs that no training loop reports for. Does not
        wait for a pull that hangs."""
        if self._settings == (pulls, schedulers):
            return
        self.stop()
        self._settings = (pulls, schedulers)
        self.pulls = Pulls(pulls, self._book.submit, ledger=self._ledger)
        self.pulls.start()
        self._own = list(self._own_reports(schedulers))
        for each in self._own:
            each.start()

    def _own_reports(self, schedulers: Schedulers) -> Iterator[OwnReports]:
        if "simulate" in schedulers:
            yield SimulatedReports(self._snapshot, self._book)
        replay = schedulers.get("replay")
        if isinstance(replay, Options):
            yield RecordedReports(self._snapshot, self._book, replay.path)

    def stop(self) -> None:
        self._settings = None
        while self._own:
            self._own.pop().stop()
        self.pulls.stop(STOP_SECONDS)

    def outcomes(self) -> dict[tuple[str, str], int]:
        """Pulls by job and outcome."""
        return dict(self.pulls.outcomes())

    def served(self) -> Mapping[str, Served]:
        """What the pulled engines of each job served."""
        served = self._ledger.served()
        if any(isinstance(each, SimulatedReports) for each in self._own):
            for job_id, made_up in simulated_served(self._snapshot()).items():
                served.setdefault(job_id, made_up)  # a pull of the same job says more
        return served

    def kept(self) -> KeptServed:
        """What the next agent needs to go on counting that."""
        return self._ledger.kept()

    def resume(self, kept: KeptServed) -> None:
        """Go on counting from there, once `run` is called."""
        self._ledger.resume(kept)
