"""Keeps in a file of the job's own how far its steps have come, for a run of it that goes on on other nodes.

An agent knows only what was reported to it. `OFU_EXPORTER_STEPS_FILE` names a file on a disk that all nodes have.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress

from ofu_exporter.client.identity import without_waiting

MOST_BYTES = 64 << 10
MOST_RUNS = 16
"""Most runs, such as stages, whose steps are kept; of more, those that went on last."""
STEPS = 1 << 53
"""Every step is below this."""
LATEST = 1e11
"""Unix time; in the year 5138."""


_Reached = tuple[int, float]
"""A step, and when it was reached, in Unix time."""


class StepsFile:
    """The file, which may not exist. A thread that may wait for its disk calls it, not the training loop."""

    def __init__(self, path: str | None = None) -> None:
        """Default: what the environment names, which may be no file."""
        self._path = os.environ.get("OFU_EXPORTER_STEPS_FILE", "") if path is None else path
        self._before: dict[str, _Reached] | None = None

    def reached(self, run: str) -> dict[str, float]:
        """What a report says of the steps that a run had reached by the first call; empty where nobody knows of any."""
        if self._before is None:
            self._before = self._read()
        step, at = self._before.get(run, (None, 0.0))
        return {} if step is None else {"reached": step, "reached_at": at}

    def keep(self, run: str, step: int | None) -> None:
        """Write a step that is higher than what is kept of its run. Raises OSError."""
        self.reached(run)
        if not self._path or step is None or not 0 <= step < STEPS:
            return
        kept = self._read()
        if step > kept.pop(run, (-1, 0.0))[0]:
            kept = dict([*kept.items(), (run, (step, time.time()))][-MOST_RUNS:])
            temporary = f"{self._path}.{socket.gethostname()}.{os.getpid()}"
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(kept, file)
            os.replace(temporary, self._path)

    def _read(self) -> dict[str, _Reached]:
        with suppress(OSError, ValueError, RecursionError):
            if self._path:
                with open(self._path, "rb", opener=without_waiting) as file:
                    content = json.loads(file.read(MOST_BYTES) or b"null")
                if isinstance(content, dict):
                    return {run: (one[0], one[1]) for run, one in content.items() if _is_ours(one)}
        return {}


def _is_ours(value: object) -> bool:
    if not isinstance(value, list) or [type(each) for each in value] != [int, float]:
        return False
    step, at = value
    return bool(0 <= step < STEPS and 0 < at < LATEST)
