"""Notes what was sent, so that a repeated run sends nothing twice.

One line is written before a digest is sent, and one after. If the second is missing, the program was interrupted in
between. Then it is not known whether the digest arrived, and it is not sent again.
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
    """The key of a digest that is sent only once: by whom, how, about whom and to whom."""

    by: str
    via: str
    name: str
    to: str


class SentFile:
    """The file of notes, which only one run at a time may use."""

    def __init__(self, path: Path, end: float, same_within: float) -> None:
        """Two digests whose times end within `same_within` seconds of each other are the same. Raises ConfigError."""
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
            raise ConfigError(f"--sent: {path}: another run is sending now") from error
        except (OSError, ConfigError):
            self.close()
            raise

    def close(self) -> None:
        os.close(self._file)

    def state(self, key: SentKey) -> State | None:
        """What the notes say about this digest to this address; None if they say nothing."""
        return self._states.get(key)

    def note(self, key: SentKey, state: State) -> None:
        """Write a line and sync it to disk. Raises ConfigError if that fails."""
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
        )  # cut while it was written: its step was not done yet, or is not known
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
                f"--sent: {self._path}, line {number}: is not a note of this program"
            ) from error
        if abs(end - self._end) < self._same_within:
            found[key] = state
