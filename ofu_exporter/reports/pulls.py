"""Reads the counters of serving engines and the gauges of trainers, each on a thread of its own, and makes reports.

vLLM's `vllm:estimated_flops_per_gpu_total` (--enable-mfu-metrics) and SGLang's of the same name. Two successive values
make a rate; if the page has several engines or ranks, the report is the mean of their rates, because each is per GPU.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from operator import mul
from typing import Any

from ofu_exporter.errors import ConfigError, OfuError, PageError
from ofu_exporter.flops.readers import JobFacts, serving
from ofu_exporter.reports import engine_pages
from ofu_exporter.reports.engine_pages import EnginePage
from ofu_exporter.reports.served import ServedTally
from ofu_exporter.reports.served_ledger import Ledger
from ofu_exporter.settings import PullSetting
from ofu_exporter.support.page_client import PageClient
from ofu_exporter.values.instant import Span
from ofu_exporter.values.reasons import Reason

log = logging.getLogger(__name__)

MAX_PAGE_BYTES = 16 << 20
LONGEST_SECONDS = 600.0
"""Longest time between two values. A mean over a longer time says nothing about the time that is compared."""

Submit = Callable[[dict[str, Any]], object]
"""Takes a report as `POST /v1/mfu` does. Raises OfuError when it is refused."""


class PullOutcome(str, Enum):
    REPORTED = "reported"
    SERVED = "served"
    """Tokens and requests were read; the engine does not count FLOPs."""
    BEGUN = "begun"
    """The first value, or the first after a restart, another set of engines or a long gap; or another engine of the job
    has none."""
    NO_COUNTER = "no_counter"
    """The page has none, or one that has never moved: this engine or backend doesn't count, as vLLM without
    --enable-mfu-metrics."""
    NOT_METRICS = "not_metrics"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class _Counters:
    """FLOPs of one GPU since the start of each engine, and when they were read."""

    flops: Mapping[str, float]
    started: frozenset[str]
    """When their processes did, as the page writes it."""
    at: float
    """Seconds on a monotonic clock."""


@dataclass(slots=True)
class PulledEngine:
    """What is known of one engine between two pulls."""

    setting: PullSetting
    page: PageClient
    tally: ServedTally
    last: _Counters | None = None
    report: dict[str, Any] | None = None
    """Of its last pull, about its own GPUs; None where that made none."""
    asked_at: float | None = None
    """When a gauge was last read, on the monotonic clock."""
    outcomes: Counter[str] = field(default_factory=Counter)
    detail: str = ""
    """Why the last pull made no report."""


class Pulls:
    """The threads that pull. An engine that hangs or fails does not affect the others."""

    def __init__(
        self,
        settings: Sequence[PullSetting],
        submit: Submit,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        ledger: Ledger | None = None,
    ) -> None:
        """`ledger` has what the engines have served until now."""
        self._ledger = ledger or Ledger()
        self._submit = submit
        self._wall = wall
        self._clock = clock
        self._stop = threading.Event()
        self.engines = [
            PulledEngine(each, PageClient(each.url, each.timeout), tally)
            for each, tally in zip(settings, self._ledger.begin_tallies(settings), strict=True)
        ]
        self._threads = [
            threading.Thread(target=self._run, args=(each,), name="ofu-pull", daemon=True)
            for each in self.engines
        ]

    def outcomes(self) -> Mapping[tuple[str, str], int]:
        """Pulls by job and outcome; those of several engines of a job are added."""
        counts: Counter[tuple[str, str]] = Counter()
        for each in self.engines:
            job_id, copied = each.setting.job_id, dict(each.outcomes)  # its thread adds to them
            counts.update({(job_id, name): count for name, count in copied.items()})
        return counts

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float) -> bool:
        """Ask all threads to end, and wait `timeout` seconds in all; whether they have ended."""
        self._stop.set()
        deadline = self._clock() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self, engine: PulledEngine) -> None:
        next_at = self._clock()
        while not self._stop.wait(max(0.0, next_at - self._clock())):
            self.pull(engine)
            next_at = max(next_at + engine.setting.every, self._clock())
        engine.page.close()

    def pull(self, engine: PulledEngine) -> None:
        """Pull from an engine once, in the calling thread."""
        detail, report = "", None
        try:
            outcome, report = self._read(engine)
            if report is not None:
                outcome = self._report(engine, report)
        except PageError as error:
            outcome, detail = PullOutcome(error.reason.value), error.detail
        except OfuError as error:
            outcome, detail = PullOutcome.REFUSED, str(error)
        except Exception as error:  # after any error, the page is pulled again
            log.exception("unexpected error while pulling from %s", engine.page.shown_url)
            outcome, detail = PullOutcome.FAILED, f"{type(error).__name__}: {error}"
        engine.report = report
        self._note(engine, outcome, detail)

    def _report(self, engine: PulledEngine, report: dict[str, Any]) -> PullOutcome:
        """Report the mean over the GPUs of a job's engines, whose own reports would overlap: the one that is read least
        often does, whose seconds hold those of the others."""
        engines = [each for each in self.engines if each.setting.job_id == report["job_id"]]
        rate = "mfu" if engine.setting.metric else "tflops_per_gpu"
        reports = [report if each is engine else each.report for each in engines]
        rates = [each[rate] for each in reports if each and rate in each]
        if len(rates) < len(engines):
            return PullOutcome.BEGUN
        gpus = [len(each.last.flops) if each.last else 1 for each in engines]
        if engine is max(engines, key=lambda each: each.setting.every):
            self._submit({**report, rate: sum(map(mul, rates, gpus)) / sum(gpus)})
        return PullOutcome.REPORTED

    def _read(self, engine: PulledEngine) -> tuple[PullOutcome, dict[str, Any] | None]:
        """Pull once; the report is made of this value and the last one. Raises PageError."""
        asked_at = self._clock()
        try:
            text = engine.page.fetch(MAX_PAGE_BYTES)
            at = (asked_at + self._clock()) / 2
            end = self._wall() - (self._clock() - at)
            page = None if engine.setting.metric else self._tallied(engine, text, end)
        except PageError:
            with self._ledger.lock:
                engine.tally.lose()
            raise
        if engine.setting.metric:
            return _of_gauge(engine, text, at, end)
        started = frozenset(page.started if page else ())
        outcome, report = _of_counter(engine, text, started, at, end)
        if outcome is PullOutcome.NO_COUNTER and page:
            return PullOutcome.SERVED, None
        return outcome, report

    def _tallied(self, engine: PulledEngine, text: str, end: float) -> EnginePage | None:
        """Add what the page of a Unix time says of the engine's work; None where it says nothing. Raises PageError for
        a page too large."""
        try:
            page = engine_pages.read(text)
        except ValueError as error:
            detail = f"{engine.page.shown_url}: {error}"
            raise PageError(Reason.NOT_METRICS, detail) from error
        with self._ledger.lock:
            if page is None:  # a gateway may answer while its engine does not
                engine.tally.lose()
            else:
                engine.tally.take(page, end)
        return page

    def _note(self, engine: PulledEngine, outcome: PullOutcome, detail: str) -> None:
        if outcome.value not in engine.outcomes:  # each kind of problem is logged once
            level = logging.INFO if outcome in _FINE else logging.WARNING
            where, job = engine.page.shown_url, engine.setting.job_id
            log.log(level, "pull from %s for job %s: %s %s", where, job, outcome.value, detail)
        engine.outcomes[outcome.value] += 1
        engine.detail = detail


_FINE = frozenset({PullOutcome.REPORTED, PullOutcome.BEGUN, PullOutcome.SERVED})


def _of_counter(
    engine: PulledEngine, text: str, started: frozenset[str], at: float, end: float
) -> tuple[PullOutcome, dict[str, Any] | None]:
    """The report that the counter of FLOPs makes with its last value; `end` is the Unix time of `at`."""
    now = _Counters(_flops(text, engine), started, at)
    before, engine.last = engine.last, now if now.flops else None
    if not any(now.flops.values()):
        return PullOutcome.NO_COUNTER, None
    rate = _rate(before, now)
    if rate is None or before is None:
        return PullOutcome.BEGUN, None
    interval = Span(end - (now.at - before.at), end)
    return PullOutcome.REPORTED, _body(engine.setting, text, rate, interval)


def _of_gauge(
    engine: PulledEngine, text: str, at: float, end: float
) -> tuple[PullOutcome, dict[str, Any] | None]:
    """The report that a trainer's own gauge makes: of the time since it was last read, the mean over ranks."""
    setting = engine.setting
    values = engine_pages.gauge(text, setting.metric)
    before, engine.asked_at = engine.asked_at, at if values else None
    if not values:
        return PullOutcome.NO_COUNTER, None
    if before is None or at - before > LONGEST_SECONDS:
        return PullOutcome.BEGUN, None
    mfu = sum(values) / len(values) * setting.scale
    body = {"job_id": setting.job_id, "mfu": mfu, "start": end - (at - before), "end": end}
    return PullOutcome.REPORTED, {**body, **_precision(setting)}


def _precision(setting: PullSetting) -> dict[str, Any]:
    return {} if setting.precision is None else {"precision": setting.precision}


def _flops(text: str, engine: PulledEngine) -> dict[str, float]:
    """FLOPs by the counter's labels. Raises PageError when a value is no number."""
    if not serving.engine(text):
        return {}
    try:
        return {each.name: each.flops or 0.0 for each in serving.read(text, JobFacts())}
    except ConfigError as error:
        detail = f"{engine.page.shown_url}: {error}"
        raise PageError(Reason.NOT_METRICS, detail) from error


def _rate(before: _Counters | None, now: _Counters) -> float | None:
    """FLOP/s of a GPU, the mean over engines; None where the two can't be compared."""
    if before is None or before.flops.keys() != now.flops.keys():
        return None
    if before.started != now.started:  # it was restarted, or another one answers at its address
        return None
    seconds = now.at - before.at
    grown = [value - before.flops[name] for name, value in now.flops.items()]
    if not 0 < seconds <= LONGEST_SECONDS or min(grown) < 0:
        return None
    return sum(grown) / len(grown) / seconds


def _body(setting: PullSetting, text: str, rate: float, interval: Span) -> dict[str, Any]:
    """A report in the form that `POST /v1/mfu` takes."""
    body = {
        "job_id": setting.job_id,
        "tflops_per_gpu": rate / 1e12,
        "start": interval.start,
        "end": interval.end,
        "framework": serving.engine(text),
        "recompute": "none",
    }
    if setting.model is not None:
        body["model"] = {**setting.model, "forward_only": True}
    return {**body, **_precision(setting)}
