"""A report is one file that needs nothing else, is small, and can be read by everybody, in a real browser too."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from ofu_exporter.fleet.history.fleet_history import JobSums
from ofu_exporter.fleet.pages.job_page import job_html as job_page
from ofu_exporter.fleet.pages.report_page import page
from ofu_exporter.fleet.reports.job_result import (
    EarlierRow,
    GpuRow,
    JobResult,
    SlowGpuRow,
    StretchRow,
)
from ofu_exporter.fleet.reports.one_job import PointRow
from ofu_exporter.values.losses import Loss
from tests.fleet.reports.test_fleet_report import history, job, report
from tests.helpers.browser import BROWSER, printed, seen, violations, with_script
from tests.helpers.screenshots import LOOKS

needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="needs Chromium, which tests/run installs on Debian"
)
HOURS = [None, 0.2, 0.21, None, 0.2]
STORY = JobResult(
    server="http://prometheus",
    headline="OFU 20.0% over 40 GPU-hours.",
    job=report().jobs[0],
    begin="2025-12-31T23:59:00Z",
    end="2026-01-01T00:29:00Z",
    step_seconds=60,
    points=[
        PointRow(
            time=f"2026-01-01T00:{n:02}:00Z",
            gpus=8,
            ofu=0.2,
            mfu=0.4,
            activity=0.3,
            clock=0.7,
            lost={Loss.CLOCK: 0.1, Loss.NO_TENSOR: 0.25, Loss.EMPTY_SMS: 0.05, Loss.IDLE: 0.4}
            if n
            else {},
        )
        for n in range(30)
    ],
    idle=[StretchRow(start="2026-01-01T00:10:00Z", end="2026-01-01T00:20:00Z", minutes=10)],
    fewer_gpus=[],
    slow_gpus=[SlowGpuRow(node="n1", gpu="3", uuid="GPU-3", what="OFU", share=0.5, hours=4)],
    gpus=[GpuRow(node=f"n{n}:9846", gpu=str(n % 8), uuid=str(n), ofu=HOURS) for n in range(200)],
    earlier=[EarlierRow(job_id="0", begin="2025-12-31T00:00:00Z", gpu_hours=4, ofu=0.3, mfu=None)],
    earlier_ofu=0.3,
    change=-1 / 3,
    missing=[],
)
NAMES = ("report", "job")


@cache
def page_of(name: str) -> str:
    return page(report()) if name == "report" else job_page(STORY)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_fetched_from_anywhere(name: str) -> None:
    assert not re.search(r"\b(src|href)=|url\(", page_of(name))
    assert "default-src 'none'" in page_of(name)


def test_names_of_others_are_text() -> None:
    hostile = job("<script>alert(1)</script>", "\"><img onerror='x'>", JobSums(5, 5, 1))
    shown = page(report(history(hostile)))
    assert shown.count("<script>") == 1
    assert "<img" not in shown


def test_six_hundred_jobs_are_less_than_300_kb() -> None:
    jobs = [
        job(
            f"{10000 + n}",
            f"user{n % 26}",
            JobSums(1e3, 1e3, 333.3, 900.5, 450.5, 300.2),
            verdicts={"agree": 1.0},
        )
        for n in range(600)
    ]
    assert len(page(report(history(*jobs))).encode()) < 300_000


def test_what_is_not_known_is_a_dash_and_parts_that_are_missing_are_said() -> None:
    shown = page(report(history(installed=0.0)))
    assert "No job held a GPU in this time" in shown
    assert "of the peak of the known GPUs became work" in shown
    assert "<b>installed</b>" in shown
    assert re.search(r"<b>-</b><small>- GPU-hours", shown)


def test_simulated_values_are_marked_once_above_all_numbers() -> None:
    mark = "SIMULATED, no GPU was measured."
    shown = page(report().model_copy(update={"mark": mark, "headline": f"{mark} The rest."}))
    assert shown.count(mark) == 1
    assert shown.index(mark) < shown.index('class="tiles"')
    assert 'class="mark"' not in page_of("report")


def test_of_many_gpus_the_lowest_are_drawn_and_that_is_said() -> None:
    assert "the 128 lowest of 200" in page_of("job")


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing(name: str, look: str, tmp_path: Path) -> None:
    assert violations(page_of(name), tmp_path, look) == []


@needs_browser
@pytest.mark.slow
def test_on_paper_a_hundred_and_fifty_jobs_are_few_pages(tmp_path: Path) -> None:
    """With the sizes of a screen they were fifteen, the funnel alone one of them."""
    jobs = [job(f"{n}", f"user{n % 26}", JobSums(1e3, 1e3, 333, 900, 450, 300)) for n in range(150)]
    path = tmp_path / "page.html"
    path.write_text(page(report(history(*jobs))))
    paper = tmp_path / "page.pdf"
    printed(path, paper, tmp_path / "profile")
    pages = len(re.findall(rb"/Type /Page\b", paper.read_bytes()))
    assert 3 <= pages <= 8


@needs_browser
@pytest.mark.slow
def test_a_head_that_is_pressed_sorts_the_table(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    press = (
        "const t=[...document.querySelectorAll('table')].find(t=>t.getAttribute('aria-label').startsWith('Jobs ('));"
        "const b=[...t.querySelectorAll('button')].find(b=>b.textContent=='MFU');b.focus();"
        "const all=()=>[...t.tBodies[0].rows].map(r=>r.cells[0].textContent).join();"
        "b.click();const one=all();b.click();"
        "document.title=one+'|'+all()+'|'+b.parentNode.getAttribute('aria-sort')"
    )
    path.write_text(with_script(page_of("report"), press))
    title = re.findall("<title>(.*?)</title>", seen(path))[0]
    down, up, direction = title.split("|")
    assert down.startswith("a/2,a/1")
    assert up.startswith("a/1,a/2")
    assert down[len("a/2,a/1") :] == up[len("a/1,a/2") :], "what is not known stands last"
    assert direction == "ascending"
