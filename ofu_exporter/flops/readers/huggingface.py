"""Reads the lines of Hugging Face's Trainer: `{'loss': 1.2, ..., 'epoch': 0.1, 'num_input_tokens_seen': 696000}`.

transformers `trainer_callback.py`, with include_num_input_tokens_seen; axolotl (2026-07) has `tokens/total` by itself,
padding included. A line is about the time since the line before; it has a step with ms-swift alone
(`trainers/patcher.py`). Tokens need FLOPs of a token, or a model; the callback needs neither and has the steps. A line
with `'eval_runtime': 12.3` ends an evaluation. A script prints the results once more: a second one that took as long,
with no line of the training between, is the same.
"""

from __future__ import annotations

import math
import re

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.log_lines import quantity
from ofu_exporter.flops.statements import JobFacts, Statement, number

_SIGNS = ("{'loss': ", "'epoch': ")
_TOKENS = quantity(r"'(?:num_input_tokens_seen|tokens/total)': '?([\d.e+]+)", "tokens")
_STEP = re.compile(r"'global_step/max_steps': '(\d+)/")
_DATA_SET = re.compile(r"'(eval_(?:\w+_)?runtime)'")
_EVALUATED = quantity(r"'eval_(?:\w+_)?runtime': '?([\d.e+-]+)", "eval_runtime")
_ROUNDING = 1e-3
"""Four digits, as the Trainer of transformers 5 prints what its script has in full."""
_ADVICE = (
    "a line of Hugging Face's Trainer has neither FLOPs nor a step: use OfuCallback, "
    "or set include_num_input_tokens_seen"
)


class Follower:
    """Makes the difference between two lines."""

    def __init__(self, _job: JobFacts) -> None:
        self._tokens: float | None = None
        self._evaluations: dict[str, float] = {}
        """Seconds of those since the last line of the training, by data set."""

    def line(self, line: str) -> Statement | None:
        """The tokens since the line before; the first line, and one after a restart, only mark a beginning."""
        if not all(sign in line for sign in _SIGNS):
            return self._evaluation(line) if "'eval_" in line else None
        self._evaluations.clear()
        tokens, step = _TOKENS.of(line), _STEP.search(line)
        at = None if step is None else int(number(step[1], "global_step"))
        if tokens is None and at is None:
            raise ConfigError(_ADVICE)
        before, self._tokens = self._tokens, tokens
        if tokens is None or before is None or tokens < before:
            return Statement(at)
        return Statement(at, tokens=tokens - before)

    def _evaluation(self, line: str) -> Statement | None:
        data_set, seconds = _DATA_SET.search(line), _EVALUATED.of(line)
        if data_set is None or seconds is None:
            return None
        before = self._evaluations.get(data_set[1], math.nan)
        self._evaluations[data_set[1]] = seconds
        is_again = math.isclose(seconds, before, rel_tol=_ROUNDING)
        return None if is_again else Statement(seconds=seconds, event="evaluation")
