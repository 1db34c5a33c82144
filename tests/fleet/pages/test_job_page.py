"""The page and the text of one job."""

from __future__ import annotations

import html
import json
import re

from ofu_exporter.fleet.pages.job_page import job_html as job_page
from ofu_exporter.fleet.pages.job_page import job_text
from ofu_exporter.fleet.reports.job_result import GpuRow
from tests.fleet.pages.test_report_page import STORY, page_of


def test_a_jobs_page_has_a_line_for_each_part_that_is_known() -> None:
    (values,) = re.findall(r'data-ratios="([^"]*no tensor work[^"]*)"', page_of("job"))
    lines = dict(json.loads(html.unescape(values)))
    assert list(lines) == ["clock", "no tensor work", "empty SMs", "idle"]
    assert lines["idle"] == [None, *[40] * 29]
    without = STORY.model_copy(update={"points": STORY.points[:1]})
    assert "Where the rest of the peak went" not in job_page(without)


def test_the_step_that_is_drawn_is_named() -> None:
    assert "Over time, a point for each 60 s" in job_page(STORY)
    assert "Over time, a row for each 2 min:" in job_text(STORY)  # 30 points in 24 rows at most


def test_the_text_names_the_largest_loss_of_each_stretch() -> None:
    first, *others = (
        job_text(STORY).partition("Over time, ")[2].split("Slow GPUs")[0].splitlines()[5:-1]
    )
    assert "idle 40.0%" in first
    assert all("idle 40.0%" in line for line in others)


def test_a_stretch_of_a_job_on_a_part_of_a_gpu_has_that_part() -> None:
    points = [point.model_copy(update={"gpus": 3 / 7}) for point in STORY.points]
    rows = job_text(STORY.model_copy(update={"points": points})).partition("Over time, ")[2]
    assert [line.split()[1] for line in rows.splitlines()[3:6]] == ["0.43"] * 3


def test_a_gpu_is_named_by_its_node_without_the_port() -> None:
    nodes = ("n1", "n2:9846", "[fd00::7]:9846")
    gpus = [GpuRow(node=node, gpu="0", uuid="", ofu=[0.4]) for node in nodes]
    page = job_page(STORY.model_copy(update={"gpus": gpus}))
    for name in ("n1 0", "n2 0", "[fd00::7] 0"):
        assert f">{name}<" in page
