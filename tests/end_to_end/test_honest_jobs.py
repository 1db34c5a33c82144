"""2,000 honest jobs that leave pauses out of their reports, whatever their windows are: nobody is accused.

What a job did is a closed form here; windows are given as sources give them, with a clock that is noisy.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from typing import NamedTuple

import pytest

from ofu_exporter.ofu.divergence import compare_sums
from ofu_exporter.reports.coverage import Coverage, extended, recent, summed
from ofu_exporter.values.gpu import GpuKey
from ofu_exporter.values.job import GpuUsage, ObservedSpan
from ofu_exporter.values.reported import Compared, Verdict

pytestmark = pytest.mark.slow

HORIZON = 600.0
CLOCK_NOISE = 0.024
"""Of one read, relative (arXiv:2605.20799, section IV-C: 32 of 1352 MHz)."""


class Honest(NamedTuple):
    """A job that works and pauses, over and over, and reports each stretch of work."""

    work: float
    pause: float
    window: float
    part: float
    """Seconds between two samples in a window; as long as a window where there are none."""
    ofu: float
    share: float
    """Its MFU over its OFU: 0.86 to 0.97 on an H100 (docs/hardware.md)."""
    seed: int

    @property
    def cycle(self) -> float:
        return self.work + self.pause

    def used(self, until: float) -> float:
        """Utilization seconds."""
        cycles, rest = divmod(until, self.cycle)
        return self.ofu * (cycles * self.work + min(rest, self.work))


def any_job(seed: int) -> Honest:
    chance = random.Random(seed)
    window = chance.choice([1.0, 5.0, 30.0])
    return Honest(
        work=math.exp(chance.uniform(math.log(3), math.log(600))),
        pause=chance.choice([0.0, chance.uniform(0.5, 4), chance.uniform(4, 30)]),
        window=window,
        part=chance.choice([0.5, 1.0, window]),
        ofu=chance.uniform(0.1, 0.65),
        share=chance.uniform(0.86, 0.97),
        seed=seed,
    )


def usage(job: Honest, until: float) -> GpuUsage:
    chance = random.Random(job.seed)
    spans, at = [], chance.uniform(0, job.window)
    reads = max(1.0, job.part / 0.5)
    error = CLOCK_NOISE / math.sqrt(reads)
    done = job.used(at)
    while at < until:
        end = at + job.part * chance.uniform(0.7, 1.3)
        before, done = done, job.used(end)
        used = (done - before) * chance.gauss(1, error)
        variance = (used * error) ** 2
        spans.append(ObservedSpan(at, end, Compared(0.0, used, end - at, variance)))
        at = end
    return GpuUsage("0", GpuKey("GPU-0", ""), recent=tuple(spans))


def verdicts(job: Honest, factor: float = 1.0) -> set[Verdict]:
    """What is said of the job at any report, over ten minutes and more."""
    chance = random.Random(job.seed + 1)
    first = math.ceil(40 / job.cycle)
    count = max(2, int(700 / job.cycle))
    gpu = usage(job, (first + count) * job.cycle + 40)
    account, found, previous = Coverage(), set(), None
    for number in range(first, first + count):
        start, end = number * job.cycle, number * job.cycle + job.work
        mfu = job.ofu * job.share * factor * chance.gauss(1, 0.005)
        account = extended(account, start, end, mfu)
        if number % max(1, count // 20) == 0 or number == first + count - 1:
            now = end + chance.uniform(0, job.cycle)
            known = bisect_right(gpu.recent, now, key=lambda span: span.end)
            seen = GpuUsage("0", gpu.key, recent=gpu.recent[:known])
            account = summed(account, [seen], now, HORIZON)
            compared = compare_sums(recent(account, now, HORIZON), previous=previous)
            previous = compared.verdict if compared else None
            found |= {previous} if previous else set()
    return found


def test_no_honest_job_is_accused() -> None:
    accused = [
        job
        for job in map(any_job, range(2000))
        if {Verdict.MFU_ABOVE_OFU, Verdict.MFU_BELOW_OFU} & verdicts(job) - allowed(job)
    ]
    assert accused == []


def allowed(job: Honest) -> set[Verdict]:
    """An MFU that is lower than OFU by more than the limit is said to be."""
    is_below = (1 - job.share) * job.ofu > 0.04
    return {Verdict.MFU_BELOW_OFU} if is_below else set()


def test_most_jobs_that_count_a_third_too_much_are_found() -> None:
    jobs = [job for job in map(any_job, range(300)) if job.ofu > 0.3 and job.work > 20]
    found = [job for job in jobs if Verdict.MFU_ABOVE_OFU in verdicts(job, 1.33 / job.share)]
    assert len(found) >= 0.8 * len(jobs)
