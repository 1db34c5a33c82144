"""Reads slime's log: `perf 12: {'perf/actor_train_time': 30.0, 'perf/actor_train_tflops': 400.0, ...}`.

slime `train_metric_utils.py` (miles writes the same). Each part's TFLOP/s are over its own seconds; they are
spread over the whole step. Generation is not counted, so OFU is above MFU by what it computes.
"""

from __future__ import annotations

import math
import re
from functools import partial

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.log_lines import LineFollower
from ofu_exporter.flops.statements import JobFacts, Statement, number, with_rate

_PERF = re.compile(r"\bperf (\d+): \{")
_VALUE = re.compile(r"'perf/(\w+)':\s*(?:np\.\w+\()?([^\s,)}]+)")
_PARTS = ("actor_train", "log_probs", "ref_log_probs")


def _line(line: str, job: JobFacts) -> Statement | None:
    step = _PERF.search(line)
    values = dict(_VALUE.findall(line)) if step else {}
    if step is None or "actor_train_tflops" not in values:
        return None
    numbers = {name: number(text, f"perf/{name}") for name, text in values.items() if _used(name)}
    seconds = numbers.get("step_time") or numbers.get("total_train_time")
    if not seconds:
        raise ConfigError("slime step: `perf/step_time` is missing or 0")
    flops = math.fsum(
        1e12 * numbers.get(f"{part}_tflops", 0.0) * numbers.get(f"{part}_time", 0.0)
        for part in _PARTS
    )
    one = Statement(int(number(step[1], "step")), flops=flops, seconds=seconds)
    return with_rate(one, flops / seconds, job)


def _used(name: str) -> bool:
    return name in ("step_time", "total_train_time") or name.startswith(_PARTS)


Follower = partial(LineFollower, _line)
