"""The way from installed GPU-hours to what jobs used: every step is a loss, and nothing is left over."""

from __future__ import annotations

import re

import pytest

from ofu_exporter.fleet.reports.fleet_history import JobSums
from ofu_exporter.fleet.reports.report_page import page
from ofu_exporter.fleet.reports.tables import document
from tests.fleet.reports.test_fleet_report import history, job, report

SPLIT = job(
    "7",
    "ada",
    JobSums(
        held=100,
        observed=90,
        utilized=36,
        gained=1.0,
        joules=7.2e6,
        lost={"clock": 4.0, "no_tensor": 30.0, "empty_sms": 6.0, "idle": 15.0},
    ),
)
OLD = job("8", "bob", JobSums(held=50, observed=50, utilized=10))


def test_the_steps_lead_from_what_is_installed_to_what_is_delivered() -> None:
    made = report(history(SPLIT, OLD))
    steps = {step.name: step.gpu_hours for step in made.waterfall}
    assert next(iter(steps)) == "installed"
    assert list(steps)[-1] == "delivered"
    lost = {name: hours for name, hours in steps.items() if name not in ("installed", "delivered")}
    assert steps["delivered"] == 46
    of_jobs = {name: lost[name] for name in ("unsplit", "no_tensor", "idle", "empty_sms", "clock")}
    assert of_jobs == pytest.approx(
        {"unsplit": 40.0, "no_tensor": 30.0, "idle": 15.0, "empty_sms": 6.0, "clock": 3.0}
    )
    assert list(of_jobs) == list(lost)[-5:], "the largest first"
    assert steps["installed"] == pytest.approx(
        sum(hours or 0.0 for hours in lost.values()) + (steps["delivered"] or 0.0)
    )


def test_each_job_and_group_has_its_parts_and_its_energy() -> None:
    made = report(history(SPLIT, OLD))
    row = next(row for row in made.jobs if row.job_id == "7")
    assert (row.lost_no_tensor_gpu_hours, row.lost_clock_gpu_hours) == (30.0, 3.0)
    assert (row.lost_unsplit_gpu_hours, row.energy_kwh) == (None, 2.0)
    ada = next(row for row in made.groups if row.name == "ada")
    assert ada.lost_idle_gpu_hours == 15.0
    old = next(row for row in made.jobs if row.job_id == "8")
    assert (old.lost_idle_gpu_hours, old.lost_unsplit_gpu_hours) == (None, 40.0)


def test_the_text_has_the_largest_loss_first_and_a_sentence_of_what_helps() -> None:
    said = document(report(history(SPLIT))).plain()
    lines = said.partition("Where the peak went:")[2].splitlines()
    places = [
        next(number for number, line in enumerate(lines) if line.lstrip("| ").startswith(part))
        for part in ("installed", "no tensor work", "idle", "empty SMs", "clock", "delivered")
    ]
    assert places == sorted(places)
    assert "more data loader workers" in said
    assert "Where the peak went, by user:" in said


def test_the_drawn_way_falls_from_all_gpu_hours_to_what_was_delivered_without_a_gap() -> None:
    gain = job("9", "eve", JobSums(held=9, observed=9, utilized=5, gained=2, lost={"idle": 6.0}))
    for made in (report(history(SPLIT)), report(history(gain))):
        drawn = page(made).partition("<h2>Where the peak went</h2>")[2].partition("</section>")[0]
        bars = re.findall(
            r'<rect class="(\w+)" x="([\d.]+)" width="([\d.]+)"', drawn.partition("</p>")[2]
        )
        shown = [step for step in made.waterfall if step.gpu_hours]
        assert [kind for kind, _, _ in bars] == [step.name for step in shown]
        level = 100.0
        for step, (_, left, width) in zip(shown[1:-1], bars[1:-1], strict=True):
            level -= 100 * (step.share or 0.0)
            is_gain = (step.share or 0.0) < 0
            assert float(left) + is_gain * float(width) == pytest.approx(level, abs=0.02)
        assert level == pytest.approx(float(bars[-1][2]), abs=0.02)


def test_page_and_text_say_what_helps_against_the_largest_loss_and_which_energy_is_known() -> None:
    for shown in (document(report(history(SPLIT))).plain(), page(report(history(SPLIT)))):
        assert (
            "Jobs lost most to no tensor work (33.3% of their measured GPU-hours). Memory," in shown
        )
        assert "See docs/where.md" in shown
        assert "The measured GPUs of jobs took 2 kWh. For other parts of the peak no kWh" in shown
