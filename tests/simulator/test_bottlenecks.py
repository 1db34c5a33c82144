"""What the time without tensor work was about: bounds that hold the truth, and names that are right."""

from __future__ import annotations

import functools
import random

import pytest

from ofu_exporter.ofu.bottlenecks import certain_bottleneck
from ofu_exporter.ofu.peak_split import split
from ofu_exporter.values.gpu import LinkPeaks
from ofu_exporter.values.losses import NO_LOSSES, Bottleneck, Loss, LossSums
from ofu_exporter.values.reading import Activity, Window
from tests.simulator.curve import TENSOR_CLOCK_MHZ
from tests.simulator.phases import KERNELS, LINK_BYTES, PAUSED, Phases, Truth

JOBS, SECONDS, WINDOW = 400, 60.0, 5.0
FIELDS = {
    Bottleneck.MEMORY: "memory",
    Bottleneck.LINKS: "links",
    Bottleneck.ARITHMETIC: "arithmetic",
    Bottleneck.NONE: "none",
}


def mixed(chance: random.Random) -> Phases:
    """A job of two to five kinds of kernel, one of which it may run most of the time."""
    kinds = chance.sample([each for each in KERNELS if each is not PAUSED], chance.randint(2, 5))
    mix = {kernel: chance.uniform(0.2, 3.0) for kernel in kinds}
    mix[kinds[0]] *= chance.choice((1, 4, 20))
    mix[PAUSED] = chance.uniform(0.0, 2.0)
    return Phases(mix, chance.choice(("mild", "harsh")), SECONDS, str(chance.random()))


@functools.cache
def jobs() -> list[tuple[LossSums, Truth]]:
    """What the counters of a job add up to, and what it truly did."""
    chance = random.Random("causes")
    return [(counted(job), job.truth(0.0, SECONDS)) for job in (mixed(chance) for _ in range(JOBS))]


def counted(job: Phases) -> LossSums:
    sums, at = NO_LOSSES, 0.0
    while at < SECONDS:
        means = job.means(at, at + WINDOW)
        activity = Activity(
            engine=means.engine,
            sm=means.sm,
            dram=means.dram,
            fp64=0.0,
            fp32=means.fp32,
            fp16=0.0,
            integer=0.0,
            pcie_sent=0.0,
            pcie_received=0.0,
            nvlink_sent=means.link * LINK_BYTES,
            nvlink_received=means.link * LINK_BYTES,
        )
        ofu = means.tensor * means.mhz / TENSOR_CLOCK_MHZ
        window = Window(at, at + WINDOW, means.tensor, {}, means.mhz * 1e6, ofu, activity=activity)
        sums = sums.plus(split(window, LinkPeaks(63e9, LINK_BYTES))[0].sums)
        at += WINDOW
    return sums


@pytest.mark.slow
@pytest.mark.parametrize("bottleneck", list(Bottleneck))
def test_the_bounds_hold_the_truth_of_95_jobs_of_100(bottleneck: Bottleneck) -> None:
    inside = sum(
        sums.bottlenecks[bottleneck].lowest - 1e-6
        <= getattr(truth, FIELDS[bottleneck])
        <= sums.bottlenecks[bottleneck].highest + 1e-6
        for sums, truth in jobs()
    )
    assert inside >= 0.95 * JOBS


@pytest.mark.slow
def test_a_bottleneck_that_is_named_is_the_largest_in_99_of_100() -> None:
    found = [(certain_bottleneck(sums.bottlenecks), truth) for sums, truth in jobs()]
    told = [(bottleneck, truth) for bottleneck, truth in found if bottleneck is not None]
    right = [
        bottleneck
        for bottleneck, truth in told
        if getattr(truth, FIELDS[bottleneck])
        == max(getattr(truth, each) for each in FIELDS.values())
    ]
    assert len(right) >= 0.99 * len(told)
    assert len(told) >= 0.1 * JOBS
    assert {*right} >= {Bottleneck.MEMORY, Bottleneck.LINKS, Bottleneck.ARITHMETIC}


@pytest.mark.slow
def test_bounds_are_within_what_they_are_about() -> None:
    for sums, _ in jobs():
        for lowest, highest in sums.bottlenecks.values():
            assert 0.0 <= lowest <= highest <= sums.lost[Loss.NO_TENSOR] + 1e-6
