"""A simulated node's page says what is true of its jobs, as far as its counters can tell."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean, pstdev

import pytest

from ofu_exporter.fleet.simulation.agent import SimulatedCounters
from ofu_exporter.values.reading import Fault, Reading
from tests.helpers.fleets import HOUR, ONE_JOB, agent, fleet, page, values

TENSOR_CLOCK = 1830e6
"""Of an H100: 989.4 TFLOP/s over 132 SMs of 4,096 FLOPs per cycle."""


def readings(rest: str, folder: Path, windows: range, node: int = 0) -> list[list[Reading]]:
    counters = SimulatedCounters(fleet(f"{ONE_JOB}{rest}}}\n", folder), node)
    found = [list(counters.read(window)) for window in windows]
    assert not any(isinstance(each, Fault) for window in found for each in window)
    return [[each for each in window if isinstance(each, Reading)] for window in found]


def test_activity_times_clock_is_the_work(tmp_path: Path) -> None:
    for window in readings("", tmp_path, range(200)):
        for reading in window:
            assert reading.tensor_active is not None
            hz = fmean(clock.hz for clock in reading.clocks)
            assert reading.tensor_active * hz / TENSOR_CLOCK == pytest.approx(0.4, rel=0.08)
    work = [
        (reading.tensor_active or 0.0) * fmean(clock.hz for clock in reading.clocks) / TENSOR_CLOCK
        for window in readings("", tmp_path, range(400))
        for reading in window
    ]
    assert fmean(work) == pytest.approx(0.4, rel=0.002)


def test_clock_reads_scatter_as_the_paper_measured_it(tmp_path: Path) -> None:
    clocks = [
        clock.hz
        for window in readings(", clock_mhz: 1352", tmp_path, range(300))
        for clock in window[0].clocks
    ]
    assert fmean(clocks) == pytest.approx(1352e6, rel=0.03)
    assert pstdev(clocks) == pytest.approx(32e6, rel=0.15)


def test_engine_and_sms_are_busy_for_as_long_as_the_job_keeps_them(tmp_path: Path) -> None:
    rest = ", idle: 0.1, empty_sms: 0.2"
    found = [one.activity for window in readings(rest, tmp_path, range(400)) for one in window]
    assert fmean(each.engine or 0.0 for each in found) == pytest.approx(0.9, abs=0.002)
    assert fmean(each.sm or 0.0 for each in found) == pytest.approx(0.7, abs=0.002)
    assert pstdev(each.engine or 0.0 for each in found) > 0.02
    for window in readings(", start: 1h", tmp_path, range(4)):
        assert all((one.activity.engine, one.activity.sm) == (0.0, 0.0) for one in window)


def test_an_idle_gpu_has_an_idle_clock(tmp_path: Path) -> None:
    for reading, *_ in readings(", start: 1h", tmp_path, range(10)):
        assert reading.tensor_active == 0
        assert {clock.hz for clock in reading.clocks} == {345e6}


def test_windows_are_one_after_another(tmp_path: Path) -> None:
    first, second = (window[0] for window in readings("", tmp_path, range(2)))
    assert (first.start, first.end, second.start) == (0.0, 15.0, 15.0)
    assert [clock.at for clock in first.clocks] == [0.0, 3.75, 7.5, 11.25, 15.0]


def test_a_window_is_the_same_whenever_it_is_read(tmp_path: Path) -> None:
    assert readings("", tmp_path, range(7, 8)) == readings("", tmp_path, range(8))[7:]


def test_no_activity_is_above_1(tmp_path: Path) -> None:
    for window in readings(", clock_mhz: 820", tmp_path, range(300)):
        assert all((reading.tensor_active or 0.0) <= 1 for reading in window)


MODEL = """
models:
  dense:
    seq_len: 4096
    config: {architectures: [LlamaForCausalLM], hidden_size: 512, intermediate_size: 2048, num_hidden_layers: 4,
      num_attention_heads: 8, num_key_value_heads: 8, vocab_size: 1000, tie_word_embeddings: false}
"""


def at(seconds: float, rest: str, folder: Path, node: int = 0) -> str:
    """The page of a node of the fleet with one job."""
    return page(agent(fleet(f"{ONE_JOB}{rest}}}\n", folder), node), seconds)


def ofu(text: str, job: str = 'job_id="1001"') -> float:
    used = values(text, "ofu_job_utilization_seconds_total")[job]
    return used / values(text, "ofu_job_gpu_seconds_total")[job]


def test_every_page_says_that_it_is_simulated(tmp_path: Path) -> None:
    assert values(at(0, "", tmp_path), "ofu_exporter_simulated") == {"": 1.0}


def test_the_ofu_of_a_job_is_the_true_one(tmp_path: Path) -> None:
    text = at(HOUR, "", tmp_path)
    assert ofu(text) == pytest.approx(0.4, rel=0.002)
    assert values(text, "ofu_job_held_gpu_seconds_total")['job_id="1001"'] == 4 * HOUR
    assert values(text, "ofu_job_gpu_seconds_total")['job_id="1001"'] == 4 * HOUR


def test_the_agents_own_error_covers_the_truth(tmp_path: Path) -> None:
    """Two standard errors hold the truth in 95 of 100 windows."""
    made = agent(fleet(f"{ONE_JOB}, changes: []}}\n", tmp_path))
    inside = total = 0
    for window in range(1, 61):
        text = page(made, 15.0 * window)
        found = values(text, "ofu_gpu_utilization_ratio")
        errors = values(text, "ofu_gpu_utilization_stderr_ratio")
        total += len(found)
        inside += sum(abs(found[gpu] - 0.4) <= 2 * errors[gpu] for gpu in found)
    assert inside / total > 0.85


def test_equal_seeds_make_equal_pages_and_others_do_not(tmp_path: Path) -> None:
    once, again = at(600, ", report: {}", tmp_path), at(600, ", report: {}", tmp_path)
    assert once == again
    assert once != at(600, ", report: {}}\nseed: 2\nmodels: {", tmp_path)


def test_a_page_does_not_depend_on_when_it_was_scraped_before(tmp_path: Path) -> None:
    often = agent(fleet(f"{ONE_JOB}, report: {{}}}}\n", tmp_path))
    for second in range(0, 600, 7):
        page(often, second)
    assert page(often, 600) == at(600, ", report: {}", tmp_path)


def test_an_honest_job_agrees(tmp_path: Path) -> None:
    text = at(900, ", report: {}", tmp_path)
    assert values(text, "ofu_job_reported_mfu_ratio")['job_id="1001"'] == pytest.approx(
        0.39, rel=0.01
    )
    assert 'job_id="1001",verdict="agree"' in values(text, "ofu_job_divergence_verdict")


def test_a_mistake_is_reported_and_found_again_by_its_name(tmp_path: Path) -> None:
    report = ", report: {model: dense, mistake: full_attention_counted}}" + MODEL + "# {"
    text = at(900, report, tmp_path)
    reported = values(text, "ofu_job_reported_mfu_ratio")['job_id="1001"']
    assert reported > 0.39 * 1.2
    assert 'job_id="1001",verdict="mfu_above_ofu"' in values(text, "ofu_job_divergence_verdict")
    causes = values(text, "ofu_job_divergence_cause")
    assert 'cause="full_attention_counted",job_id="1001"' in causes


def test_a_job_that_crashes_goes_on_under_its_id(tmp_path: Path) -> None:
    rest = ", crashes: {every: 10m, pause: 2m}"
    before, paused, later = (at(minute * 60, rest, tmp_path) for minute in (8, 11, 22))
    assert not any('job_id="1001"' in labels for labels in values(paused, "ofu_gpu_info"))
    assert any('job_id="1001"' in labels for labels in values(before, "ofu_gpu_info"))
    assert values(later, "ofu_job_held_gpu_seconds_total")['job_id="1001"'] == 4 * 20 * 60


def test_a_straggler_is_seen_on_its_gpu(tmp_path: Path) -> None:
    text = at(HOUR, ", straggler: {gpu: 2, share: 0.25}", tmp_path)
    used = values(text, "ofu_gpu_utilization_seconds_total")
    by_gpu = {gpu.partition(",")[0]: seconds for gpu, seconds in used.items()}
    assert by_gpu['gpu="2"'] / by_gpu['gpu="1"'] == pytest.approx(0.25, rel=0.01)


def test_a_low_clock_is_seen_beside_high_activity(tmp_path: Path) -> None:
    text = at(600, ", clock_mhz: 1400, straggler: {gpu: 2, clock_mhz: 700}", tmp_path)
    active = [*values(text, "ofu_gpu_tensor_active_ratio").values()]
    assert active[2] == pytest.approx(2 * active[1], rel=0.05)
    assert ofu(text) == pytest.approx(0.2, rel=0.01)


@pytest.mark.slow
def test_mig_instances_count_as_their_share(tmp_path: Path) -> None:
    text = (
        "nodes:\n  - {name: m, count: 1, model: H100, gpus: 2, mig: [3g.40gb, 4g.40gb]}\n"
        "jobs:\n  - {name: a, ofu: 0.3, noise: 0, mig: 3g.40gb, gpus: 2}\n"
    )
    found = page(agent(fleet(text, tmp_path)), HOUR)
    held = values(found, "ofu_job_held_gpu_seconds_total")['job_id="1001"']
    assert held == pytest.approx(2 * 3 / 7 * HOUR)
    assert ofu(found) == pytest.approx(0.3, rel=0.005)


FAULTS = {
    "gpu_lost": "lost",
    "source_lost": "unreachable",
    "counters_dead": "implausible",
    "counters_frozen": "implausible",
}


@pytest.mark.parametrize(("fault", "reason"), FAULTS.items())
def test_a_fault_is_shown_with_its_reason_and_passes(
    fault: str, reason: str, tmp_path: Path
) -> None:
    text = f"{ONE_JOB}}}\nfaults:\n  - {{fault: {fault}, nodes: [n1], at: 5m, lasts: 20m}}\n"
    made = agent(fleet(text, tmp_path))
    assert not values(page(made, 300), "ofu_gpu_unavailable")
    assert all(
        f'reason="{reason}"' in gpu for gpu in values(page(made, 1500), "ofu_gpu_unavailable")
    )
    assert len(values(page(made, 1500), "ofu_gpu_unavailable")) == 4
    assert not values(page(made, 1600), "ofu_gpu_unavailable")


def test_a_limited_clock_is_no_fault_of_the_counters(tmp_path: Path) -> None:
    text = f"{ONE_JOB}}}\nfaults:\n  - {{fault: clock_limit, nodes: [n1], gpus: [1], clock_mhz: 600}}\n"
    found = page(agent(fleet(text, tmp_path)), 600)
    clocks = [*values(found, "ofu_gpu_sm_clock_hertz").values()]
    assert clocks[1] == pytest.approx(600e6, rel=0.05)
    assert clocks[0] > 1.2e9
    assert not values(found, "ofu_gpu_unavailable")


def test_a_scheduler_that_is_lost_is_shown(tmp_path: Path) -> None:
    text = f"{ONE_JOB}}}\nfaults:\n  - {{fault: scheduler_lost, nodes: [n1], at: 2m, lasts: 3m}}\n"
    made = agent(fleet(text, tmp_path))
    lost, back = page(made, 200), page(made, 400)
    assert values(lost, "ofu_exporter_scheduler_up") == {'scheduler="simulate"': 0.0}
    assert values(back, "ofu_exporter_scheduler_up") == {'scheduler="simulate"': 1.0}
    assert ofu(back) == pytest.approx(0.4, rel=0.01)


def test_an_agent_that_was_missing_begins_anew(tmp_path: Path) -> None:
    text = f"{ONE_JOB}}}\nfaults:\n  - {{fault: agent_missing, nodes: [n1], at: 10m, lasts: 10m}}\n"
    made = agent(fleet(text, tmp_path))
    made.advance(700)
    assert made.is_missing
    found = page(made, 1500)
    assert not made.is_missing
    assert values(found, "ofu_job_gpu_seconds_total")['job_id="1001"'] == 4 * 300
    assert values(found, "ofu_job_held_gpu_seconds_total")['job_id="1001"'] == 4 * 1500


@pytest.mark.slow
def test_steps_that_a_restart_does_again_and_its_start_are_counted(tmp_path: Path) -> None:
    """Twelve minutes of each run but its first are done again, and nothing computes in five of each."""
    rest = ", report: {step: 2}, crashes: {every: 38m, pause: 2m, start: 5m, again: 12m}}"
    text = page(agent(fleet(ONE_JOB + rest, tmp_path)), 2 * HOUR - 200)
    lost = values(text, "ofu_job_lost_progress_gpu_seconds_total")
    by_reason = {re.sub(r'.*reason="(\w+)".*', r"\1", labels): v for labels, v in lost.items()}
    assert by_reason["starting"] == pytest.approx(3 * 5 * 60 * 4, rel=0.01)
    assert by_reason["done_again"] == pytest.approx(2 * 12 * 60 * 4, rel=0.01)
    assert list(values(text, "ofu_job_restarts_total").values()) == [2.0]


@pytest.mark.slow
def test_its_agent_counts_a_read_and_a_poll_for_each_window(tmp_path: Path) -> None:
    simulated = agent(fleet(f"length: 3h\n{ONE_JOB}}}\n", tmp_path))
    names = ("ofu_exporter_read_seconds_count", "ofu_exporter_scheduler_polls_total")

    def counts(at: float) -> list[float]:
        text = page(simulated, at)
        return [value for name in names for value in values(text, name).values()]

    before, after = counts(HOUR), counts(2 * HOUR)
    windows = HOUR / simulated._interval
    assert [late - early for early, late in zip(before, after, strict=True)] == [windows, windows]
