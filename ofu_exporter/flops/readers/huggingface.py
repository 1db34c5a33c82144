"""Reads the lines of Hugging Face's Trainer: `{'loss': 1.2, ..., 'epoch': 0.1, 'num_input_tokens_seen': 696000}`.

transformers `trainer_callback.py`, with include_num_input_tokens_seen. A line is about the time since the line before;
it has no step, but with ms-swift (`trainers/patcher.py`). Tokens need FLOPs of a token, or a model; the callback needs
neither and has the steps. A line with `'eval_runtime': 12.3` ends an evaluation.
"""

from __future__ import annotations

import re

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.log_lines import quantity
from ofu_exporter.flops.statements import JobFacts, Statement, number

_SIGNS = ("{'loss': ", "'epoch': ")
_TOKENS = quantity(r"'num_input_tokens_seen': '?([\d.e+]+)", "num_input_tokens_seen")
_STEP = re.compile(r"'global_step/max_steps': '(\d+)/")
_EVALUATED = quantity(r"'eval_(?:\w+_)?runtime': '?([\d.e+-]+)", "eval_runtime")
_ADVICE = (
    "a line of Hugging Face's Trainer has neither FLOPs nor a step: use OfuCallback, "
    "or set include_num_input_tokens_seen"
)


class Follower:
    """Makes the difference between two lines."""

    def __init__(self, _job: JobFacts) -> None:
        self._tokens: float | None = None

    def line(self, line: str) -> Statement | None:
        """The tokens since the line before; the first line, and one after a restart, only mark a beginning."""
        if not all(sign in line for sign in _SIGNS):
            seconds = _EVALUATED.of(line) if "'eval_" in line else None
            return None if seconds is None else Statement(seconds=seconds, event="evaluation")
        tokens, step = _TOKENS.of(line), _STEP.search(line)
        at = None if step is None else int(number(step[1], "global_step"))
        if tokens is None and at is None:
            raise ConfigError(_ADVICE)
        before, self._tokens = self._tokens, tokens
        if tokens is None or before is None or tokens < before:
            return Statement(at)
        return Statement(at, tokens=tokens - before)
