"""The truth of a job is what its lines say, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.fleet.simulation.truth import JobTruth
from tests.helpers.fleet_truth import facts
from tests.helpers.fleets import HOUR, NODES, ONE_JOB, fleet


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
