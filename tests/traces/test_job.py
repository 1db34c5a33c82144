"""The time and the findings of real traces, beside what HolisticTraceAnalysis says of them; many files at once."""

from __future__ import annotations

import gzip
import json
import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.traces import job
from ofu_exporter.values.trace import MOST_STEPS, TraceLimits, TraceResult
from tests.traces.trace_maker import ADD, AMPERE, PRODUCT, Maker

REAL = Path(__file__).parents[3] / "shared" / "samples" / "kineto"
real = pytest.mark.skipif(not REAL.is_dir(), reason="needs the real traces beside the checkout")


class Shares(NamedTuple):
    """Percent of the time between the first and the last kernel."""

    idle: float
    computing: float
    exposed: float
    hidden: float


REFERENCE = {
    "a100-training": Shares(16.20, 61.23, 22.57, 47.0),
    "v100-training": Shares(7.47, 68.31, 24.23, 68.8),
    "v100-ddp-2gpu": Shares(46.08, 35.55, 18.37, 0.0),
    "v100-one-gpu": Shares(2.63, 96.75, 0.62, math.nan),
    "a100-nccl": Shares(77.78, 17.26, 4.97, 14.3),
    "a100-8gpu-host-bound": Shares(69.44, 14.15, 16.41, 1.4),
    "a100-sampled-rank0": Shares(53.56, 17.71, 28.74, 11.8),
    "a100-sampled-rank1": Shares(54.72, 22.57, 22.72, 20.1),
}
"""`get_temporal_breakdown` and `get_comm_comp_overlap` of HolisticTraceAnalysis 0.5.0."""


def trace(name: str) -> Path:
    return REAL / f"{name}.json.gz"


def read(*paths: Path) -> TraceResult:
    return job.read(paths)[0]


@cache
def of_real(*names: str) -> TraceResult:
    """The result of real traces, of which each is looked at by several tests."""
    return read(*map(trace, names))


def ours(name: str) -> Shares:
    (rank,) = of_real(name).ranks
    parts, hidden = rank.parts, rank.hidden_communication
    assert sum(parts) == pytest.approx(1)
    shares = (parts.idle, parts.tensor + parts.other, parts.communication + parts.copies)
    return Shares(*(100 * each for each in (*shares, math.nan if hidden is None else hidden)))


def plainly(name: str, as_reference: bool) -> Shares:
    """The shares by merging intervals, and as the reference has them: it rounds times to whole microseconds, starts up
    and ends down, and leaves out what was launched before the trace began although it ran."""
    events = events_of(name)
    steps = [
        e["ts"] for e in events if str(e.get("name")).startswith("ProfilerStep") and "dur" in e
    ]
    calls = {
        e["args"]["correlation"]: e["ts"]
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    kinds: dict[str, list[tuple[float, float]]] = {"compute": [], "communication": [], "copy": []}
    for event in events:
        if event.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset"):
            continue
        called = calls.get(event["args"]["correlation"])
        if (called is None and as_reference) or (called or event["ts"]) >= max(steps):
            continue
        start, end = event["ts"], event["ts"] + event["dur"]
        times = (math.ceil(start), math.floor(end)) if as_reference else (start, end)
        is_nccl = "nccl" in event["name"]
        kind = "copy" if event["cat"] != "kernel" else "communication" if is_nccl else "compute"
        kinds[kind].append(times)
    compute, communication = merged(kinds["compute"]), merged(kinds["communication"])
    everything = merged([each for some in kinds.values() for each in some])
    span, busy, computing = everything[-1][1] - everything[0][0], total(everything), total(compute)
    both = total(merged(kinds["compute"] + kinds["communication"]))
    hidden = 1 - (both - computing) / total(communication) if communication else math.nan
    shares = ((span - busy) / span, computing / span, (busy - computing) / span, hidden)
    return Shares(*(100 * each for each in shares))


@cache
def events_of(name: str) -> list[dict[str, Any]]:
    read: dict[str, Any] = json.loads(gzip.decompress(trace(name).read_bytes()))
    return [event for event in read["traceEvents"] if event.get("cat") in KINDS]


KINDS = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "user_annotation")


def merged(some: list[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for start, end in sorted(some):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def total(some: list[tuple[float, float]]) -> float:
    return sum(end - start for start, end in some)


@pytest.mark.slow
@real
@pytest.mark.parametrize("name", REFERENCE)
def test_the_time_of_a_real_trace_is_what_its_events_add_up_to(name: str) -> None:
    assert ours(name) == pytest.approx(plainly(name, as_reference=False), abs=0.01, nan_ok=True)


@pytest.mark.slow
@real
@pytest.mark.parametrize("name", REFERENCE)
def test_where_the_reference_differs_it_leaves_something_out(name: str) -> None:
    assert plainly(name, as_reference=True) == pytest.approx(REFERENCE[name], abs=0.06, nan_ok=True)


EXACT = sorted(
    REFERENCE.keys() - {"v100-training", "v100-one-gpu", "a100-nccl", "a100-8gpu-host-bound"}
)


@pytest.mark.slow
@real
@pytest.mark.parametrize("name", EXACT)
def test_elsewhere_both_agree_within_half_a_point(name: str) -> None:
    assert ours(name) == pytest.approx(REFERENCE[name], abs=0.5)


@pytest.mark.slow
@real
@pytest.mark.parametrize(
    ("files", "found", "not_found"),
    [
        (["v100-ddp-2gpu"], {"fp32_products", "all_reduce_not_hidden", "host_bound"}, set()),
        (["a100-nccl"], {"layout_copies", "host_bound"}, set()),
        (["a100-8gpu-host-bound"], {"host_bound", "all_to_all"}, {"fp32_products"}),
        (["v100-one-gpu"], {"fp32_products"}, {"host_bound", "all_reduce_not_hidden"}),
        (["a100-sampled-rank0", "a100-sampled-rank1"], {"host_bound"}, {"data_loader"}),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_what_is_known_of_a_real_trace_is_found(
    files: list[str], found: set[str], not_found: set[str]
) -> None:
    result = of_real(*files)
    names = {each.finding for each in result.findings}
    assert found <= names
    assert not names & not_found
    assert sum(each.share for each in result.findings) <= 1


@pytest.mark.slow
@real
def test_of_two_real_ranks_the_later_one_is_named() -> None:
    """By hand: of the collectives that end on both within 0.5 ms, all five begin on rank 1 last."""
    result = of_real("a100-sampled-rank0", "a100-sampled-rank1")
    assert result.slowest_rank == 1
    (slow,) = [each for each in result.findings if each.finding == "slow_rank"]
    assert slow.evidence.startswith("rank 1 came last to 5 of 5 collectives")


def sound(rank: int) -> Maker:
    maker = Maker(rank=rank)
    for _ in range(3):
        maker.kernel(PRODUCT, 300)
        maker.kernel(ADD, 100, "aten::add")
    return maker


def test_a_folder_is_one_job_and_a_bad_file_costs_the_others_nothing(tmp_path: Path) -> None:
    for rank in range(3):
        sound(rank).write(tmp_path / f"trace_{rank}.json.gz")
    (tmp_path / "trace_3.json").write_text('{"traceEvents": [{"cat": "kernel"')
    result = read(tmp_path)
    assert [each.rank for each in result.ranks] == [0, 1, 2]
    assert [each.parts.tensor > 0.7 for each in result.ranks] == [True] * 3
    ((path, why),) = result.unread.items()
    assert path.endswith("trace_3.json")
    assert "cut short" in why


def test_a_folder_without_traces_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no files \*\.json"):
        read(tmp_path)


def test_no_file_that_can_be_read_is_an_error(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.json").write_text("{")
    with pytest.raises(ConfigError, match=r"none of 2 files can be read: .*cut short"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (TraceLimits(unpacked_bytes=1000), "it is longer than 1,000 characters"),
        (TraceLimits(events=4096), "it has more than 4,096 events"),
        (TraceLimits(seconds=0.0), "it takes more than 0 s of CPU time to read"),
    ],
)
def test_a_trace_beyond_its_limits_is_refused_in_a_sentence(
    limits: TraceLimits, why: str, tmp_path: Path
) -> None:
    maker = Maker()
    for _ in range(2000):
        maker.kernel(PRODUCT, 300)
    path = maker.write(tmp_path / "trace.json.gz")
    with pytest.raises(ConfigError, match=rf"trace\.json\.gz: {why}"):
        job.read([path], limits)


def test_kernels_more_than_a_day_apart_are_of_no_one_trace(tmp_path: Path) -> None:
    maker = Maker()
    maker.kernel(PRODUCT, 300)
    maker.kernel(PRODUCT, 300, after=2 * 86400e6)
    with pytest.raises(ConfigError, match=r"two\.json: its kernels are more than a day apart"):
        read(maker.write(tmp_path / "two.json"))


def test_of_thousands_of_files_it_is_said_in_few_lines_why_they_were_not_read(
    tmp_path: Path,
) -> None:
    sound(0).write(tmp_path / "0.json")
    for number in range(1, 1100):
        (tmp_path / f"x{number}.json").write_text("{")
    few = job.read([tmp_path / "0.json", *(tmp_path / f"x{n}.json" for n in range(1, 21))])[0]
    assert {*few.unread} == {str(tmp_path / f"x{n}.json") for n in range(1, 21)}
    unread = read(tmp_path).unread
    assert len(unread) == job.MOST_UNREAD
    assert "76 files after the first 1,024" in unread
    assert "1,005 more files, for such reasons" in unread


def test_a_step_has_as_many_launches_as_it_has_in_however_long_a_trace(tmp_path: Path) -> None:
    maker = Maker()
    for number in range(200):
        with maker.during(f"ProfilerStep#{number}"):
            maker.kernel(ADD, 1000, "aten::add")
    result = read(maker.write(tmp_path / "long.json"))
    assert len(result.ranks[0].steps) == MOST_STEPS
    (elementwise,) = result.findings
    assert elementwise.evidence.startswith("199 (1 a step) launches of ")


def test_no_instructions_are_older_than_those_of_two_different_gpus(tmp_path: Path) -> None:
    for capability in (80, 90):
        maker = Maker()
        maker.kernel(AMPERE, 1000)
        maker.write(tmp_path / f"{capability}.json", capability=capability)
    assert [each.finding for each in read(tmp_path / "90.json").findings] == ["older_instructions"]
    assert read(tmp_path).findings == ()
