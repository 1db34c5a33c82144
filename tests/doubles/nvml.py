"""Builds the stand-in for libnvidia-ml.so.1 (nvml.c) and writes the scenarios that it plays."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

SONAME = "libnvidia-ml.so.1"
SCENARIO_VARIABLE = "OFU_TEST_NVML_SCENARIO"
SOURCE = Path(__file__).with_suffix(".c")
FLAGS = (
    *("-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-pthread"),
    f"-Wl,-soname,{SONAME}",
)

Value = str | int | float | Sequence[int | float]


@functools.cache
def build() -> Path:
    """The compiled library, compiled once for each content of its source."""
    digest = hashlib.sha256(SOURCE.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"ofu-exporter-test-{os.getuid()}" / f"nvml-{digest}"
    library = folder / SONAME
    if library.exists():
        return library
    compiler = shutil.which("cc")
    if compiler is None:
        raise RuntimeError("these tests need the C compiler `cc`: apt-get install gcc libc6-dev")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Test processes may do this at once: each compiles its own, and the last rename wins.
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fresh = Path(scratch) / SONAME
        done = subprocess.run(
            [compiler, *FLAGS, "-o", str(fresh), str(SOURCE)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{SOURCE} does not compile:\n{done.stderr}")
        fresh.replace(library)
    return library


@functools.cache
def load() -> ctypes.CDLL:
    """Load the library into this process, where pynvml finds it by its name.

    LD_LIBRARY_PATH is read only when a process starts; a library that is already loaded under the
    name is found in any case. It stays for the life of the process.
    """
    library = ctypes.CDLL(str(build()))
    if ctypes.CDLL(SONAME)._handle != library._handle:
        raise RuntimeError(f"another {SONAME} is loaded already: run this test in its own process")
    return library


class Scenario:
    """The file that tells the library what to be; nvml.c says what may stand in it.

    The file is a log: what is set later overrides what was set before.
    """

    def __init__(self, path: Path, gpus: int = 1) -> None:
        self.path = path
        self._lines = [f"gpu {index}" for index in range(gpus)]
        self._write()

    def driver(self, version: str) -> None:
        self._add(f"driver {version}")

    def at(self, seconds: float) -> None:
        """Set the library's clock; without this it runs with the real time."""
        self._add(f"time {seconds!r}")

    def gpu(self, index: int, **settings: Value) -> None:
        """What holds for this GPU from here on."""
        lines = [f"gpu {index} {name} {_words(value)}" for name, value in settings.items()]
        self._add(f"gpu {index}", *lines)

    def error(self, call: str, code: int, gpu: int | None = None) -> None:
        """Make a call fail, on one GPU or altogether; code 0 ends that."""
        self._add(f"error {call} {code}" if gpu is None else f"gpu {gpu} error {call} {code}")

    def metric_error(self, gpu: int, metric: int, code: int) -> None:
        """Give one GPM metric a return code; code 0 ends that."""
        self._add(f"gpu {gpu} metric_error {metric} {code}")

    def environment(self) -> dict[str, str]:
        """What a new process needs in its environment to find the library and this file."""
        return {
            **os.environ,
            "LD_LIBRARY_PATH": str(build().parent),
            SCENARIO_VARIABLE: str(self.path),
        }

    def _add(self, *lines: str) -> None:
        self._lines += lines
        self._write()

    def _write(self) -> None:
        # Replaced as a whole: the library never sees half a file, and a new inode is a change
        # even where the file system's clock is coarse.
        fresh = self.path.with_name(f"{self.path.name}.new")
        fresh.write_text("".join(f"{line}\n" for line in self._lines), encoding="utf-8")
        fresh.replace(self.path)


def _words(value: Value) -> str:
    if isinstance(value, str):
        return value
    numbers = value if isinstance(value, Sequence) else [value]
    return " ".join(repr(number) for number in numbers)
