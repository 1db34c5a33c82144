"""Code that the callbacks of all frameworks share: rates from the work of a loop, metrics from the answers."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, TypeVar, cast

from ofu_exporter.client import Facts, Reporter

Rate = Literal["tokens_per_second", "model_flops_per_second"]
Interruption = Literal["evaluation", "checkpoint"]
Hook = TypeVar("Hook", bound=Callable[..., None])

log = logging.getLogger("ofu_exporter.client")


class ReporterOptions(Facts, total=False):
    job_id: str | int | None
    url: str | None
    token: str | None
    every: float


def quiet(hook: Hook) -> Hook:
    """Decorator for a hook of an OfuReporting: the hook then never raises."""

    @functools.wraps(hook)
    def guarded(self: OfuReporting, /, *args: object, **kwargs: object) -> None:
        try:
            hook(self, *args, **kwargs)
        except Exception:
            if not self.complained:
                self.complained = True
                with suppress(Exception):  # a handler of the application's own
                    log.warning("MFU is not reported for some steps", exc_info=True)

    return cast(Hook, guarded)


class StepMeter:
    """Makes rates from the work that each step has done, without the time of evaluations in between."""

    def __init__(self, reporter: Reporter, rate: Rate) -> None:
        self._reporter = reporter
        self._rate = rate
        self._since: float | None = None
        self._step = 0
        self._done = 0.0

    def begin(self, step: int, done: float) -> None:
        """Measure from now on; `done` is all work before, in tokens or FLOPs of all GPUs."""
        self._since = time.time()
        self._step, self._done = step, done

    def reached(self, step: int, done: float) -> None:
        """Report the rate since the call before; `done` is all work until now. Without a rate, report the step."""
        if done <= self._done:
            self._alone(step)
            return
        since, before, now = self._since, self._done, time.time()
        self.begin(step, done)
        if since is not None and now > since:
            rate = (done - before) / (now - since)
            if self._rate == "tokens_per_second":
                self._reporter.report(tokens_per_second=rate, step=step, start=since)
            else:
                self._reporter.report(model_flops_per_second=rate, step=step, start=since)
        else:
            self._reporter.report(step=step)

    def _alone(self, step: int) -> None:
        if step > self._step:
            self._reporter.report(step=step)

    def note_interruption(self, step: int, event: Interruption) -> None:
        """Measure from now on, when something other than training has just ended, and say how long it took.

        If steps were made since the last call, their share of the time is not known, and the next call only restarts
        the measurement.
        """
        if step == self._step and self._since is not None:
            self._reporter.event(event, self._since, step)
        self._since = time.time() if step == self._step else None


class LoggedAnswers:
    """Reads the agent's answers for a framework's own log, and says when the verdict changes."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._verdict: object = None

    def metrics(self) -> dict[str, float]:
        """Ratios of the last answer over the agent's horizon; a ratio that the answer lacks is absent.

        `mfu` is relative to the right peak, as the agent compares it. `mfu_ofu_agree` is 1 or 0, and absent while the
        agent can't tell.
        """
        answer = self._reporter.last_answer or {}
        horizon = answer.get("horizon")
        if not isinstance(horizon, dict):
            return {}
        self._log_change(horizon.get("verdict"), answer)
        named = {
            "mfu": horizon.get("mfu"),
            "ofu": horizon.get("ofu"),
            "mfu_minus_ofu": horizon.get("difference"),
            "mfu_ofu_agree": _AGREE.get(str(horizon.get("verdict"))),
        }
        return {name: float(value) for name, value in named.items() if value is not None}

    def _log_change(self, verdict: object, answer: dict[str, object]) -> None:
        if verdict == self._verdict:
            return
        self._verdict = verdict
        causes = answer.get("causes")
        first = causes[0] if isinstance(causes, list) and causes else None
        cause = f", likeliest cause {first['cause']}" if isinstance(first, dict) else ""
        level = logging.INFO if _AGREE.get(str(verdict)) != 0.0 else logging.WARNING
        log.log(level, "the agent compares the reported MFU with OFU: %s%s", verdict, cause)


class OfuReporting:
    """Base of the callbacks. They must not disturb the training, so they log the first error and ignore the others."""

    complained = False
    _counted = ""
    """The name of the value that FLOPs are computed from; "" = there is none."""
    _reporter: Reporter | None = None
    _meter: StepMeter | None = None
    _answers: LoggedAnswers | None = None

    def _begin(
        self, options: ReporterOptions, enabled: bool, rate: Rate, step: int, done: float
    ) -> None:
        """Report from now on; `done` is all work before, in tokens or FLOPs of all GPUs."""
        self._reporter = Reporter(enabled=enabled, **options)
        self._answers = LoggedAnswers(self._reporter)
        self._meter = StepMeter(self._reporter, rate)
        self._meter.begin(step, done)

    def _close(self) -> None:
        if self._reporter:
            self._reporter.close()
        self._reporter = self._meter = self._answers = None

    @quiet
    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._close()


_AGREE = {"agree": 1.0, "mfu_above_ofu": 0.0, "mfu_below_ofu": 0.0}
