"""Writes and reads recordings: gzip-compressed JSON Lines, a header and then one line per reading.

Line 1 is the header: `{"format": "ofu-recording", "version": 1, "source": ..., "simulated": ...}`
with the software that wrote the recording. Every other line is a GPU (`{"gpu": {...}}`, numbered in
order), a reading (`{"n": number, "start": ..., "end": ..., "tensor": ..., ...}`), a fault, or of another kind, which is
passed over (`jobs.py`). Times are seconds since the recording began. Each batch ends with a flush of the compressor,
so a file that was cut short is readable up to its last complete line.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter

from ofu_exporter.errors import SourceError
from ofu_exporter.support.regular_files import opened
from ofu_exporter.values.clock_limit import ClockLimit, known_limits
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import Activity, ActivitySample, Fault, Reading
from ofu_exporter.values.reasons import Reason

FORMAT = "ofu-recording"
VERSION = 1
MAX_LINE_BYTES = 1 << 20
"""No line of a recording is longer. A longer line must not be held in memory."""
MAX_DAMAGED_LINES = 1000
"""A file with this number of damaged lines does not count as a recording, and is not read further."""
BAD_LINE = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""Errors that the code below can raise for a line of JSON from elsewhere."""
_OF_EVENTS = frozenset({"n", "start", "at"})
"""Keys of readings and faults. A line that has others instead is of another kind."""
_GZIP = 16 + zlib.MAX_WBITS
_GPU = TypeAdapter(Gpu)
_READING = TypeAdapter(Reading)


@dataclass(frozen=True, slots=True)
class RecordingHeader:
    source: str
    simulated: bool
    created: str
    """UTC, ISO 8601."""
    software: Mapping[str, str] = field(default_factory=dict)
    """Versions of the software that wrote the recording and, where known, of the driver."""
    gpus: tuple[str, ...] = ()
    """Model of each GPU that the node had when the recording began."""
    interval: float | None = None
    clock_interval: float | None = None


class RecordingWriter:
    """Appends batches to a recording. When `write` returns, its batch has been passed to the operating system."""

    def __init__(self, path: Path, header: RecordingHeader, epoch: float) -> None:
        """Create the file; raises FileExistsError if it exists. `epoch` is time 0 of the recording."""
        self._file: BinaryIO = path.open("xb")
        self._compressor = zlib.compressobj(9, zlib.DEFLATED, _GZIP)
        self._epoch = epoch
        self._numbers: dict[Gpu, int] = {}
        self.put([{"format": FORMAT, "version": VERSION, **asdict(header)}])

    def write(self, events: Iterable[Reading | Fault]) -> int:
        lines: list[dict[str, Any]] = []
        count = 0
        for event in events:
            number = self._numbers.get(event.gpu)
            if number is None:
                number = self._numbers[event.gpu] = len(self._numbers)
                lines.append({"gpu": encode_gpu(event.gpu), "n": number})
            lines.append({"n": number, **encode(event, self._epoch)})
            count += 1
        if lines:
            self.put(lines)
        return count

    def close(self) -> None:
        """End the file properly. Without this, everything written before is still readable."""
        with self._file as file:  # closed also where the disk is full
            file.write(self._compressor.flush(zlib.Z_FINISH))
            file.flush()
            os.fsync(file.fileno())

    def put(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Append lines of any kind; whoever replays the readings passes over others."""
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        packed = self._compressor.compress(text.encode()) + self._compressor.flush(
            zlib.Z_SYNC_FLUSH
        )
        self._file.write(packed)
        self._file.flush()


@dataclass(slots=True)
class Recording:
    """A recording being read: its header, and then its events once, in order."""

    header: RecordingHeader
    events: Iterator[Reading | Fault]
    damaged: list[str]
    """One sentence for each line that could not be read; grows while `events` is consumed."""


def read(path: Path) -> Recording:
    """Open a recording. Raises SourceError for any other file. Later damage only ends the recording early."""
    header, lines = _opened(path)
    damaged: list[str] = []
    return Recording(header, _events(lines, damaged), damaged)


def raw_lines(path: Path) -> Iterator[bytes]:
    """Every line after the header as it was written. Raises SourceError as `read` does."""
    _, lines = _opened(path)
    return lines


def _opened(path: Path) -> tuple[RecordingHeader, Iterator[bytes]]:
    lines = _lines(path)
    try:
        return _header(path, next(lines, b"")), lines
    except OSError as error:
        raise SourceError(Reason.BAD_RECORDING, f"{path}: {error.strerror or error}") from error


def _header(path: Path, line: bytes) -> RecordingHeader:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise SourceError(Reason.BAD_RECORDING, f"{path} is not a recording of this program")
    if fields.get("version") != VERSION:
        detail = f"{path} has version {fields.get('version')!r}; this program reads {VERSION}"
        raise SourceError(Reason.BAD_RECORDING, detail)
    names = RecordingHeader.__dataclass_fields__.keys() & fields.keys()
    values = {name: fields[name] for name in names}
    try:
        return RecordingHeader(**{**values, "gpus": tuple(values.get("gpus", ()))})
    except TypeError as error:
        raise SourceError(Reason.BAD_RECORDING, f"{path}: the header is incomplete") from error


def _lines(path: Path) -> Iterator[bytes]:
    """Complete lines of a plain or compressed file, up to its end or its first damage."""
    rest = b""
    with opened(path) as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        for plain in _unpacked(file) if packed else iter(lambda: file.read(1 << 16), b""):
            *complete, rest = (rest + plain).split(b"\n")
            yield from complete
            if len(rest) > MAX_LINE_BYTES:
                return


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    """The plain bytes of a gzip file in small pieces, up to its end or its first damage."""
    unpacker = zlib.decompressobj(_GZIP)
    while not unpacker.eof and (packed := unpacker.unconsumed_tail or file.read(1 << 14)):
        try:
            yield unpacker.decompress(packed, 1 << 18)
        except zlib.error:
            return


def _events(lines: Iterator[bytes], damaged: list[str]) -> Iterator[Reading | Fault]:
    gpus: dict[int, Gpu] = {}
    for number, line in enumerate(lines, start=2):
        try:
            fields = json.loads(line)
            if "gpu" in fields:
                gpus[fields.get("n", len(gpus))] = decode_gpu(fields["gpu"])
            elif not fields or fields.keys() & _OF_EVENTS:
                yield decode(fields, gpus[fields["n"]])
        except BAD_LINE as error:
            damaged.append(f"line {number}: {type(error).__name__}: {error}")
            if len(damaged) >= MAX_DAMAGED_LINES:
                return


def _compact(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in ("", None, (), {})}


def encode(event: Reading | Fault, epoch: float) -> dict[str, Any]:
    """An event as plain data, without its GPU; its times count from `epoch`."""
    if isinstance(event, Fault):
        return _compact(
            {"at": round(event.at - epoch, 6), "fault": event.reason.value, "detail": event.detail}
        )
    return _compact(
        {
            "start": round(event.start - epoch, 6),
            "end": round(event.end - epoch, 6),
            "tensor": event.tensor_active,
            "pipes": dict(event.pipes),
            "clocks": [[round(sample.at - epoch, 6), sample.hz] for sample in event.clocks],
            "cycles": event.cycles,
            "pace": event.pace or None,
            "evidence": event.evidence,
            "parts": [_encode_sample(each, epoch) for each in event.samples] or None,
            "counts": None if event.counts else False,
            "edge_seconds": event.edge_seconds or None,
            "cut_seconds": event.cut_seconds or None,
        }
    ) | {
        "activity": {
            name: ratio for name, ratio in event.activity._asdict().items() if ratio is not None
        },
        **_encode_limits(event.clock_limits),
    }


def decode(fields: Mapping[str, Any], gpu: Gpu) -> Reading | Fault:
    """The event that `encode` made the fields of. Raises one of the errors of a bad line."""
    if "fault" in fields:
        reason = Reason(fields["fault"])
        return Fault(gpu, float(fields["at"]), reason, str(fields.get("detail", "")))
    ratios = fields.get("activity", {})
    return _READING.validate_python(
        {
            **fields,
            "gpu": gpu,
            "tensor_active": fields.get("tensor"),
            "samples": fields.get("parts", ()),
            "clock_limits": known_limits(fields.get("clock_limits")),
            "activity": {name: ratios[name] for name in Activity._fields if name in ratios},
        }
    )


def _encode_limits(limits: Sequence[ClockLimit] | None) -> dict[str, Any]:
    """An empty list is kept, because it means that nothing holds the clock down."""
    return {} if limits is None else {"clock_limits": [limit.value for limit in limits]}


def _encode_sample(sample: ActivitySample, epoch: float) -> list[Any]:
    times = (round(at - epoch, 6) for at in (sample.start, sample.end))
    sm = [] if sample.sm is None else [sample.sm]
    return [*times, sample.tensor_active, dict(sample.pipes), *sm]


def encode_gpu(gpu: Gpu) -> dict[str, Any]:
    """A GPU as plain data, without the fields that are not known."""
    return _compact(asdict(gpu))


def decode_gpu(fields: Mapping[str, Any]) -> Gpu:
    """The GPU that `encode_gpu` made the fields of. Raises one of the errors of a bad line."""
    return _GPU.validate_python({"index": "", "uuid": "", **fields})
