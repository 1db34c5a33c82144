"""Reads NeMo-RL's console: `=== Step 5/100 ===`, `Training FLOPS: 6400 TFLOPS (400 TFLOPS per rank)` and its timing.

NeMo-RL `algorithms/sft.py` and others; GRPO prints the FLOPS last since 2025-09. They are those of the training phase
over its own seconds (`policy_training`), and are spread over `Total step time`. Generation and log-probabilities are
not counted, so OFU is above MFU by what they compute.
"""

from __future__ import annotations

import re

from ofu_exporter.flops.log_lines import quantity
from ofu_exporter.flops.statements import JobFacts, Statement, number, with_rate

_STEP = re.compile(r"(?<!=)={5,} Step (\d+)/\d+ ={5,}")
_TOTAL = quantity(r"\bTraining FLOPS:\s*([\d.]+) TFLOPS", "Training FLOPS", 1e12)
_OF_RANK = quantity(r"\(([\d.]+) TFLOPS per rank\)", "TFLOPS per rank", 1e12)
_STEP_SECONDS = quantity(r"\bTotal step time:\s*([\d.]+)s", "Total step time")
_TRAINING_SECONDS = quantity(r"\bpolicy_training:\s*([\d.]+)s", "policy_training")


class Follower:
    """Gathers the lines of a step until its rate and both of its times are there."""

    def __init__(self, job: JobFacts) -> None:
        self._job = job
        self._step: int | None = None
        self._rate: float | None = None
        self._seconds: float | None = None
        self._training_seconds: float | None = None

    def line(self, line: str) -> Statement | None:
        if step := _STEP.search(line):
            done, self._step = self._step, int(number(step[1], "step"))
            self._rate = self._seconds = self._training_seconds = None
            return None if done is None else Statement(done)
        world, rate = self._job.world_size, _OF_RANK.of(line)
        if rate is not None:
            self._rate = (_TOTAL.of(line) or 0.0) / world if world else rate
        self._seconds = _STEP_SECONDS.of(line) or self._seconds
        self._training_seconds = _TRAINING_SECONDS.of(line) or self._training_seconds
        return self._complete()

    def _complete(self) -> Statement | None:
        if self._rate is None or not self._seconds or not self._training_seconds:
            return None
        flops, seconds = self._rate * self._training_seconds, self._seconds
        one = Statement(self._step, flops=flops, seconds=seconds)
        self._step = self._rate = self._seconds = self._training_seconds = None
        return with_rate(one, flops / seconds, self._job)
