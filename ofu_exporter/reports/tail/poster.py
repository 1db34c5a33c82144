"""Posts the reports of a log one after the other, and passes the agent's answers on.

Unlike a training loop, `tail` may wait, so no report is dropped because the last one is still being sent.
"""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ofu_exporter.client.channel import AgentAnswer, Channel
from ofu_exporter.client.identity import Token
from ofu_exporter.client.intervals import Call, IntervalReport, Intervals, NotUsable
from ofu_exporter.client.sender import refusal
from ofu_exporter.client.steps_file import StepsFile, line_of
from ofu_exporter.values import quantities

EVERY_SECONDS = 10.0
"""Shorter reports are averaged to one of about this length."""
LONGEST_RETRY_AFTER = 60.0
"""Longest wait, in seconds, for an agent that has too much to do."""


class Poster:
    """Sends to one agent. `counts` has accepted, refused, failed, unsendable and too_short."""

    def __init__(
        self,
        channel: Channel,
        token: Token,
        facts: Mapping[str, object],
        on_answer: Callable[[dict[str, Any]], None],
        say: Callable[[str], None],
    ) -> None:
        """`facts` are part of every report. `on_answer` gets each answer of an accepted report with a rate, `say` each
        kind of problem once."""
        self._channel = channel
        self._token = token
        self.facts = dict(facts)
        """What is sent with every report."""
        self._on_answer = on_answer
        self._say = say
        self._intervals = Intervals(EVERY_SECONDS)
        self._steps = StepsFile()
        self._steps.begin()
        self._troubles: set[tuple[object, ...]] = set()
        self.counts: Counter[str] = Counter()

    def take(self, stated: Call | IntervalReport) -> None:
        """Average what was stated with that before it, and post the mean when it is long enough; an event at once."""
        if isinstance(stated, IntervalReport):
            for each in (*self._intervals.take_rest(), stated):
                self._post(each)
            return
        try:
            ready = self._intervals.add(stated)
        except NotUsable as error:
            self._trouble("unsendable", str(error))
            return
        for each in ready:
            self._post(each)

    def close(self) -> None:
        for each in self._intervals.take_rest():
            self._post(each)
        if self._intervals.dropped:
            self.counts["too_short"] = self._intervals.dropped
        self._channel.close()

    def _post(self, report: IntervalReport) -> None:
        body = {**self.facts, **report.fields()}
        if "mfu" in report.values:
            # The framework defines it as a ratio, so even a large value is not a percentage.
            body["mfu"] = quantities.written(report.values["mfu"])
        if "tokens_per_second" not in report.values:
            body.pop("flops_per_token", None)
        run = line_of(str(body.get("run") or ""), str(body.get("job_id") or ""))
        reached = self._steps.reached(run) if report.step is not None else {}
        content = json.dumps({**body, **reached}).encode()
        try:
            self._steps.keep(run, report.step)
        except OSError as error:
            if ("steps",) not in self._troubles:
                self._troubles.add(("steps",))
                self._say(f"OFU_EXPORTER_STEPS_FILE is not written: {error}")
        try:
            answer = self._channel.post(content, self._token.value)
            if answer.status == 429:
                time.sleep(_pause(answer))
                answer = self._channel.post(content, self._token.value)
            if answer.status in (401, 403) and self._token.reread():
                answer = self._channel.post(content, self._token.value)
        except (OSError, http.client.HTTPException, ValueError) as error:
            where, why = self._channel.where, str(error) or type(error).__name__
            self._trouble("failed", f"no answer from {where} ({why})")
            return
        self._judge(answer, bool(report.values))

    def _judge(self, answer: AgentAnswer, is_compared: bool) -> None:
        parsed = answer.json_object()
        if answer.status == 200 and parsed is not None:
            self.counts["accepted"] += 1
            if is_compared:
                self._on_answer(parsed)
        elif 400 <= answer.status < 500:
            kind, words = refusal(parsed or {})
            self._trouble("refused", f"status {answer.status}: {words}", (answer.status, kind))
        else:
            self._trouble(
                "failed", f"{self._channel.where} answers {answer.status}: is this the agent?"
            )

    def _trouble(self, outcome: str, detail: str, kind: tuple[object, ...] = ()) -> None:
        self.counts[outcome] += 1
        if (outcome, *kind) not in self._troubles:
            self._troubles.add((outcome, *kind))
            self._say(f"{outcome}: {detail}; further ones are counted")


def _pause(answer: AgentAnswer) -> float:
    seconds = answer.retry_after
    return min(float(seconds), LONGEST_RETRY_AFTER) if seconds.isdecimal() else 1.0
