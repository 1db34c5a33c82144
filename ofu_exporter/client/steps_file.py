"""Keeps in a file of the job's own how far its steps have come, for a run of it that goes on on other nodes.

An agent knows only what was reported to it. `OFU_EXPORTER_STEPS_FILE` names a file on a disk that all nodes have.
"""

from __future__ import annotations

import glob
import json
import os
import stat
import time
from contextlib import suppress
from functools import partial
from typing import Any

from ofu_exporter.client.identity import LONGEST_RUN, without_waiting
from ofu_exporter.client.slow_disk import SlowDisk

MOST_BYTES = 64 << 10
MOST_RUNS = 16
"""Most runs, such as stages, whose steps are kept; of more, those that went on last."""
STEPS = 1 << 53
"""Every step is below this."""
BEGIN_SECONDS = 5.0
"""How long the first report waits for what earlier runs had reached: agents want to know it before the first step."""
FAR = 100
"""A run that came more than this many times further at one step than up to the one after it was mistaken in it."""
LEFT_SECONDS = 86400.0
"""A file beside it that nobody has written to for longer was left by a run that was killed."""
LATEST = 1e11
"""Unix time; in the year 5138."""


_Reached = tuple[int, float]
"""A step, and when it was reached, in Unix time."""


def line_of(run: str, job_id: str) -> str:
    """What the steps of a run are kept under: jobs that state no run may have one file, and go on only as themselves.

    The pods of a Kubernetes job have an id each, so there the file alone tells the job.
    """
    return run or ("" if "/" in job_id else job_id)


class StepsFile:
    """The file, which may not exist. A thread that may wait a moment calls it, not the training loop."""

    def __init__(self, path: str | None = None) -> None:
        """Default: what the environment names, which may be no file."""
        self._path = os.environ.get("OFU_EXPORTER_STEPS_FILE", "") if path is None else path
        self._disk = SlowDisk()
        self._before: dict[str, _Reached] | None = None if self._path else {}
        self._raised = "", -1, -1
        """The run whose step was written here last, from which step on and up to which."""

    def begin(self) -> dict[str, _Reached]:
        """Read, once, what earlier runs had reached: before the first step, which other nodes may write first."""
        if self._before is None:
            with suppress(OSError):
                self._disk.ask(self._read_before, BEGIN_SECONDS)
        return self._before or {}

    def _read_before(self) -> None:
        before: dict[str, _Reached] = {}
        with suppress(OSError):
            before = self._read()
        self._before = before
        self._sweep()

    def _sweep(self) -> None:
        """Delete what runs have left that were killed while they wrote."""
        for path in glob.iglob(f"{glob.escape(self._path)}.{'[0-9a-f]' * 12}"):
            with suppress(OSError):
                if os.lstat(path).st_mtime < time.time() - LEFT_SECONDS:
                    os.unlink(path)

    def reached(self, run: str) -> dict[str, float]:
        """What a report says of the steps that a run had reached before this one; empty where nobody knows of any."""
        step, at = self.begin().get(run, (None, 0.0))
        return {} if step is None else {"reached": step, "reached_at": at}

    def keep(self, run: str, step: int | None) -> None:
        """Write a step that is higher than what is kept of its run.

        Raises OSError, also where the disk does not answer, which does not end the call, and where the path leads to
        anything else, such as a checkpoint: that is never replaced.
        """
        self.begin()
        if self._path and step is not None and 0 <= step < STEPS and len(run) <= LONGEST_RUN:
            self._disk.ask(partial(self._raise_to, run, step))

    def _raise_to(self, run: str, step: int) -> None:
        runs = self._read()
        highest, _ = runs.pop(run, (-1, 0.0))
        if step > highest or self._is_mistaken(run, highest, step):
            self._raised = run, min(step, highest), step
            latest = [*runs.items(), (run, (step, time.time()))][-MOST_RUNS:]
            self._write(json.dumps(dict(latest)))

    def _is_mistaken(self, run: str, highest: int, step: int) -> bool:
        """Whether the last step here was far too high: else all of the next run's would seem to be done again."""
        of_run, before, last = self._raised
        is_here = (of_run, last) == (run, highest) and before < step
        return is_here and highest - before > FAR * (step - before)

    def _write(self, content: str) -> None:
        temporary = f"{self._path}.{os.urandom(6).hex()}"
        try:
            with open(temporary, "x", encoding="utf-8") as file:
                file.write(content)
            os.replace(temporary, self._path)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def _read(self) -> dict[str, _Reached]:
        try:
            with open(self._path, "rb", opener=without_waiting) as file:
                is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                content: Any = json.loads(file.read(MOST_BYTES) or b"{}") if is_file else None
            return {run: _reached(run, one) for run, one in content.items()}
        except FileNotFoundError:
            pass
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise OSError(f"{self._path} is something else, and stays as it is") from None
        return {}


def _reached(run: str, value: tuple[int, float]) -> _Reached:
    """What was kept of a run. Raises ValueError and TypeError for what was not written here."""
    step, at = value
    is_ours = type(step) is int and type(at) is float and len(run) <= LONGEST_RUN
    if not is_ours or not 0 <= step < STEPS or not 0 < at < LATEST:
        raise ValueError("not a step and its time")
    return step, at
