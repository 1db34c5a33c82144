"""Notes what went out, so that a run that is repeated sends nothing twice.

A line is written before a digest is sent, and one after. Where the second is missing, the program was cut off in
between: whether the digest arrived is not known, and it is not sent again.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from pathlib import Path
from typing import Literal, NamedTuple

from ofu_exporter.errors import ConfigError

MOST_BYTES = 256 << 20
State = Literal["begun", "sent", "refused"]


class SentKey(NamedTuple):
    """What is sent once: by whom, how, about whom and to whom."""

    by: str
    via: str
    name: str
    to: str


class SentFile:
    """One file, which one run at a time has."""

    def __init__(self, path: Path, end: float, same_within: float) -> None:
        """A digest whose time ends within `same_within` seconds of another's is that one. Raises ConfigError."""
        self._path = path
        self._end = end
        self._same_within = same_within
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"--sent: {path}: {error.strerror or error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._states = self._read()
        except BlockingIOError as error:
            self.close()
            raise ConfigError(f"--sent: {path}: another run sends just now") from error
        except (OSError, ConfigError):
            self.close()
            raise

    def close(self) -> None:
        os.close(self._file)

    def state(self, key: SentKey) -> State | None:
        """What the notes say of this digest to this address; None where they say nothing."""
        return self._states.get(key)

    def note(self, key: SentKey, state: State) -> None:
        """Write a line that stays, whatever happens next. Raises ConfigError where that fails."""
        line = json.dumps({**key._asdict(), "end": self._end, "state": state})
        try:
            content = f"{line}\n".encode()
            if os.write(self._file, content) != len(content):
                raise OSError("no more room")
            os.fsync(self._file)
        except OSError as error:
            raise ConfigError(f"--sent: {self._path}: {error.strerror or error}") from error
        self._states[key] = state

    def _read(self) -> dict[SentKey, State]:
        status = os.fstat(self._file)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"--sent: {self._path} is not a file")
        if status.st_size > MOST_BYTES:
            raise ConfigError(f"--sent: {self._path} is larger than {MOST_BYTES >> 20} MiB")
        found: dict[SentKey, State] = {}
        content = self._path.read_bytes()
        lines = content.split(b"\n")
        cut_off = (
            lines.pop()
        )  # while it was written: what it says was not done yet, or is not known
        if cut_off:
            os.ftruncate(self._file, len(content) - len(cut_off))
        for number, line in enumerate(lines, start=1):
            self._take(found, line, number)
        return found

    def _take(self, found: dict[SentKey, State], line: bytes, number: int) -> None:
        if not line:
            return
        try:
            noted = json.loads(line)
            key = SentKey(*(str(noted[name]) for name in SentKey._fields))
            end, state = float(noted["end"]), noted["state"]
            if state not in ("begun", "sent", "refused"):
                raise ValueError(state)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"--sent: {self._path}, line {number}: is no note of this program"
            ) from error
        if abs(end - self._end) < self._same_within:
            found[key] = state
