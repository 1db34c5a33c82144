"""Reads a trace of PyTorch's profiler (Kineto): kernels, and the operators that launched them with their shapes.

A kernel has the id of the operator that was running when it was launched (`External id`), or else the id of the launch
(`correlation`), which in turn has the operator's. The operator's `Input Dims` are there with `record_shapes=True`.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ofu_exporter.errors import ConfigError, file_errors
from ofu_exporter.hardware.tiles import LARGEST_SIDE, Gemm
from ofu_exporter.traces import kernel_names
from ofu_exporter.traces.formats import KernelTally, Profile, on_tensor_pipe
from ofu_exporter.traces.json_stream import members
from ofu_exporter.traces.timeline import EVENTS_BETWEEN_LOOKS, MOST_GPUS, Timeline, interval
from ofu_exporter.values.trace import MOST_RANK, UNLIMITED, TraceLimits

MADE_BY = "torch.profiler.profile(record_shapes=True) and export_chrome_trace('trace.json.gz')"

EVENTS = "traceEvents"
GZIP = b"\x1f\x8b"

NOT_RECORDED = "its operator was recorded without shapes: profile with record_shapes=True"
NO_PRODUCT = "no recorded operator with the shapes of one product launched it"
SEVERAL = "one operator, or one CUDA graph, launched several such kernels"
AMBIGUOUS = "two operators of different shapes have the same id: is this one trace?"

FIRST_OPERAND = {
    "aten::mm": 0,
    "aten::bmm": 0,
    "aten::_int_mm": 0,
    "aten::_scaled_mm": 0,
    "aten::_scaled_mm_v2": 0,
    "aten::addmm": 1,
    "aten::addmm_": 1,
    "aten::baddbmm": 1,
    "aten::baddbmm_": 1,
    "aten::_addmm_activation": 1,
}
"""Operators that are one product, and which of their inputs is its first operand."""
LONGEST_NAME = 300
_IDS = ("External id", "external id")
_LAUNCHES = ("cuda_runtime", "cuda_driver")
_KINDS = {
    "kernel": "kernel",
    **dict.fromkeys(("gpu_memcpy", "gpu_memset", "memcpy", "memset"), "ran"),
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "hip_runtime", "runtime"), "called"),
    **dict.fromkeys(("cpu_op", "operator", "user_annotation"), "did"),
    "python_function": "python",
}
"""What an event tells of the time, by its category."""
_PYTHON = re.compile(
    r"dataloader|checkpoint|serialization\.py|optim/\w+\.py\(\d+\): step|gc\.collect", re.IGNORECASE
)
"""Functions that say what the host was about; of others there are too many to keep."""


class _Kernel(NamedTuple):
    name: str
    seconds: float
    operator: int | None
    """None = the kernel carries none."""
    correlation: int | None


def recognises(head: bytes) -> bool:
    """Whether the file is JSON, or packed with gzip."""
    return head.startswith(GZIP) or head.lstrip()[:1] in (b"{", b"[")


def read(path: Path, limits: TraceLimits = UNLIMITED) -> Profile:
    """The profile in a trace. Raises ConfigError, which names the file."""
    trace = _Trace(limits)
    with file_errors(path, ValueError, EOFError, zlib.error, ConfigError):
        for number, event in enumerate(_members(path, limits), 1):
            trace.take(*event)
            if number % EVENTS_BETWEEN_LOOKS == 0:
                trace.timeline.look()
        if missing := trace.without_operator():
            trace.launched_by = dict(_operators_of(path, missing, limits, trace.timeline))
    return trace.profile()


def _members(path: Path, limits: TraceLimits) -> Iterator[tuple[str, Any]]:
    with _opened(path) as file:
        yield from members(file, EVENTS, limits.unpacked_bytes)


def _opened(path: Path) -> TextIO:
    with path.open("rb") as file:
        packed = file.read(len(GZIP)) == GZIP
    if packed:
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def _operators_of(
    path: Path, correlations: set[int], limits: TraceLimits, timeline: Timeline
) -> Iterator[tuple[int, int]]:
    """The operators of some launches. The file is read a second time, so that the first pass does not have to keep
    every launch."""
    for number, (name, event) in enumerate(_members(path, limits), 1):
        if number % EVENTS_BETWEEN_LOOKS == 0:
            timeline.look()
        if name == EVENTS and isinstance(event, dict) and event.get("cat") in _LAUNCHES:
            arguments = _arguments(event)
            correlation, operator = _number(arguments, "correlation"), _number(arguments, *_IDS)
            if correlation in correlations and correlation is not None and operator is not None:
                yield correlation, operator


class _Trace:
    """Keeps the products and the kernels on tensor pipes while a trace is read."""

    def __init__(self, limits: TraceLimits) -> None:
        self.timeline = Timeline(limits)
        self.launched_by: dict[int, int] = {}
        self._products: dict[int, Gemm | str] = {}
        """By operator: the product it computes, or why that is not known."""
        self._kinds: dict[Gemm | str, Gemm | str] = {}
        self._kernels: list[_Kernel] = []
        self._tally = KernelTally()
        self._gpus: set[str] = set()

    def take(self, name: str, value: Any) -> None:
        """Take in one member of the trace, or one event."""
        if name == EVENTS:
            if isinstance(value, dict):
                self._event(value)
        elif name == "deviceProperties" and isinstance(value, list):
            for each in value:
                if isinstance(each, dict) and "name" in each:
                    self._device(each)
        elif name == "distributedInfo" and isinstance(value, dict):
            rank = value.get("rank")
            is_rank = isinstance(rank, int) and 0 <= rank <= MOST_RANK
            self.timeline.rank = rank if is_rank else None

    def _device(self, properties: Mapping[str, Any]) -> None:
        name, number = str(properties["name"]), properties.get("id")
        if len(self._gpus) < MOST_GPUS:
            self._gpus.add(name[:LONGEST_NAME])
        if isinstance(number, int) and len(self.timeline.models) < MOST_GPUS:
            self.timeline.models[number] = name
            major, minor = properties.get("computeMajor"), properties.get("computeMinor")
            if isinstance(major, int) and isinstance(minor, int):
                self.timeline.capabilities[number] = 10 * major + minor

    def _event(self, event: dict[str, Any]) -> None:
        category = event.get("cat")
        if not isinstance(category, str):
            return
        kind = _KINDS.get(category) or _KINDS.get(category.lower())
        if kind is None:
            return
        name, arguments = str(event.get("name", "")), _arguments(event)
        if kind == "did" and name in FIRST_OPERAND:
            self._operator(arguments, FIRST_OPERAND[name])
        elif kind == "kernel":
            self._kernel(name, _seconds(event.get("dur")), arguments)
        times = interval(event.get("ts"), event.get("dur"))
        if times is None:  # its kernel or operator is kept all the same
            self.timeline.count()
        elif kind in ("ran", "kernel"):
            gpu = _whole(arguments, "device")
            fill = arguments.get("blocks per SM")
            fill = min(max(fill, -1.0), 1e9) if isinstance(fill, (int, float)) else -1.0
            ids = _whole(arguments, "stream"), _whole(arguments, "correlation")
            self.timeline.add_event(gpu, name, times, ids, fill)
        elif kind != "python" or _PYTHON.search(name[:LONGEST_NAME]):
            call = _whole(arguments, "correlation") if kind == "called" else None
            self.timeline.did(_thread(event), name, times, call)
            self.timeline.step(name, times)

    def without_operator(self) -> set[int]:
        """Correlation ids of the kernels whose operator has to be looked up."""
        return {
            kernel.correlation
            for kernel in self._kernels
            if kernel.operator is None and kernel.correlation is not None
        }

    def profile(self) -> Profile:
        """The profile: every kernel with the product of its operator."""
        owners = [self._owner(kernel) for kernel in self._kernels]
        rivals = Counter(
            owner
            for owner, kernel in zip(owners, self._kernels, strict=True)
            if kernel_names.find(kernel.name)
        )
        for owner, kernel in zip(owners, self._kernels, strict=True):
            product = NO_PRODUCT if owner is None else self._products.get(owner, NO_PRODUCT)
            if isinstance(product, Gemm) and rivals[owner] > 1:
                product = SEVERAL
            gemm, why = (product, "") if isinstance(product, Gemm) else (None, product)
            self._tally.add(kernel.name, kernel.seconds, gemm=gemm, why=why)
        return self._tally.profile("kineto", frozenset(self._gpus), [self.timeline])

    def _owner(self, kernel: _Kernel) -> int | None:
        if kernel.operator is not None or kernel.correlation is None:
            return kernel.operator
        return self.launched_by.get(kernel.correlation)

    def _operator(self, arguments: Mapping[str, Any], first: int) -> None:
        identity = _number(arguments, *_IDS)
        if identity is None:
            return
        product = _product(arguments, first)
        product = self._kinds.setdefault(product, product)  # one copy for all launches
        if self._products.setdefault(identity, product) != product:
            self._products[identity] = AMBIGUOUS

    def _kernel(self, name: str, seconds: float, arguments: Mapping[str, Any]) -> None:
        names = self.timeline.names
        name = names.texts[names.number(name)]
        if not on_tensor_pipe(name):
            self._tally.add(name, seconds)
            return
        ids = _number(arguments, *_IDS), _number(arguments, "correlation")
        self._kernels.append(_Kernel(name, seconds, *ids))


def _arguments(event: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments = event.get("args")
    return arguments if isinstance(arguments, dict) else {}


def _number(arguments: Mapping[str, Any], *names: str) -> int | None:
    """The number under the first of one or two names that exists; 0 means none."""
    number = arguments.get(names[0], arguments.get(names[-1]))
    return number if isinstance(number, int) and number else None


def _whole(arguments: Mapping[str, Any], name: str) -> int:
    """The number under a name, as far as eight bytes hold it; 0 for what is none."""
    number = arguments.get(name)
    return number if isinstance(number, int) and -(1 << 63) <= number < 1 << 63 else 0


def _thread(event: Mapping[str, Any]) -> tuple[int | str, int | str]:
    """Process and thread of an event."""
    process, thread = event.get("pid"), event.get("tid")
    if isinstance(process, int) and isinstance(thread, int):
        return process, thread
    return str(process)[:LONGEST_NAME], str(thread)[:LONGEST_NAME]


def _seconds(microseconds: object) -> float:
    """Seconds; 0 for a value that is no duration."""
    ran = interval(0.0, microseconds)
    return ran[1] / 1e6 if ran else 0.0


def _product(arguments: Mapping[str, Any], first: int) -> Gemm | str:
    """The product of an operator. Its C[M, N] is row-major, so the kernel's m is N, and its n is M."""
    shapes = arguments.get("Input Dims")
    if not isinstance(shapes, list):
        return NOT_RECORDED
    operands = shapes[first : first + 2]
    if not (len(operands) == 2 and all(map(_is_matrix, operands))):
        return NO_PRODUCT
    (*left_batch, m, k), (*right_batch, inner, n) = operands
    if inner != k or left_batch != right_batch:
        return NO_PRODUCT
    kinds = arguments.get("Input type")
    is_packed = isinstance(kinds, list) and "Float4" in str(kinds[first : first + 1])
    packed = 2 if is_packed else 1  # two elements are packed into one
    return Gemm(m=n, n=m, k=k * packed, batch=left_batch[0] if left_batch else 1)


def _is_matrix(shape: object) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) in (2, 3)
        and all(isinstance(side, int) and 0 <= side <= LARGEST_SIDE // 2 for side in shape)
    )
