"""The rank that others wait for is found, whatever the clocks of the nodes show."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ofu_exporter.traces import job
from ofu_exporter.traces.findings import Waiting
from ofu_exporter.traces.ranks import Collective, waiting
from ofu_exporter.values.trace import TraceResult
from tests.traces.trace_maker import ADD, ALL_REDUCE, COMPUTE, NCCL, PRODUCT, Maker

TRANSFER, ROUNDS = 300.0, 40


def run(skews: list[float], extra: dict[int, float], folder: Path, missing: int = 0) -> float:
    """Write the traces of some ranks, of which some compute longer before each collective. Returns the share of all
    ranks' time that the others waited. `missing` records of collectives are lost on each rank."""
    random = Random(7)
    makers = [Maker(rank=rank, skew=skew) for rank, skew in enumerate(skews)]
    waited = 0.0
    for _ in range(ROUNDS):
        for rank, maker in enumerate(makers):
            maker.kernel(PRODUCT, 2000 + extra.get(rank, 0.0) + random.uniform(0, 30))
        arrivals = [maker.free[COMPUTE] + 10 for maker in makers]
        end = max(arrivals) + TRANSFER
        for maker, arrival in zip(makers, arrivals, strict=True):
            waited += max(arrivals) - arrival
            maker.kernel(ALL_REDUCE, end - arrival, "nccl:all_reduce", NCCL, after=arrival)
            maker.kernel(ADD, 50, "aten::add", after=end)
    for maker in makers:
        kernels = [each for each in maker.events if each["name"] == ALL_REDUCE]
        for lost in random.sample(kernels, missing):
            maker.events.remove(lost)
        maker.write(folder / f"{maker.host:.0f}_{id(maker)}.json")
    return waited / sum(maker.span() for maker in makers)


def read(folder: Path) -> TraceResult:
    return job.read([folder])[0]


@pytest.mark.parametrize("missing", [0, 5])
@pytest.mark.parametrize(
    "skews", [[0.0, 0.0], [0.0, 3.7e6, -9e3, 12.0], [5e5, 0.0, 1e6, 2e6, 8.0, 9e7, 3.0, 77.0]]
)
def test_the_rank_that_computes_longer_is_named_with_its_share(
    skews: list[float], missing: int, tmp_path: Path
) -> None:
    share = run([1e8 + skew for skew in skews], {1: 800.0}, tmp_path, missing)
    result = read(tmp_path)
    assert result.slowest_rank == 1
    slow = next(each for each in result.findings if each.finding == "slow_rank")
    assert slow.share == pytest.approx(share * (1 - missing / ROUNDS), abs=0.02)
    assert result.findings[0] == slow


def test_a_rank_that_was_traced_twice_is_compared_with_none(tmp_path: Path) -> None:
    run([0.0, 0.0], {1: 800.0}, tmp_path)
    one = next(tmp_path.iterdir())
    (tmp_path / "again.json").write_bytes(one.read_bytes())
    assert read(tmp_path).slowest_rank is None


def test_where_no_rank_is_slower_none_is_named(tmp_path: Path) -> None:
    run([0.0, 1e6, 2e6, 3e6], {}, tmp_path)
    result = read(tmp_path)
    assert result.slowest_rank is None
    assert "slow_rank" not in {each.finding for each in result.findings}


def test_ranks_without_common_collectives_say_nothing() -> None:
    one = [Collective("all-reduce", 0, 10.0 * n, 10.0 * n + 5) for n in range(9)]
    other = [Collective("all-gather", 0, 10.0 * n, 10.0 * n + 5) for n in range(9)]
    assert waiting({0: one, 1: other}) is None
    assert waiting({0: one}) is None
    assert waiting({}) is None
    assert waiting({0: one[:2], 1: one[:2]}) is None


def test_three_common_collectives_are_enough() -> None:
    """Of 5 us each on rank 0, which waited 2 of them for rank 1 each time."""
    one = [Collective("all-reduce", 0, 10.0 * n, 10.0 * n + 5) for n in range(3)]
    late = [each._replace(start=each.start + 2) for each in one]
    assert waiting({0: one, 1: late}) == Waiting(1, 6 / (15 + 9), 3, 3)


def test_no_rank_waits_for_longer_than_its_collective_takes() -> None:
    """Their ends may be further apart than they are long. Of 10 us each, rank 0 came last to four, by 300 us."""
    one = [Collective("all-reduce", 0, 1e4 * n, 1e4 * n + 10) for n in range(10)]
    ahead = [
        each._replace(start=each.start + 300, end=each.end + 300) if n < 6 else each
        for n, each in enumerate(one)
    ]
    waited = waiting({0: one, 1: ahead})
    assert waited is not None
    assert waited.share == pytest.approx(4 * 10 / (2 * 10 * 10))


@pytest.mark.parametrize(("apart", "common"), [(500.0, 10), (501.0, 9)])
def test_one_collective_ends_on_two_ranks_within_half_a_millisecond(
    apart: float, common: int
) -> None:
    one = [Collective("all-reduce", 0, 1e4 * n, 1e4 * n + 5e3) for n in range(10)]
    late = [each._replace(start=each.start + 2e3) for each in one]
    late[3] = late[3]._replace(end=late[3].end + apart)
    waited = waiting({0: one, 1: late})
    assert (waited and waited.of) == common


@pytest.mark.parametrize(("late", "slowest"), [(6, 1), (5, None)])
def test_a_rank_is_slow_that_is_last_in_three_of_five_collectives(
    late: int, slowest: int | None
) -> None:
    ranks = {
        rank: [
            Collective("all-reduce", 0, 10.0 * n + 2 * ((n < late) == bool(rank)), 10.0 * n + 5)
            for n in range(10)
        ]
        for rank in (0, 1)
    }
    waited = waiting(ranks)
    assert (waited and waited.rank) == slowest
