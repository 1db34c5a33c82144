"""Builds the stand-in for libdcgm.so.4 (dcgm.c) and writes the scenarios that it plays."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from tests.doubles import native

SONAME = "libdcgm.so.4"
SCENARIO_VARIABLE = "OFU_TEST_DCGM_SCENARIO"
SOURCE = Path(__file__).with_suffix(".c")

Value = str | int | float | Sequence[int | float]


def build() -> Path:
    """The compiled library."""
    return native.build(SOURCE, SONAME)


def load() -> ctypes.CDLL:
    """The library in this process, where the binding finds it."""
    return native.load(build())


class Scenario:
    """The file that tells the library what to be; dcgm.c says what may stand in it.

    The file is a log that only grows: each line is taken in once, at the call that follows it.
    """

    def __init__(self, path: Path, gpus: int = 1) -> None:
        self.path = path
        path.write_text("", encoding="utf-8")
        self.add(*(f"gpu {index}" for index in range(gpus)))

    def add(self, *lines: str) -> None:
        """Whole lines at once: the library never sees half of one."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def at(self, unix: float) -> None:
        """Let time pass until there; without this the library runs with the real time."""
        self.add(f"time {unix:.6f}")

    def gpu(self, index: int, **settings: Value) -> None:
        """What holds for this GPU from here on."""
        lines = [f"gpu {index} {name} {_words(value)}" for name, value in settings.items()]
        self.add(f"gpu {index}", *lines)

    def instance(self, gpu: int, instance: int, profile: str = "1g.10gb") -> None:
        """Make a GPU instance, with one compute instance."""
        uuid = f"MIG-00000000-0000-0000-{gpu:04d}-{instance:012d}"
        self.add(f"gpu {gpu} mig 1", f"instance {gpu} {instance} {profile} {uuid}")

    def set_instance(self, gpu: int, instance: int, setting: str) -> None:
        """`tensor RATIO`, `compute 0` or `gone`."""
        self.add(f"instance {gpu} {instance} {setting}")

    def error(self, call: str, code: int, gpu: int | None = None) -> None:
        """Make a call fail, about one GPU or altogether; code 0 ends that."""
        self.add(f"error {call} {code}" if gpu is None else f"gpu {gpu} error {call} {code}")

    def environment(self) -> dict[str, str]:
        """What a new process needs in its environment to find the library and this file."""
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(build().parent),
            SCENARIO_VARIABLE: str(self.path),
        }


def _words(value: Value) -> str:
    if isinstance(value, str):
        return value
    numbers = value if isinstance(value, Sequence) else [value]
    return " ".join(repr(number) for number in numbers)
