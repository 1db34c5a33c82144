"""The shipped fleets are what they say: the paper's has its jobs, and the small one has a bit of everything."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pytest

from ofu_exporter.fleet.simulation import spec
from ofu_exporter.fleet.simulation.fleet import SimulatedFleet, fleet_of
from ofu_exporter.fleet.simulation.truth import JobTruth


class Row(NamedTuple):
    """A row of table III of arXiv:2605.20799: percent, and percentage points."""

    jobs: int
    mfu: float
    error: float


TABLE = {
    8: Row(6, 28.7, 7.5),
    16: Row(48, 23.8, 12.2),
    64: Row(52, 23.6, 2.2),
    128: Row(48, 24.3, 4.5),
    256: Row(76, 20.1, 9.1),
    288: Row(65, 40.1, 18.0),
    512: Row(144, 23.9, 3.6),
    736: Row(11, 24.2, 3.6),
    768: Row(57, 16.9, 1.2),
    1024: Row(49, 35.0, 4.1),
    1536: Row(10, 12.4, 0.3),
    2944: Row(33, 24.0, 2.6),
    5888: Row(9, 13.6, 1.5),
}


def shipped(name: str) -> SimulatedFleet:
    return fleet_of(spec.read(Path(name)))


@pytest.fixture(scope="module")
def paper() -> SimulatedFleet:
    return shipped("paper")


def reported(job: JobTruth) -> float:
    """The MFU that a job reports, without noise."""
    return 100 * job.job.draft.mfu * job.job.draft.reported_over_right


def error(job: JobTruth) -> float:
    return abs(reported(job) - 100 * job.job.draft.ofu)


def of_mistake(fleet: SimulatedFleet, mistake: str) -> list[JobTruth]:
    reports = ((job, job.job.draft.group.report) for job in fleet.jobs)
    return [job for job, report in reports if report and report.mistake == mistake]


@pytest.mark.slow
def test_the_papers_fleet_has_its_jobs(paper: SimulatedFleet) -> None:
    assert len(paper.jobs) == 608
    assert len(paper.spec.jobs) == 80
    assert len({job.job.draft.user for job in paper.jobs}) == 26
    assert paper.spec.length == 14 * 1440
    sizes = [job.job.size for job in paper.jobs]
    assert {size: sizes.count(size) for size in TABLE} == {n: row.jobs for n, row in TABLE.items()}


@pytest.mark.slow
@pytest.mark.parametrize("size", TABLE)
def test_jobs_of_a_size_report_as_in_the_paper(size: int, paper: SimulatedFleet) -> None:
    jobs = [job for job in paper.jobs if job.job.size == size]
    assert fmean(map(reported, jobs)) == pytest.approx(TABLE[size].mfu, abs=1.0)
    assert fmean(map(error, jobs)) == pytest.approx(TABLE[size].error, abs=1.0)


@pytest.mark.slow
def test_the_two_miscalculations_are_in_82_jobs(paper: SimulatedFleet) -> None:
    latent, hybrid = (
        of_mistake(paper, mistake) for mistake in ("latent_moe_full_hidden", "hybrid_as_dense")
    )
    assert len(latent) + len(hybrid) == 82
    assert {job.job.size for job in latent} == {288}
    for jobs, mfu, ofu in ((latent, 54.27, 25.58), (hybrid, 24.51, 15.56)):
        assert fmean(map(reported, jobs)) == pytest.approx(mfu, abs=0.8)
        assert fmean(100 * job.job.draft.ofu for job in jobs) == pytest.approx(ofu, abs=0.5)
    assert fmean(100 * job.job.draft.mfu for job in latent) == pytest.approx(18.45, abs=0.3)


@pytest.mark.slow
def test_errors_are_spread_as_in_the_paper(paper: SimulatedFleet) -> None:
    errors = [error(job) for job in paper.jobs]
    assert sum(each > 20 for each in errors) / 608 == pytest.approx(0.067, abs=0.01)
    assert sum(each <= 10 for each in errors) / 608 == pytest.approx(0.794, abs=0.05)


def test_the_small_fleet_has_a_bit_of_everything() -> None:
    made = shipped("small")
    groups = [job.job.draft.group for job in made.jobs]
    assert {group.work for group in groups} == {"training", "inference", "idle"}
    assert any(group.changes for group in groups)
    assert any(group.straggler for group in groups)
    assert any(group.crashes for group in groups)
    assert any(group.mig for group in groups)
    assert any(group.report and group.report.mistake for group in groups)
    assert len({node.model.key for node in made.nodes}) == 2
    assert len({fault.kind for faults in made.faults.values() for fault in faults}) == 5
    assert all(job.job.draft.user for job in made.jobs)
