"""Reads litgpt's console: `Epoch 1 | iter 50 step 12 | loss train: 2.3, ... | iter time: 250.00 ms (step)`.

The console has steps alone. `metrics.csv` of the same run has FLOPs: the reader `lightning` reads it.
"""

from __future__ import annotations

import re
from functools import partial

from ofu_exporter.flops.log_lines import LineFollower, LineForm, read_lines

_STEP = LineForm(re.compile(r"\bEpoch \d+ \| iter \d+ step (\d+) \|"), also="iter time:")

read = partial(
    read_lines, _STEP.statement, "FLOPs, which litgpt's console never has (metrics.csv does)"
)
Follower = partial(LineFollower, _STEP.statement)
