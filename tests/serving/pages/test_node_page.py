"""The page of the node says what is measured now, and in words what is not and what to do about it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ofu_exporter.serving.faults import Faults
from ofu_exporter.serving.history import History
from ofu_exporter.serving.node_json import node_state
from ofu_exporter.serving.pages.node_page import node_page
from ofu_exporter.support.logs import LastLine
from ofu_exporter.values.clock_limit import ClockLimit
from ofu_exporter.values.gpu import Share
from ofu_exporter.values.job import Job
from ofu_exporter.values.reading import Activity
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import Snapshot
from tests.helpers.desk import Desk
from tests.helpers.node import snapshot_of, whole
from tests.helpers.shown_node import LOST, node_after
from tests.helpers.values import fault, gpu, health, reading

pytestmark = pytest.mark.xdist_group("shown node")


def shown(snapshot: Snapshot | None, *lines: LastLine) -> str:
    return node_page(node_state(snapshot, History(), "node-1", 1.0, Faults()), lines)


def row(page: str, number: int, table: str = "gpus") -> str:
    body = page.partition(f'<table id="{table}"')[2].partition("<tbody>")[2]
    return body.split("</tr>")[number]


def test_it_shows_what_is_measured_with_its_error_and_its_losses() -> None:
    page = shown(snapshot_of(reading(tensor=0.5, hz=[1464e6] * 4)))
    assert "<title>node-1: OFU 40.0%</title>" in page
    assert "sampled 1 s ago" in page
    assert re.search(r"40.0%</b><small> ± \d+\.\d<", row(page, 0))
    assert "clock 10.0%, no tensor work or idle 50.0%" in row(page, 0)
    assert "1464 MHz<small> 80% of 1830" in row(page, 0)
    assert "Simulated" not in page


def test_what_holds_a_clock_down_is_said_where_it_is_known() -> None:
    held = replace(reading(), clock_limits=(ClockLimit.SW_POWER_CAP,))
    free = replace(reading(device=gpu(1)), clock_limits=())
    unknown = reading(device=gpu(2))
    page = shown(snapshot_of(held, free, unknown))
    assert "of 1830 · power cap</small>" in row(page, 0)
    for number in (1, 2):
        assert "of 1830</small>" in row(page, number)
    assert page.count("not counted, NVML may name one up to 13 % too high") == 1


def test_parts_of_a_card_that_counts_in_turns_are_called_estimated() -> None:
    """Those of an A100, as a dcgm-exporter gives them; of its tensor pipes alone, or of an H100, they are not."""
    a100, engine = gpu(0, name="NVIDIA A100-SXM4-80GB"), Activity(engine=0.9)
    estimated = shown(snapshot_of(reading(device=a100, hz=[1200e6] * 4, activity=engine)))
    assert "parts estimated" in row(estimated, 0)
    for exact in (reading(device=a100, hz=[1200e6] * 4), reading(activity=engine)):
        assert "parts estimated" not in row(shown(snapshot_of(exact)), 0)


def test_what_is_not_measured_has_a_reason_and_no_number() -> None:
    page = shown(snapshot_of(reading(), fault(5, device=gpu(1))))
    assert "1 of 2" in page
    assert "The GPU fell off the bus" in row(page, 1)
    assert "%" not in row(page, 1)


def test_before_the_first_snapshot_it_says_so() -> None:
    page = shown(None)
    assert "the first window is not complete yet" in page
    assert "<table" not in page


def test_where_no_source_opens_it_says_why_and_what_to_do() -> None:
    source = replace(health(), up=False, reason=Reason.NO_DRIVER, detail="NVML says 9")
    page = shown(snapshot_of(source=source))
    assert "Nothing is measured here. Source nvml: no driver (NVML says 9)" in page
    assert "`nvidia-smi` must work on this node first" in page
    assert "OFU not measured" in page


def test_it_says_that_data_is_simulated() -> None:
    simulated = snapshot_of(reading(), source=health("simulate", simulated=True))
    assert "Simulated data: no GPU was measured" in shown(simulated)


def test_it_says_that_data_is_recorded_and_of_which_day() -> None:
    source = replace(health("replay"), recorded="2026-11-23")
    note = "A recording of 2026-11-23 is replayed: no GPU of this machine is measured."
    assert note in shown(snapshot_of(reading(), source=source))
    assert "is replayed" not in shown(snapshot_of(reading()))


def test_it_names_every_source_that_gpus_are_read_through() -> None:
    snapshot = snapshot_of(reading(), reading(device=gpu(1)))
    first, second = snapshot.gpus
    mixed = replace(snapshot, gpus=(first, second._replace(source="dcgm-exporter")))
    assert "source nvml, dcgm-exporter" in shown(mixed)


def test_an_instance_weighs_as_its_part_of_a_gpu() -> None:
    snapshot = snapshot_of(reading(tensor=0.8), reading(tensor=0.1, device=gpu(1)))
    first, second = snapshot.gpus
    assert first.window is not None
    assert first.window.utilization is not None
    part = first._replace(share=Share(1 / 7, "slices"))
    page = shown(replace(snapshot, gpus=(part, second)))
    ofu = first.window.utilization
    assert f"OFU {(ofu / 7 + ofu / 8) / (8 / 7):.1%}</title>" in page


def test_an_idle_gpu_is_grey_and_not_missing() -> None:
    page = shown(snapshot_of(reading(tensor=0.0)))
    assert '<tr class="idle">' in page
    assert "1 of 1" in page


def test_a_job_has_its_ofu_its_report_and_the_verdict_in_words() -> None:
    desk = Desk(1)
    desk.give(Job("slurm", "41", "llama", "ada"), "0")
    desk.every(10.0, 20, job_id="41", mfu=0.765, gpus=1, precision="bf16")
    job = row(shown(desk.shown), 0, "jobs")
    assert 'href="/jobs/41"' in job
    assert "38.3%" in job, "0.5 of the cycles at 1400 of 1830 MHz"
    assert "76.5%" in job
    assert "MFU 38 points above OFU" in job
    assert desk.shown.jobs[0].reports is not None
    assert desk.shown.jobs[0].reports.causes is not None
    likeliest = desk.shown.jobs[0].reports.causes.fitting[0].cause
    assert likeliest.replace("_", " ") in job
    assert "_" not in job


def test_a_gpu_says_whose_job_has_it() -> None:
    desk = Desk(2)
    ada, team = Job("slurm", "41", "llama", "ada"), Job("kubernetes", "bert", namespace="team")
    desk.node.give(desk.clock.now, whole(ada, "0"), whole(team, "1"))
    desk.run(10.0)
    assert "41</a><small> ada</small>" in row(shown(desk.shown), 0)
    assert "bert</a><small> team</small>" in row(shown(desk.shown), 1)


@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", '"><script>', "&lt;script>", "{{ 7 * 7 }}{% raw %}", "\ud800"],
)
def test_no_name_can_inject_markup(name: str) -> None:
    desk = Desk(1)
    desk.give(Job("slurm", name, name, name), "0")
    desk.run(10.0)
    for snapshot in (desk.shown, snapshot_of(reading(device=gpu(0, name=name)))):
        page = shown(snapshot)
        assert page.count("<script") == 1
        page.encode()


@pytest.mark.slow
def test_a_page_of_many_gpus_and_jobs_stays_small() -> None:
    """60 kB for 8 GPUs and 20 jobs; the bars and lines are most of it."""
    node = node_after()
    jobs = tuple(
        replace(node.snapshot.jobs[0], job=Job("slurm", f"{place}", "a-name-of-a-job", "somebody"))
        for place in range(20)
    )
    page = node_page(node.state(jobs=jobs))
    assert len(page.encode()) < 60_000
    many = tuple(node.snapshot.gpus[0]._replace(gpu=gpu(place)) for place in range(72))
    wide = node_page(node.state(gpus=many))
    assert wide.count("<tr") == 1 + 72 + 1 + 3


def test_a_lost_gpu_keeps_the_line_of_what_was() -> None:
    line = row(node_after().node_page(), LOST)
    assert "<polyline" in line
    assert "look for Xid messages" in line


def test_the_last_lines_of_the_log_are_shown_with_their_time_and_markup_of_others_is_not() -> None:
    lost = LastLine(1_800_000_000.0, "warning", "GPU 1 is not measured (lost)")
    began = LastLine(1_800_000_000.0, "info", "job <b>7</b> holds GPU 0")
    page = shown(snapshot_of(reading()), lost, began)
    assert '<tr class="away">' in page
    assert "GPU 1 is not measured (lost)" in row(page, 0, "lines")
    assert "2027-01-15" in row(page, 0, "lines")
    assert "job &lt;b&gt;7&lt;/b&gt; holds GPU 0" in row(page, 1, "lines")
    assert "What has happened" not in shown(snapshot_of(reading()))
