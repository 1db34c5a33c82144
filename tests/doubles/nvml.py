"""Builds the stand-in for libnvidia-ml.so.1 (nvml.c) and writes the scenarios that it plays."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from tests.doubles import native

SONAME = "libnvidia-ml.so.1"
SCENARIO_VARIABLE = "OFU_TEST_NVML_SCENARIO"
SOURCE = Path(__file__).with_suffix(".c")
Value = str | int | float | Sequence[int | float]


def build(hidden: str = "") -> Path:
    """The compiled library, without the functions that `hidden` matches."""
    return native.build(SOURCE, SONAME, hidden)


def load() -> ctypes.CDLL:
    """The library in this process, where pynvml finds it."""
    return native.load(build())


class Scenario:
    """The file that tells the library what to be; nvml.c says what may stand in it.

    The file is a log that only grows: what is set later overrides what was set before.
    """

    def __init__(self, path: Path, gpus: int = 1) -> None:
        self.path = path
        path.write_text("", encoding="utf-8")
        self._add(*(f"gpu {index}" for index in range(gpus)))

    def driver(self, version: str) -> None:
        self._add(f"driver {version}")

    def at(self, seconds: float) -> None:
        """Set the library's clock; without this it runs with the real time."""
        self._add(f"time {seconds!r}")

    def gpu(self, index: int, **settings: Value) -> None:
        """What holds for this GPU from here on."""
        lines = [f"gpu {index} {name} {_words(value)}" for name, value in settings.items()]
        self._add(f"gpu {index}", *lines)

    def instance(
        self,
        gpu: int,
        id_: int,
        profile: str,
        sms: int,
        parts: int = 1,
        slices: int = 8,
        tensor: float = 0.0,
    ) -> None:
        """Make a GPU instance, whose compute instances fill some of its 8 slices."""
        self._add(
            f"gpu {gpu} instance {id_} {profile} {sms} {parts} {slices}",
            f"gpu {gpu} instance {id_} tensor {tensor!r}",
        )

    def instance_gone(self, gpu: int, id_: int) -> None:
        """Destroy a GPU instance."""
        self._add(f"gpu {gpu} instance {id_} gone")

    def instance_code(self, gpu: int, id_: int, code: int) -> None:
        """What the samples of an instance answer; 0 = they succeed."""
        self._add(f"gpu {gpu} instance {id_} code {code}")

    def unloaded(self, code: int) -> None:
        """Take the driver away: every call answers so; 0 brings it back."""
        self._add(f"unloaded {code}")

    def error(self, call: str, code: int, gpu: int | None = None) -> None:
        """Make a call fail, on one GPU or altogether; code 0 ends that."""
        self._add(f"error {call} {code}" if gpu is None else f"gpu {gpu} error {call} {code}")

    def metric_error(self, gpu: int, metric: int, code: int) -> None:
        """Give one GPM metric a return code; code 0 ends that."""
        self._add(f"gpu {gpu} metric_error {metric} {code}")

    def is_held_by(self, pid: int) -> bool:
        """Whether a process has the driver's file open, as the library does until it is shut down."""
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.readlink(each) == f"{self.path}.device":
                    return True
        return False

    def environment(self, hidden: str = "") -> dict[str, str]:
        """What a new process needs in its environment to find the library and this file.

        The library lacks the functions that `hidden` matches.
        """
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(build(hidden).parent),
            SCENARIO_VARIABLE: str(self.path),
        }

    def _add(self, *lines: str) -> None:
        """Whole lines at once: the library never sees half of one."""
        with self.path.open("ab", buffering=0) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())


def _words(value: Value) -> str:
    if isinstance(value, str):
        return value
    numbers = value if isinstance(value, Sequence) else [value]
    return " ".join(repr(number) for number in numbers)
