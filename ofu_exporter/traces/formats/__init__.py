"""Reads what a profiler recorded of kernels on tensor pipes, in any format that has a module here.

A reader is one module in this package; its file name is the format's name. It has three public names:

- `MADE_BY`: how such a file is made;
- `recognises`: whether a file is of the format, from its first bytes;
- `read`: the profile in a file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from ofu_exporter.errors import ConfigError, file_errors
from ofu_exporter.hardware.tiles import Gemm
from ofu_exporter.support.registry import Registry
from ofu_exporter.support.regular_files import opened
from ofu_exporter.traces import kernel_names
from ofu_exporter.traces.timeline import Timeline
from ofu_exporter.values.trace import UNLIMITED, TraceLimits

HEAD_BYTES = 1 << 16
TEXT = "utf-8-sig"
"""This encoding skips the byte order mark that some programs write."""

NO_SHAPE = "the file has no shapes"

_AMOUNT = re.compile(r"(?:\d{1,20}|\d{1,3}(?:,\d{3}){1,6})(?:\.\d*)?(?:[eE][+-]?\d\d?)?")
_TENSOR = re.compile(
    r"gemm(?!a)|(?<!ge|ga|co|su)mma|bmm|matmul|fused_moe_kernel|triton_tem"
    r"|flash_?(?:fwd|bwd|attn|attention|mla)|fmha|sdpa|attention|attn"
    r"|(?:fprop|dgrad|wgrad)|implicit_con|sptensorop|nvjet",
    re.IGNORECASE,
)
_NOT_TENSOR = re.compile(
    r"simt|(?<![a-z0-9])[sdc]gemm_|sgemm|scudnn|[dw]grad\w*_engine<float|gemv|splitkreduce|f32f32_f32f32_f32|norm|softmax|rotary|multi_tensor"
    r"|triton_(?:poi|red|per)_",  # generated for the operations around a product, and named after it
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class KernelLaunches:
    """Launches of one kernel that compute the same product."""

    kernel: str
    """The kernel's name, as the profiler shows it."""
    number: int
    seconds: float
    """Time on the GPU, of all of them together."""
    gemm: Gemm | None = None
    """The product that each of them computes, in the kernel's order; None = not known."""
    why: str = ""
    """Why the product is not known."""
    counted_flops: Mapping[str, int] = field(default_factory=dict)
    """FLOPs of all of them together by precision, as the hardware counted them; empty = not counted."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The launches that one file has."""

    format: str
    launches: tuple[KernelLaunches, ...]
    """Launches of kernels that run on tensor pipes, or seem to."""
    other_seconds: float
    """Time on the GPU in all other kernels."""
    gpus: frozenset[str] = frozenset()
    """Names of the GPUs; empty = the file does not say."""
    timelines: tuple[Timeline, ...] = ()
    """When it all ran, by process; none where the format does not say."""


class ProfileReader(Protocol):
    """What a module of this package offers."""

    MADE_BY: str

    def recognises(self, head: bytes) -> bool:
        """Whether a file that begins with `head` is of the format."""

    def read(self, path: Path, limits: TraceLimits = UNLIMITED) -> Profile:
        """The profile in a file. Raises ConfigError, which names the file."""


_MODULES: Registry[ProfileReader] = Registry(__name__, "format")
names, load = _MODULES.names, _MODULES.load


def read(path: Path, limits: TraceLimits = UNLIMITED) -> Profile:
    """The profile in a file of any known format. Raises ConfigError, which names the file."""
    with file_errors(path), opened(path) as file:
        head = file.read(HEAD_BYTES)
    for name in names():
        reader = load(name)
        if reader.recognises(head):
            return reader.read(path, limits)
    kinds = "; ".join(f"{name}: {load(name).MADE_BY}" for name in names())
    raise ConfigError(f"{path} is not a profile in a known format; known: {kinds}")


def has_row(head: bytes, is_wanted: Callable[[list[str]], bool]) -> bool:
    """Whether one of the rows of comma-separated values in the first bytes of a file is the wanted one."""
    try:
        return any(map(is_wanted, csv.reader(head.decode(TEXT, errors="replace").splitlines())))
    except csv.Error:
        return False


@contextmanager
def csv_rows(path: Path) -> Iterator[Iterator[list[str]]]:
    """The rows of a file of comma-separated values. Raises ConfigError, which names the file."""
    with (
        file_errors(path, csv.Error),
        path.open(newline="", encoding=TEXT, errors="replace") as file,
    ):
        yield csv.reader(file)


def amount(path: Path, text: str) -> float:
    """A number of 0 or more, written the English way: 1,234.5. Raises ConfigError, which names the file."""
    if not _AMOUNT.fullmatch(text.strip()):
        raise ConfigError(
            f"{path}: {text!r} is not a number of 0 or more as English has it: make the file with LC_ALL=C"
        )
    return float(text.replace(",", ""))


@lru_cache(1 << 14)
def on_tensor_pipe(kernel: str) -> bool:
    """Whether a kernel runs on tensor pipes, by its name: by a known grammar, else by words that such names have."""
    if kernel_names.find(kernel):
        return True
    return bool(_TENSOR.search(kernel)) and not _NOT_TENSOR.search(kernel)


class KernelTally:
    """Sums launches while they are read, so that memory holds kinds of launches and not every launch."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, Gemm | None, str], _Sum] = {}
        self._other_seconds = 0.0

    def add(
        self,
        kernel: str,
        seconds: float,
        number: int = 1,
        gemm: Gemm | None = None,
        why: str = "",
        flops: Mapping[str, int] | None = None,
    ) -> None:
        """Add launches of a kernel: `why` says why the product they compute is not known, `flops` are what the
        hardware counted, in whatever kernel."""
        if not flops and not on_tensor_pipe(kernel):
            self._other_seconds += seconds
            return
        sums = self._kinds.setdefault((kernel, gemm, why), _Sum())
        sums.seconds += seconds
        sums.number += number
        for precision, more in (flops or {}).items():
            sums.flops[precision] = sums.flops.get(precision, 0) + more

    def profile(
        self, format_: str, gpus: frozenset[str] = frozenset(), timelines: Sequence[Timeline] = ()
    ) -> Profile:
        """All that was added."""
        launches = (
            KernelLaunches(kernel, each.number, each.seconds, gemm, why, each.flops)
            for (kernel, gemm, why), each in self._kinds.items()
        )
        return Profile(format_, tuple(launches), self._other_seconds, gpus, tuple(timelines))


@dataclass(slots=True)
class _Sum:
    number: int = 0
    seconds: float = 0.0
    flops: dict[str, int] = field(default_factory=dict)
