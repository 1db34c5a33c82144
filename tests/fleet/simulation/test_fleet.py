"""The shipped fleets are what they say: the paper's has its jobs, and the small one has a bit of everything."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pytest

from ofu_exporter.fleet.simulation import spec
from ofu_exporter.fleet.simulation.fleet import JobTruth, SimulatedFleet, fleet_of
from tests.helpers.fleet_truth import facts
from tests.helpers.fleets import HOUR, NODES, ONE_JOB, fleet


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
    return fleet_of(spec.read_spec(Path(name)))


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


def truth(rest: str, folder: Path, faults: str = "") -> JobTruth:
    return fleet(f"{ONE_JOB}{rest}}}\n{faults}", folder).jobs[0]


def test_a_job_does_what_it_says_all_the_time(tmp_path: Path) -> None:
    job = truth(", left_out: 0.02", tmp_path)
    assert job.mean(0, 24 * HOUR) == pytest.approx(0.4)
    assert job.mfu_over_ofu == pytest.approx(0.38 / 0.4)
    assert job.gpu_shares == 8


def test_noise_goes_from_minute_to_minute_and_leaves_the_mean(tmp_path: Path) -> None:
    job = fleet(NODES + "jobs:\n  - {name: a, gpus: 8, ofu: 0.4, noise: 0.05}\n", tmp_path).jobs[0]
    assert job.mean(0, 24 * HOUR) == pytest.approx(0.4, rel=4 * 0.05 / 1440**0.5)
    assert len(set(job.ofu)) > 1000


def test_a_change_holds_from_its_minute_on(tmp_path: Path) -> None:
    job = truth(", changes: [{at: 2h, factor: 0.5}, {at: 3h, factor: 0.5}]", tmp_path)
    assert job.mean(0, 2 * HOUR) == pytest.approx(0.4)
    assert job.mean(2 * HOUR, 3 * HOUR) == pytest.approx(0.2)
    assert job.mean(3 * HOUR, 4 * HOUR) == pytest.approx(0.1)


def test_a_crashing_job_does_nothing_in_its_pauses(tmp_path: Path) -> None:
    job = truth(", lasts: 126m, crashes: {every: 1h, pause: 3m}", tmp_path)
    assert job.job.runs == ((0, 60), (63, 123))
    assert job.mean(HOUR, HOUR + 180) == 0
    assert sum(job.is_running) == 120


def test_one_gpu_with_a_low_clock_holds_up_all(tmp_path: Path) -> None:
    job = truth(", clock_mhz: 1400, straggler: {gpu: 5, clock_mhz: 700}", tmp_path)
    assert job.mean(0, HOUR) == pytest.approx(0.2)
    assert job.straggler == (1, 1)
    assert job.limit_hz(1, 1) == 700e6
    assert job.share_of(1, 1) == 1


def test_one_gpu_that_does_less_lowers_the_mean_by_its_part(tmp_path: Path) -> None:
    job = truth(", straggler: {gpu: 0, share: 0.2}", tmp_path)
    assert job.mean(0, HOUR) == pytest.approx(0.4)
    assert job.mean_share == pytest.approx((7 + 0.2) / 8)
    assert (job.share_of(0, 0), job.share_of(0, 1)) == (0.2, 1.0)


def test_a_limited_clock_holds_up_the_job_for_as_long_as_it_lasts(tmp_path: Path) -> None:
    fault = "faults:\n  - {fault: clock_limit, nodes: [n2], gpus: [1], clock_mhz: 350, at: 1h, lasts: 1h}\n"
    job = truth(", clock_mhz: 1400", tmp_path, fault)
    assert job.mean(0, HOUR) == pytest.approx(0.4)
    assert job.mean(HOUR, 2 * HOUR) == pytest.approx(0.1)
    assert job.mean(2 * HOUR, 3 * HOUR) == pytest.approx(0.4)


def test_inference_is_busiest_at_noon(tmp_path: Path) -> None:
    job = truth(", work: inference", tmp_path)
    assert job.mean(0, 60) == pytest.approx(0.1, rel=0.01)
    assert job.mean(12 * HOUR, 12 * HOUR + 60) == pytest.approx(0.4, rel=0.01)
    assert job.mean(0, 24 * HOUR) == pytest.approx(0.4 * (0.25 + 0.75 / 2), rel=0.01)


def test_an_idle_job_does_nothing(tmp_path: Path) -> None:
    job = fleet(NODES + "jobs:\n  - {name: a, gpus: 8, work: idle}\n", tmp_path).jobs[0]
    assert job.mean(0, HOUR) == 0
    assert job.mfu_over_ofu == 0


def test_a_minute_counts_in_part(tmp_path: Path) -> None:
    job = truth(", changes: [{at: 1m, factor: 0.5}]", tmp_path)
    assert job.integral(90) == pytest.approx(60 * 0.4 + 30 * 0.2)
    assert job.integral(-5) == 0
    assert job.integral(1e9) == job.done[-1]


def test_a_jobs_losses_add_up_with_its_ofu(tmp_path: Path) -> None:
    text = ONE_JOB + ", clock_mhz: 1525, idle: 0.1, empty_sms: 0.2}\n"
    (job,) = facts(fleet(text, tmp_path))
    active = 0.4 * 1830 / 1525
    assert job["lost"] == pytest.approx(
        {"clock": active - 0.4, "no_tensor": 0.7 - active, "empty_sms": 0.2, "idle": 0.1}, abs=1e-4
    )
    (idle,) = facts(fleet(text.replace("ofu: 0.4", "work: idle"), tmp_path))
    assert idle["lost"] == pytest.approx(
        {"clock": 0.0, "no_tensor": 0.0, "empty_sms": 0.0, "idle": 1.0}
    )
    (slow,) = facts(fleet(ONE_JOB + ", straggler: {gpu: 5, share: 0.2}}\n", tmp_path))
    assert sum(slow["lost"].values()) + slow["ofu"] == pytest.approx(1.0)


def test_a_report_says_what_its_job_states_and_no_more(tmp_path: Path) -> None:
    def body(stated: str) -> dict[str, object]:
        made = fleet(f"length: 2h\n{ONE_JOB}, report: {{every: 10m{stated}}}}}\n", tmp_path)
        (said,) = filter(None, (made.jobs[0].report_body(20, made.spec, 0.0),))
        return said

    little = body("")
    assert little.keys() == {"job_id", "mfu", "start", "end", "precision", "gpus"}
    assert (little["start"], little["end"], little["gpus"]) == (600.0, 1200.0, 8)
    more = {"framework": "nemo", "recompute": "full", "step": 1200 // 30}
    assert body(", framework: nemo, recompute: full, step: 30") == little | more
