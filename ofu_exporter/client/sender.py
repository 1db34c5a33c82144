"""Sends reports on a thread of its own, and copes with an agent that refuses, fails or is down."""

from __future__ import annotations

import http.client
import json
import logging
import queue
import threading
import time
from collections.abc import Mapping
from contextlib import suppress

from ofu_exporter.client.channel import AgentAnswer, Channel
from ofu_exporter.client.identity import Token
from ofu_exporter.client.intervals import IntervalReport
from ofu_exporter.client.steps_file import StepsFile, line_of

LONGEST_QUEUE = 8
LONGEST_WAIT = 60.0
"""Longest pause, in seconds, after several failed attempts to reach the agent."""
LONGEST_RETRY_AFTER = 600.0
MOST_NOTICES = 100

log = logging.getLogger("ofu_exporter.client")


class OnceLog:
    """Logs a warning once, however often its cause happens."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def say(self, key: str, text: str) -> None:
        """Log a warning the first time for a key, and debug messages after that. Never raises."""
        is_news = key not in self._warned and len(self._warned) < MOST_NOTICES
        if is_news:
            self._warned.add(key)
        with suppress(Exception):  # a handler of the application's own
            log.log(logging.WARNING if is_news else logging.DEBUG, "%s", text)


class Sender:
    """Sends from a short queue. A report that cannot be sent now is dropped, because the next one replaces it."""

    def __init__(
        self,
        channel: Channel,
        token: Token,
        fields: Mapping[str, object],
        every: float,
        notices: OnceLog,
    ) -> None:
        """Starts the thread. `fields` go into every report. Raises RuntimeError where no thread can start."""
        self.accepted = self.refused = self.failed = self.dropped = 0
        """Counts of reports; the thread alone writes them, and `last_answer`."""
        self.overflowed = 0
        """Reports dropped from a full queue; the thread never writes this."""
        self.last_answer: dict[str, object] | None = None
        self._notices = notices
        self._steps = StepsFile()
        self._channel = channel
        self._token = token
        self._fields = fields
        self._every = every
        self._quiet_until = 0.0
        self._misses = 0
        self._queue: queue.SimpleQueue[IntervalReport | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ofu-reporter", daemon=True)
        self._thread.start()

    def offer(self, report: IntervalReport) -> None:
        """Queue a report; never waits. A full queue drops its oldest report."""
        if self._queue.qsize() >= LONGEST_QUEUE:
            self.overflowed += self._discard()
        self._queue.put(report)

    def close(self, timeout: float) -> None:
        """Send what is left, for `timeout` seconds at most."""
        self._queue.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            while self._discard():
                self.overflowed += 1
            self._queue.put(None)

    def _discard(self) -> int:
        try:
            return int(self._queue.get_nowait() is not None)
        except queue.Empty:
            return 0

    def _run(self) -> None:
        self._steps.begin()
        while (report := self._queue.get()) is not None:
            self._keep_step(report)
            if time.monotonic() < self._quiet_until:
                self.dropped += 1
                continue
            try:
                self._send(report)
            except Exception as error:  # noqa: BLE001 - the thread must outlive whatever an answer holds
                self._miss("failed", f"sending failed ({type(error).__name__})")
        self._channel.close()

    def _keep_step(self, report: IntervalReport) -> None:
        try:
            self._steps.keep(self._line_of(report), report.step)
        except Exception as error:  # noqa: BLE001 - a report is worth more than the file
            self._notices.say("steps", f"OFU_EXPORTER_STEPS_FILE is not written: {error}")

    def _line_of(self, report: IntervalReport) -> str:
        run = report.run or str(self._fields.get("run") or "")
        return line_of(run, str(self._fields.get("job_id") or ""))

    def _send(self, report: IntervalReport) -> None:
        content = json.dumps(self._body(report)).encode()
        try:
            answer = self._channel.post(content, self._token.value)
            if answer.status in (401, 403) and self._token.reread():
                answer = self._channel.post(content, self._token.value)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = str(error) or type(error).__name__
            self._miss("away", f"no answer from {self._channel.where} ({reason})")
            return
        self._judge(answer)

    def _body(self, report: IntervalReport) -> dict[str, object]:
        body = {**self._fields, **report.fields()}
        if report.values.keys() != {"tokens_per_second"}:  # only tokens need it
            body.pop("flops_per_token", None)
        return (
            {**body, **self._steps.reached(self._line_of(report))}
            if report.step is not None
            else body
        )

    def _judge(self, answer: AgentAnswer) -> None:
        parsed = answer.json_object()
        if answer.status == 200 and parsed is not None:
            self.accepted += 1
            self.last_answer = parsed
            self._misses = 0
        elif 400 <= answer.status < 500:
            self._refuse(answer, parsed or {})
        else:
            what = f"status {answer.status}" if answer.status != 200 else "no JSON object"
            self._miss("failed", f"{self._channel.where} answers with {what}: is this the agent?")

    def _refuse(self, answer: AgentAnswer, parsed: Mapping[str, object]) -> None:
        self.refused += 1
        self._misses = self._misses if answer.status == 429 else 0
        kind, text = refusal(parsed)
        self._notices.say(
            f"{answer.status} {kind}",
            f"{self._channel.where} refused a report with status {answer.status}: {text}",
        )
        if answer.status == 429:
            self._wait(answer.retry_after)

    def _miss(self, key: str, text: str) -> None:
        self.failed += 1
        self._notices.say(key, f"{text}; reports are dropped until this changes")
        self._wait("")

    def _wait(self, retry_after: str) -> None:
        """Send nothing for the time that the agent asks for, or else for a longer time after each failure."""
        self._misses += 1
        # A little less than whole intervals, so that the report at their end is not too early.
        seconds = min(self._every * (2.0 ** min(self._misses - 1, 16) - 0.1), LONGEST_WAIT)
        if retry_after.isdecimal() and len(retry_after) < 10:
            seconds = min(float(retry_after), LONGEST_RETRY_AFTER)
        self._quiet_until = time.monotonic() + seconds


def refusal(parsed: Mapping[str, object]) -> tuple[str, str]:
    """The kind of a refusal, and the agent's own words."""
    detail = parsed.get("detail")
    reasons = [one for one in detail if isinstance(one, dict)] if isinstance(detail, list) else []
    if not reasons:
        return "", str(detail or "it gives no reason")[:1000]
    kinds = [str(one.get("type", "")) for one in reasons]
    return " ".join(kinds), "; ".join(_words(one) for one in reasons)[:1000]


def _words(reason: Mapping[str, object]) -> str:
    where = reason.get("loc")
    field = ".".join(str(part) for part in where[1:]) if isinstance(where, list) else ""
    text = str(reason.get("msg", "it gives no reason"))
    return f"{field}: {text}" if field else text
