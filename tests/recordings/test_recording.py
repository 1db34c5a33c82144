"""The recording format: what is written is read again, up to wherever the file was cut or damaged."""

from __future__ import annotations

import gzip
import json
import math
import random
import tempfile
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ofu_exporter.errors import SourceError
from ofu_exporter.recordings import recording
from ofu_exporter.values.clock_limit import ClockLimit
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.reading import (
    Activity,
    ActivitySample,
    ClockSample,
    CycleTotals,
    Evidence,
    Fault,
    Reading,
)
from ofu_exporter.values.reasons import Reason
from tests.helpers.values import fault, gpu, reading

Event = Reading | Fault
EPOCH = 0.0
HEADER = recording.RecordingHeader(
    source="nvml",
    simulated=True,
    created="2025-01-01T00:00:00+00:00",
    software={"ofu-exporter": "0.1"},
    interval=5.0,
    clock_interval=0.5,
)
FIRST_LINE = json.dumps(
    {"format": "ofu-recording", "version": 1, "source": "x", "simulated": False, "created": ""}
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recording"


def write(path: Path, batches: Sequence[Sequence[Event]]) -> list[int]:
    """Write a recording; returns the size of the file after the header and after each batch."""
    writer = recording.RecordingWriter(path, HEADER, EPOCH)
    sizes = [path.stat().st_size]
    for batch in batches:
        assert writer.write(batch) == len(batch)
        sizes.append(path.stat().st_size)
    writer.close()
    return sizes


def events(path: Path) -> list[Event]:
    return list(recording.read(path).events)


def plain(path: Path, *lines: object) -> recording.Recording:
    """A recording that is not compressed, of the header and these lines, as it is read."""
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join([FIRST_LINE, *text, ""]))
    return recording.read(path)


def unreadable(path: Path) -> SourceError:
    with pytest.raises(SourceError) as caught:
        recording.read(path)
    assert caught.value.reason is Reason.BAD_RECORDING
    assert str(path) in str(caught.value)
    return caught.value


# What is written is read.

words = st.text(max_size=8)
seconds = st.integers(0, 10**9).map(lambda micro: micro / 1e6)
numbers = st.floats()
gpus = st.builds(
    Gpu,
    index=st.text(min_size=1),
    uuid=st.text(min_size=1),
    instance=words,
    profile=words,
    name=words,
    pci_bus_id=words,
    pci_device_id=words,
    driver=words,
    sm_count=st.none() | st.integers(0, 1000),
    compute_capability=st.none() | st.tuples(st.integers(0, 99), st.integers(0, 9)),
    max_sm_clock_hz=st.none() | st.floats(0, 1e10),
    memory_bytes=st.none() | st.integers(0, 2**40),
    minor=st.none() | st.integers(0, 255),
    mig_uuid=st.text(),
)


def events_of(gpus: st.SearchStrategy[Gpu]) -> st.SearchStrategy[Event]:
    return st.builds(
        Reading,
        gpu=gpus,
        start=seconds,
        end=seconds,
        tensor_active=st.none() | numbers,
        pipes=st.dictionaries(words, numbers, max_size=3),
        clocks=st.lists(st.builds(ClockSample, seconds, numbers), max_size=3).map(tuple),
        cycles=st.none() | st.builds(CycleTotals, numbers, numbers),
        pace=st.floats(0, 60),
        clock_limits=st.none() | st.lists(st.sampled_from(ClockLimit), max_size=3).map(tuple),
        evidence=st.none() | st.builds(Evidence, *[st.none() | numbers] * 5),
        counts=st.booleans(),
        activity=st.builds(Activity, *[st.none() | numbers] * len(Activity._fields)),
    ) | st.builds(Fault, gpus, seconds, st.sampled_from(Reason), words)


def same(one: object, other: object) -> bool:
    """Equal, times to the microsecond, and not-a-number equal to itself."""
    if isinstance(one, float) and isinstance(other, float):
        close = math.isclose(one, other, rel_tol=0, abs_tol=1.1e-6)
        return close or (math.isnan(one) and math.isnan(other))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other


def parts(event: Event) -> tuple[object, ...]:
    if isinstance(event, Fault):
        return (event.gpu, event.at, event.reason, event.detail)
    numbers = (event.start, event.end, event.tensor_active, event.clocks, event.cycles)
    return (
        event.gpu,
        *numbers,
        event.evidence,
        event.activity,
        event.counts,
        event.clock_limits,
        dict(event.pipes),
    )


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(batches=st.lists(st.lists(events_of(gpus), max_size=4), max_size=4))
def test_what_is_written_is_read(batches: list[list[Event]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording"
        write(path, batches)
        found = recording.read(path)
        read = list(found.events)
    written = [event for batch in batches for event in batch]
    assert found.damaged == []
    assert len(read) == len(written)
    for one, other in zip(read, written, strict=True):
        assert same(parts(one), parts(other)), (one, other)


def test_a_gpu_of_which_little_was_written_has_no_index_and_no_uuid() -> None:
    assert recording.decode_gpu({"name": "H100"}) == Gpu("", "", name="H100")


def test_a_gpu_without_an_index_is_read_as_it_was_written(path: Path) -> None:
    """A page whose rows lack the `gpu` label gives one."""
    write(path, [[reading(EPOCH, 5, device=Gpu(index="", uuid="GPU-x"))]])
    assert [event.gpu.uuid for event in events(path)] == ["GPU-x"]


def test_not_measured_stays_not_measured(path: Path) -> None:
    bare = Reading(Gpu("0", "GPU-x"), EPOCH, 5)
    write(path, [[bare]])
    assert events(path) == [bare]


def test_zero_is_not_not_measured(path: Path) -> None:
    idle = Reading(
        Gpu("0", "x"),
        EPOCH,
        EPOCH,
        0.0,
        {"hmma": 0.0},
        (ClockSample(EPOCH, 0.0),),
        CycleTotals(0, 0),
    )
    write(path, [[idle]])
    assert events(path) == [idle]


def test_the_parts_of_a_window_come_back(path: Path) -> None:
    parts = (
        ActivitySample(EPOCH, EPOCH + 1, 0.5, {"hmma": 0.25}, 0.75),
        ActivitySample(EPOCH + 1, EPOCH + 2, 0.0, {}),
    )
    whole = Reading(Gpu("0", "x"), EPOCH, EPOCH + 2, 0.25, samples=parts)
    write(path, [[whole]])
    assert events(path) == [whole]


def test_not_a_number_stays_one(path: Path) -> None:
    write(path, [[reading(EPOCH, 5, math.nan, pipes={"hmma": math.nan})]])
    (event,) = events(path)
    assert isinstance(event, Reading)
    assert event.tensor_active is not None
    assert math.isnan(event.tensor_active)
    assert math.isnan(event.pipes["hmma"])


def test_times_are_counted_from_the_epoch(path: Path) -> None:
    writer = recording.RecordingWriter(path, HEADER, epoch=1000.0)
    writer.write([reading(1000.0, 1005.0), fault(1007.5)])
    writer.close()
    assert events(path) == [reading(0.0, 5.0), fault(7.5)]


def test_the_header_is_read_as_it_was_written(path: Path) -> None:
    write(path, [])
    assert recording.read(path).header == HEADER


def test_a_recording_is_gzip_of_json_lines(path: Path) -> None:
    write(path, [[reading(EPOCH, 5), fault(6)]])
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert lines[0]["format"] == "ofu-recording"
    assert [sorted(line)[0] for line in lines[1:]] == ["gpu", "activity", "at"]


def test_an_unpacked_recording_is_read_too(path: Path) -> None:
    write(path, [[reading(EPOCH, 5), fault(6)]])
    packed = events(path)
    path.write_bytes(gzip.decompress(path.read_bytes()))
    assert events(path) == packed


def test_a_gpu_is_described_once(path: Path) -> None:
    write(path, [[reading()], [reading(), fault(6.0, device=gpu(1))], [reading()]])
    assert gzip.decompress(path.read_bytes()).count(b'{"gpu":') == 2


@pytest.mark.parametrize("content", [b"", b"precious"])
def test_a_file_is_never_overwritten(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(FileExistsError):
        recording.RecordingWriter(path, HEADER, EPOCH)
    assert path.read_bytes() == content


def test_what_was_written_is_readable_before_the_end(path: Path) -> None:
    writer = recording.RecordingWriter(path, HEADER, EPOCH)
    writer.write([fault(1)])
    assert events(path) == [fault(1.0)]
    writer.close()


# A file that was cut or damaged.


def small(path: Path) -> list[int]:
    two = [gpu(0), gpu(1)]
    return write(
        path, [[reading(5 * i, 5 * (i + 1), i / 7, device=one) for one in two] for i in range(4)]
    )


def test_a_file_cut_at_any_byte_is_read_up_to_the_cut(path: Path) -> None:
    sizes = small(path)
    packed, whole = path.read_bytes(), events(path)
    for cut in range(sizes[0], len(packed)):
        path.write_bytes(packed[:cut])
        got = events(path)
        flushed = sum(size <= cut for size in sizes[1:])
        assert got == whole[: len(got)], cut
        assert len(got) >= 2 * flushed, cut


@pytest.mark.slow
def test_a_plain_file_cut_at_any_byte_is_read_up_to_the_cut(path: Path) -> None:
    small(path)
    text, whole = gzip.decompress(path.read_bytes()), events(path)
    begin = text.index(b"\n") + 1
    for cut in range(begin, len(text)):
        path.write_bytes(text[:cut])
        complete = text[:cut].rpartition(b"\n")[0].count(b'\n{"n"')
        assert events(path) == whole[:complete], cut


def test_a_file_cut_in_its_header_is_not_a_recording(path: Path) -> None:
    begin = small(path)[0]
    packed = path.read_bytes()
    for cut in range(begin):
        path.write_bytes(packed[:cut])
        read_through(path)
    path.write_bytes(packed[: begin // 2])
    unreadable(path)


def read_through(path: Path) -> None:
    """Nothing but SourceError leaves `read`, and nothing at all leaves the iteration."""
    try:
        found = recording.read(path)
    except SourceError:
        return
    for event in found.events:
        assert isinstance(event, Reading | Fault)


@pytest.mark.parametrize("unpack", [False, True])
def test_no_random_damage_raises(path: Path, unpack: bool) -> None:
    small(path)
    good = gzip.decompress(path.read_bytes()) if unpack else path.read_bytes()
    dice = random.Random(1)
    for _ in range(500):
        bad = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            bad[dice.randrange(len(bad))] = dice.randrange(256)
        path.write_bytes(bad)
        read_through(path)


KEYS = ["n", "gpu", "start", "end", "at", "fault", "pipes", "clocks", "cycles"]
GPU_KEYS = ["index", "uuid", "sm_count", "compute_capability", "max_sm_clock_hz"]
atoms = (
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.sampled_from(["", "x", "lost", "5"])
)
leaves = atoms | st.lists(atoms, max_size=3)
inner = leaves | st.dictionaries(st.sampled_from(GPU_KEYS), leaves, max_size=5)
json_values = inner | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(lines=st.lists(json_values, max_size=4))
def test_no_json_line_raises(lines: list[object]) -> None:
    known = {"gpu": {"index": "0", "uuid": "GPU-x"}}
    with tempfile.TemporaryDirectory() as folder:
        list(plain(Path(folder) / "plain", known, *lines).events)


GOOD_GPU = {"gpu": {"index": "0", "uuid": "GPU-x"}}
GOOD_FAULT = {"n": 0, "at": 1.0, "fault": "lost"}


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"gpu": 5}, id="a GPU that is a number"),
        pytest.param({"gpu": {"compute_capability": ""}}, id="a capability that is no pair"),
        pytest.param({"gpu": None}, id="a GPU that is nothing"),
        pytest.param({"gpu": []}, id="a GPU that is a list"),
        pytest.param({"gpu": {"uuid": "x", "index": "1", "sm_count": math.inf}}, id="endless SMs"),
        pytest.param({"n": 0, "start": 10**400, "end": 1}, id="a start beyond floats"),
        pytest.param({"n": 0, "start": 0, "end": 1, "pipes": [1]}, id="pipes that are a list"),
        pytest.param({"n": 0, "start": 0, "end": 1, "pipes": None}, id="pipes that are nothing"),
        pytest.param({"n": 0, "start": 0, "end": 1, "clocks": 5}, id="clocks that are a number"),
        pytest.param({"n": 0, "start": 0, "end": 1, "cycles": {}}, id="cycles that are a mapping"),
        pytest.param({"n": 0, "at": 1, "fault": "no such reason"}, id="an unknown reason"),
        pytest.param({"n": 7, "at": 1, "fault": "lost"}, id="an unknown GPU"),
        pytest.param({"n": -1, "at": 1, "fault": "lost"}, id="a negative GPU"),
        pytest.param("[" * 100_000, id="deep nesting"),
        pytest.param('{"n":' * 100_000, id="deeper nesting"),
        pytest.param("5", id="a number"),
        pytest.param("null", id="null"),
        pytest.param("", id="nothing"),
    ],
)
def test_a_damaged_line_costs_itself_and_is_told(path: Path, bad: object) -> None:
    found = plain(path, GOOD_GPU, GOOD_FAULT, bad, GOOD_FAULT)
    assert len(list(found.events)) == 2
    assert len(found.damaged) == 1
    assert found.damaged[0].startswith("line 4: ")


@pytest.mark.parametrize("bad", [b"nonsense", b'{"gpu":5}', b'{"gpu":{"index":[]}}'])
def test_a_damaged_gpu_does_not_lend_its_readings_to_another(path: Path, bad: bytes) -> None:
    write(path, [[fault(1.0, device=gpu(0)), fault(2.0, device=gpu(1)), fault(3.0, device=gpu(0))]])
    lines = gzip.decompress(path.read_bytes()).split(b"\n")
    assert lines[1].startswith(b'{"gpu":')
    path.write_bytes(b"\n".join([lines[0], bad, *lines[2:]]))
    assert events(path) == [fault(2.0, device=gpu(1))]


# Files of other programs.


def other_version(path: Path) -> None:
    path.write_text(FIRST_LINE.replace('"version": 1', '"version": 2') + "\n")


FOREIGN: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "random bytes": lambda path: path.write_bytes(random.Random(1).randbytes(100_000)),
    "gzip of something else": lambda path: path.write_bytes(gzip.compress(b"something\n" * 99)),
    "gzip of nothing": lambda path: path.write_bytes(gzip.compress(b"")),
    "gzip's mark alone": lambda path: path.write_bytes(b"\x1f\x8b"),
    "gzip of random bytes": lambda path: path.write_bytes(
        gzip.compress(random.Random(1).randbytes(100_000))
    ),
    "JSON of something else": lambda path: path.write_text('{"format": "har"}\n'),
    "a JSON list": lambda path: path.write_text("[1, 2]\n"),
    "another version": other_version,
    "a header of half": lambda path: path.write_text('{"format":"ofu-recording","version":1}\n'),
    "a line without end": lambda path: path.write_text(FIRST_LINE),
    "a huge line": lambda path: path.write_bytes(b"0" * (recording.MAX_LINE_BYTES * 3)),
    "a deep line": lambda path: path.write_text("[" * 100_000 + "\n"),
    "a folder": lambda path: path.mkdir(),
    "nothing": lambda path: path.exists(),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_said_to_be_one(path: Path, kind: str) -> None:
    FOREIGN[kind](path)
    unreadable(path)


def test_another_version_is_named(path: Path) -> None:
    other_version(path)
    assert "version 2" in unreadable(path).detail


def test_what_follows_a_huge_line_is_not_read(path: Path) -> None:
    huge = '{"n":0,"detail":"' + "x" * (2 * recording.MAX_LINE_BYTES) + '"}'
    assert len(list(plain(path, GOOD_GPU, GOOD_FAULT, huge).events)) == 1


# Memory.

MANY = 100_000_000


def packed(parts: Sequence[tuple[bytes, int]]) -> bytes:
    """Gzip of pieces, each repeated, without the plain text ever being held."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    found = [compressor.compress(FIRST_LINE.encode() + b"\n")]
    for piece, times in parts:
        found += [compressor.compress(piece) for _ in range(times)]
    return b"".join([*found, compressor.flush()])


def peak_bytes(path: Path) -> int:
    """The most memory that reading the file through takes at once."""
    tracemalloc.start()
    try:
        found = recording.read(path)
        for _ in found.events:
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_compressed_line_of_100_mb_is_not_held(path: Path) -> None:
    path.write_bytes(packed([(bytes(1_000_000), MANY // 1_000_000)]))
    assert path.stat().st_size < 200_000
    assert peak_bytes(path) < 8 << 20


def test_a_first_line_of_100_mb_is_not_held(path: Path) -> None:
    path.write_bytes(gzip.compress(bytes(MANY), 1))
    tracemalloc.start()
    unreadable(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_the_tale_of_the_damage_is_bounded(path: Path) -> None:
    path.write_bytes(packed([(b"\n" * 100_000, 1)]))
    assert peak_bytes(path) < 4 << 20


def test_what_follows_the_end_of_the_compressed_part_is_not_held(path: Path) -> None:
    path.write_bytes(packed([]) + bytes(16_000_000))
    assert peak_bytes(path) < 4 << 20


def test_a_long_recording_is_read_without_being_held(path: Path) -> None:
    write(path, [[reading(5 * i, 5 * i + 5)] for i in range(2000)])
    assert peak_bytes(path) < 4 << 20


def test_a_file_that_cannot_be_opened_is_said_to_be_unreadable(path: Path) -> None:
    path.symlink_to(path)
    unreadable(path)
