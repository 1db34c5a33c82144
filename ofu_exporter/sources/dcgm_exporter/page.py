"""Sorts a page of NVIDIA's dcgm-exporter by GPU: old and new names and units, MIG rows, blanks, GPUs beyond measure."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from zlib import crc32

from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import MAX_RATIO, Activity, Evidence

MEGA, PERCENT, MILLI = 1e6, 0.01, 1e-3
_NAMES: Mapping[str, Mapping[str, float]] = {
    "tensor_active": {"PROF_PIPE_TENSOR_ACTIVE": 1.0, "PROF_TENSOR_UTIL_RATIO": 1.0},
    "clock_hz": {"DEV_SM_CLOCK": MEGA, "DEV_SM_CLOCK_HERTZ": 1.0},
    "max_clock_hz": {"DEV_MAX_SM_CLOCK": MEGA, "DEV_SM_MAX_CLOCK_HERTZ": 1.0},
    "engine": {"PROF_GR_ENGINE_ACTIVE": 1.0, "PROF_GR_ENGINE_UTIL_RATIO": 1.0},
    "utilization_ratio": {"DEV_GPU_UTIL": PERCENT, "DEV_GPU_UTIL_RATIO": 1.0},
    "power_watts": {"DEV_POWER_USAGE": 1.0, "DEV_BOARD_POWER_WATTS": 1.0},
    "power_limit_watts": {
        "DEV_ENFORCED_POWER_LIMIT": 1.0,
        "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS": 1.0,
    },
    "total_joules": {"DEV_TOTAL_ENERGY_CONSUMPTION": MILLI, "DEV_GPU_ENERGY_JOULES_TOTAL": 1.0},
    "sm": {"PROF_SM_ACTIVE": 1.0, "PROF_SM_UTIL_RATIO": 1.0},
    "occupancy": {"PROF_SM_OCCUPANCY": 1.0, "PROF_SM_OCCUPANCY_RATIO": 1.0},
    "dram": {"PROF_DRAM_ACTIVE": 1.0, "PROF_DRAM_UTIL_RATIO": 1.0},
    "fp64": {"PROF_PIPE_FP64_ACTIVE": 1.0, "PROF_FP64_UTIL_RATIO": 1.0},
    "fp32": {"PROF_PIPE_FP32_ACTIVE": 1.0, "PROF_FP32_UTIL_RATIO": 1.0},
    "fp16": {"PROF_PIPE_FP16_ACTIVE": 1.0, "PROF_FP16_UTIL_RATIO": 1.0},
    "integer": {"PROF_PIPE_INT_ACTIVE": 1.0, "PROF_INT_UTIL_RATIO": 1.0},
    "pcie_sent": {"PROF_PCIE_TX_BYTES": 1.0},
    "pcie_received": {"PROF_PCIE_RX_BYTES": 1.0},
    "nvlink_sent": {"PROF_NVLINK_TX_BYTES": 1.0},
    "nvlink_received": {"PROF_NVLINK_RX_BYTES": 1.0},
    "hmma": {"PROF_PIPE_TENSOR_HMMA_ACTIVE": 1.0, "PROF_HMMA_UTIL_RATIO": 1.0},
    "imma": {"PROF_PIPE_TENSOR_IMMA_ACTIVE": 1.0, "PROF_IMMA_UTIL_RATIO": 1.0},
    "dfma": {"PROF_PIPE_TENSOR_DFMA_ACTIVE": 1.0, "PROF_DFMA_UTIL_RATIO": 1.0},
}
"""Of each counter its names after DCGM_FI_, old and new, with the factor to our unit. Only the name decides the unit,
never the size of a value."""
FIELDS = {
    f"DCGM_FI_{name}": (counter, unit)
    for counter, names in _NAMES.items()
    for name, unit in names.items()
}
PIPES = ("hmma", "imma", "dfma")

MAX_LINE_CHARS = 8192
"""Most characters of a line. Pages of 8 GPUs have lines of a few hundred; a label of megabytes is an error."""
MAX_LABEL_CHARS = 256
MOST_NAMED = 4096
"""Most GPUs of a page that are counted, besides those that are measured: a page of 16 MiB could name 300,000."""
MOST_LABELS_CHARS = 1024
"""Longer labels are not cached."""
_BLANK = 2.0**47
"""From this value on DCGM means "no value": the FP64 sentinels, and far above them the INT64 ones."""
_BLANK_INT32 = float(0x7FFFFFF0)
"""The same for 32-bit integers, such as the clocks in MHz."""
_MOST_WATTS = 10e3
"""No GPU draws this much power: such a value belongs to another field."""

Key = tuple[str, str, str]
"""Index, uuid, GPU-instance id."""
_LINE = re.compile(r"[^\n]+")
_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_UUID = re.compile(r'[{,]\s*(?:UUID|uuid)="([^"]*)"')
_INDEX = re.compile(r'[{,]\s*gpu="([^"]*)"')
_INSTANCE = re.compile(r'[{,]\s*GPU_I_ID="([^"]*)"')


@dataclass(slots=True)
class PageRow:
    """The values of one GPU or MIG instance on one page."""

    gpu: Gpu
    counters: dict[str, float | None] = field(default_factory=dict)
    """By the names in `FIELDS`; None = on the page without a value."""
    liveness: int = 0
    """Checksum over all rows of this uuid. It changes whenever a value of the GPU changes."""

    @property
    def tensor_active(self) -> float | None:
        return self.counters.get("tensor_active")

    @property
    def clock_hz(self) -> float | None:
        return self.counters.get("clock_hz")

    @property
    def total_joules(self) -> float | None:
        """Since the driver was loaded."""
        return self.counters.get("total_joules")

    @property
    def pipes(self) -> dict[str, float]:
        return self._valued(PIPES)

    def _valued(self, names: Collection[str]) -> dict[str, float]:
        counters = self.counters.items()
        return {name: value for name, value in counters if name in names and value is not None}

    def values(self) -> tuple[object, ...]:
        return (self.tensor_active, self.clock_hz, *sorted(self.pipes.items()))

    @property
    def is_waiting(self) -> bool:
        """Whether both counters are on the page and one has no value yet."""
        missing = {
            name for name in ("tensor_active", "clock_hz") if self.counters.get(name) is None
        }
        return bool(missing) and missing <= self.counters.keys()

    def activity(self, energy_joules: float | None) -> Activity:
        """What else the GPU did, with the energy of the same time. Energy belongs to the whole GPU, not to an
        instance."""
        activity = Activity(**self._valued(Activity._fields))
        return activity if self.gpu.instance else activity._replace(energy_joules=energy_joules)

    def evidence(self) -> Evidence | None:
        """Other counters that show whether a GPU worked. Power belongs to the whole GPU and says nothing about an
        instance."""
        if self.gpu.instance:
            return None
        get = self.counters.get
        power, limit = _within(get("power_watts"), _MOST_WATTS), get("power_limit_watts")
        return Evidence(
            graphics_active=_within(get("engine"), MAX_RATIO),
            power=power / limit if power is not None and limit is not None and limit > 0 else None,
            utilization_ratio=_within(get("utilization_ratio"), MAX_RATIO),
            power_watts=power,
        )


class Places:
    """The GPUs that have been measured longest come first, then the first of the page.

    So when a page begins to name GPUs that do not exist, no real GPU loses its place.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._ranks: dict[Hashable, int] = {}

    def knows(self, key: Hashable) -> bool:
        """Whether the GPU has been measured and kept its place."""
        return key in self._ranks

    def take(self, keys: Iterable[Hashable]) -> frozenset[Hashable]:
        """Give places, and return the keys that have one: the measured GPUs, then the first of the others."""
        named = dict.fromkeys(keys)
        taken = sorted(named, key=lambda key: self._ranks.get(key, self.most))[: self.most]
        for key in taken:
            if len(self._ranks) < self.most:
                self._ranks.setdefault(key, len(self._ranks))
        return frozenset(taken)


@dataclass(slots=True)
class ExporterPage:
    """One page, sorted by GPU."""

    rows: list[PageRow]
    rejected: Counter[str]


def parse(text: str, places: Places) -> ExporterPage:
    """Sort a page by GPU. Unreadable lines and surplus GPUs are left out and counted."""
    rows: dict[Key, PageRow] = {}
    liveness: dict[str, int] = {}
    rejected: Counter[str] = Counter()
    lines = _lines_by_gpu(text, places, rejected)
    taken = places.take(lines)
    keys: dict[str, Key] = {}
    for key in (key for key in lines if key in taken):
        for begin in lines[key]:
            match = _LINE.match(text, begin)
            line = match[0] if match else ""
            liveness[key[1]] = (liveness.get(key[1], 0) + crc32(line.encode())) % 2**32
            try:
                _add_line(rows, keys, key, line, places.most)
            except ValueError:
                rejected["unreadable_line"] += 1
    if len(lines) > len(taken):
        rejected["too_many_gpus"] = len(lines) - len(taken)
    for row in rows.values():
        if (max_clock_hz := row.counters.get("max_clock_hz")) is not None:
            row.gpu = replace(row.gpu, max_sm_clock_hz=max_clock_hz)
        row.liveness = liveness.get(row.gpu.uuid, 0)
    return ExporterPage([*_measured(rows)], rejected)


def _lines_by_gpu(text: str, places: Places, rejected: Counter[str]) -> dict[Key, array[int]]:
    """Where the lines about each GPU begin. The lines themselves would take as much memory as the page.

    If a page names more GPUs than are counted, those that are measured are still found.
    """
    lines_of: dict[Key, array[int]] = {}
    cached = lru_cache(MOST_NAMED)(_key)  # all lines of a GPU have the same labels
    for match in _LINE.finditer(text):
        begin, end = match.span()
        if end - begin > MAX_LINE_CHARS:
            rejected["line_too_long"] += 1
            continue
        line = match[0]
        if line[:5].upper() != "DCGM_":
            continue  # about something else: a switch, a link, a CPU, a comment
        labels = line[line.find("{") : line.rfind("}")]
        key = (cached if len(labels) <= MOST_LABELS_CHARS else _key)(labels)
        if key in lines_of:
            lines_of[key].append(begin)
        elif key is not None and (len(lines_of) < MOST_NAMED or places.knows(key)):
            lines_of[key] = array("I", (begin,))
    return lines_of


def _key(labels: str) -> Key | None:
    """The GPU that labels name; None without a uuid."""
    uuid = _UUID.search(labels)
    if uuid is None:
        return None
    index, instance = (pattern.search(labels) for pattern in (_INDEX, _INSTANCE))
    return (index[1] if index else "", uuid[1], instance[1] if instance else "")


def _add_line(
    rows: dict[Key, PageRow], keys: dict[str, Key], place: Key, line: str, most: int
) -> None:
    """Add one line to the row of its GPU, which was found without parsing. Of several lines for one value
    the first counts. `keys` has the row of labels as they are written: all lines of a GPU have the same, parsed once.

    Raises ValueError for an unreadable line, and for a line that would add one row too many.
    """
    match = _NAME.match(line)
    name = match[0].upper() if match else ""  # the oldest pages have names in lower case
    if name not in FIELDS and place in rows:
        return  # most lines only show that the GPU is alive; parsing each would cost ten times more
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - 2 MiB

    begin, end = line.find("{"), line.rfind("}") + 1
    labels = line[begin:end]
    key = keys.get(labels)
    if key is not None:
        line = line[:begin] + line[end:]
    for family in text_string_to_metric_families(line + "\n"):
        for sample in family.samples:
            if key is None:
                key = _add_row(rows, sample.labels, most)
                if len(keys) < MOST_NAMED and len(labels) <= MOST_LABELS_CHARS:
                    keys[labels] = key
            _put(rows[key], name, _float(sample.value))


def _add_row(rows: dict[Key, PageRow], labels: Mapping[str, str], most: int) -> Key:
    """The key of the row that has these labels."""
    if any(len(value) > MAX_LABEL_CHARS for value in labels.values()):
        raise ValueError("label too long")
    uuid = labels.get("UUID") or labels.get("uuid", "")
    key = (labels.get("gpu", ""), uuid, labels.get("GPU_I_ID", ""))
    if key not in rows:
        if len(rows) >= most:
            # Two different names may look the same before they are parsed.
            raise ValueError("one GPU too many")
        rows[key] = PageRow(_gpu(key, labels))
    return key


def _put(row: PageRow, name: str, value: float) -> None:
    if name not in FIELDS:
        return
    counter, unit = FIELDS[name]
    is_blank = value >= (_BLANK_INT32 if unit == MEGA else _BLANK)
    is_blank |= counter in PIPES and math.isnan(value)
    if row.counters.get(counter) is None:
        row.counters[counter] = None if is_blank else value * unit


def _float(value: float) -> float:
    """A value as float; the parser returns integers of any length."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _within(value: float | None, most: float) -> float | None:
    """A possible value; otherwise None."""
    return value if value is not None and 0 <= value <= most else None


def _gpu(key: Key, labels: Mapping[str, str]) -> Gpu:
    index, uuid, instance = key
    return Gpu(
        index=index,
        uuid=uuid,
        instance=instance,
        profile=labels.get("GPU_I_PROFILE", ""),
        name=labels.get("modelName", ""),
        pci_bus_id=labels.get("pci_bus_id", ""),
        driver=labels.get("DCGM_FI_DRIVER_VERSION")
        or labels.get("DCGM_FI_SYSTEM_DRIVER_VERSION", ""),
    )


def _measured(rows: Mapping[Key, PageRow]) -> Iterator[PageRow]:
    """Every row that is or should be measured.

    With MIG on, some families have a row of the whole GPU as well as rows of its instances. If that row has no tensor
    counter, this is not a fault, because the instances are measured. If it has one, it would count the GPU twice.
    """
    divided = {uuid for _, uuid, instance in rows if instance}
    for (_, uuid, instance), row in rows.items():
        if instance or uuid not in divided:
            yield row
