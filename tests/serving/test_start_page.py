"""The start page: what is measured now, said to people, and nothing that a name on the node could inject."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofu_exporter.serving.start_page import start_page
from ofu_exporter.values.job import Job
from ofu_exporter.values.reasons import Reason
from tests.helpers.desk import Desk
from tests.helpers.node import snapshot_of
from tests.helpers.values import fault, gpu, health, reading


def test_it_shows_what_is_measured_and_links() -> None:
    measured = reading(tensor=0.5, hz=[1464e6] * 4)
    text = start_page(snapshot_of(measured, fault(5, device=gpu(1))))
    assert "40.0%" in text
    assert "lost" in text
    assert "href=/metrics" in text
    assert "Simulated" not in text


def test_before_the_first_snapshot_it_shows_no_gpu_and_no_source() -> None:
    text = start_page(None)
    assert "Source: none yet" in text
    assert "<td>" not in text


def test_where_nothing_is_measured_it_says_why_and_what_to_do() -> None:
    down = replace(health(), up=False, reason=Reason.NO_LIBRARY, detail="<libnvidia>")
    text = start_page(replace(snapshot_of(), source=down))
    assert "Nothing is measured now:" in text
    assert "no_library (&lt;libnvidia&gt;). Install the NVIDIA driver" in text
    assert "Nothing is measured now" not in start_page(snapshot_of(reading()))


def test_what_is_not_measured_has_no_number() -> None:
    text = start_page(snapshot_of(fault(5)))
    assert "%" not in text.partition("</style>")[2]


def test_it_says_that_data_is_simulated() -> None:
    simulated = snapshot_of(reading(), source=health("simulate", simulated=True))
    assert "Simulated data: no GPU was measured" in start_page(simulated)


def test_it_names_every_source_that_gpus_are_read_through() -> None:
    snapshot = snapshot_of(reading(), reading(device=gpu(1)))
    first, second = snapshot.gpus
    mixed = replace(snapshot, gpus=(first, replace(second, source="dcgm-exporter")))
    assert "Source: nvml, dcgm-exporter." in start_page(mixed)


def test_a_job_has_its_ofu_its_report_and_the_verdict() -> None:
    desk = Desk(1)
    desk.give(Job("slurm", "41", "llama", "ada"), "0")
    desk.every(10.0, 20, job_id="41", mfu=0.765, gpus=1, precision="bf16")
    text = start_page(desk.shown)
    (row,) = [row for row in text.split("<tr>") if "/v1/jobs/41" in row]
    assert "38.3%" in row, "0.5 of the cycles at 1400 of 1830 MHz"
    assert "76.5%" in row
    assert "mfu_above_ofu" in row


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><script>', "&lt;script>"])
def test_no_name_can_inject_markup(name: str) -> None:
    desk = Desk(1)
    desk.give(Job("slurm", name, name, name), "0")
    desk.run(10.0)
    for snapshot in (desk.shown, snapshot_of(reading(device=gpu(0, name=name)))):
        assert "<script" not in start_page(snapshot)
