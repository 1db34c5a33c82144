"""Reads Composer's console, also of llm-foundry: `[batch=5/4800]:`, and below it values as `Train time/batch: 4`.

Composer 0.32 `loggers/console_logger.py` and `callbacks/speed_monitor.py`. Rates are means over a window of many steps:
those per sample are taken, times the samples since the block before, for the time since then. Models of llm-foundry's
own (MPT) count FLOPs; those of Hugging Face do not, and tokens are stated. The MFU is not taken: it divides by
Composer's own table of peaks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

from ofu_exporter.flops.statements import JobFacts, Statement, number, with_rate

_BLOCK = re.compile(r"\[(?:epoch=\d+\]\[)?[a-z]+=\d+(?:/\d+)?\]:\s*$")
_EVALUATION = "[Eval batch="
_STEPS, _STEPS_OF_EPOCH = "time/batch", "time/batch_in_epoch"
_SAMPLES, _TOKENS = "time/sample", "time/token"
"""All four are from before the last step of a block; those of the last block may be from after it, if an epoch ends."""
_SAMPLE_RATE, _FLOPS_RATE = "throughput/samples_per_sec", "throughput/device/flops_per_sec"
_ENDS = (_FLOPS_RATE, "time/total")
"""The last values of interest in a block; without the first, the second is there."""
_NAMES = (_STEPS, _STEPS_OF_EPOCH, _SAMPLES, _TOKENS, _SAMPLE_RATE, *_ENDS)
_VALUE = re.compile(rf"\bTrain ({'|'.join(_NAMES)}): (\S+)")


class Follower:
    """Gathers the values of a block, and remembers those of the block before."""

    def __init__(self, job: JobFacts) -> None:
        self._job = job
        self._values: dict[str, float] | None = None
        self._before: Mapping[str, float] = {}

    def line(self, line: str) -> Statement | None:
        """The statement of a block. The first one, and one after an evaluation, only marks a beginning."""
        if _BLOCK.search(line):
            self._values = {}
        elif _EVALUATION in line:
            self._before = {}
        elif self._values is not None and (value := _VALUE.search(line)):
            self._values[value[1]] = number(value[2], value[1])
            if value[1] in _ENDS:
                values, self._values = self._values, None
                return self._block(values)
        return None

    def _block(self, now: Mapping[str, float]) -> Statement | None:
        if not {_STEPS, _STEPS_OF_EPOCH, _SAMPLES} <= now.keys():
            return None
        if now[_STEPS] and not now[_STEPS_OF_EPOCH]:
            return None  # from before or after the step: the next block is about it, too
        if now[_SAMPLES] == self._before.get(_SAMPLES):
            return None  # another rank's
        before, self._before = self._before, now
        one = Statement(int(now[_STEPS]) + 1)
        samples, tokens = (
            now.get(name, 0.0) - before.get(name, math.inf) for name in (_SAMPLES, _TOKENS)
        )
        if samples < 0 or not now.get(_SAMPLE_RATE):
            return one
        rate = now.get(_FLOPS_RATE)
        if rate is None:
            return replace(one, tokens=tokens) if tokens > 0 else one
        flops = rate / now[_SAMPLE_RATE] * samples
        return with_rate(replace(one, flops=flops), rate, self._job)
