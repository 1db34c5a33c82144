"""Reads torchtune's loggers of files and of standard output: `Step 12 | loss:1.2 ... tokens_per_second_per_gpu:7250`.

torchtune `training/metric_logging.py` and its recipes. It states tokens that have a label, summed over all ranks and
divided by the world size, although ranks that share tensors have the same ones: the data-parallel size makes them those
of the job, the world size where it is not known.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

from ofu_exporter.flops.log_lines import LineFollower, LineForm, quantity
from ofu_exporter.flops.statements import JobFacts, Statement

_STEP = LineForm(re.compile(r"\bStep (\d+) \| "), also="loss:")
_TOKENS = quantity(r"\btokens_per_second_per_gpu:\s*([^\s]+)", "tokens_per_second_per_gpu")


def _line(line: str, job: JobFacts) -> Statement | None:
    one, tokens = _STEP.statement(line, job), _TOKENS.of(line)
    ranks = job.data_parallel_size or job.world_size
    if one is None or tokens is None or ranks is None:
        return one
    return replace(one, tokens_per_second=tokens * ranks)


Follower = partial(LineFollower, _line)
