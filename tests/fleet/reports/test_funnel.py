"""Work that no scheduler tells of is counted as work, from our agents and from dcgm-exporter, in a real Prometheus."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ofu_exporter.fleet.history import queries
from ofu_exporter.fleet.history.fleet_history import JobSums, ModelSums
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.pages.report_page import page
from ofu_exporter.fleet.pages.report_text import document
from ofu_exporter.fleet.reports.funnel import installed, is_shown, outside_jobs
from ofu_exporter.fleet.reports.job_rows import iso
from ofu_exporter.fleet.reports.result import FleetReport
from tests.fleet.reports.test_fleet_report import H100, history, job, report
from tests.helpers import fleet_truth
from tests.helpers.agent import call
from tests.helpers.fleets import BEGIN as SIMULATED_BEGIN
from tests.helpers.fleets import fleet
from tests.helpers.simulated_pages import scraped
from tests.helpers.stored_fleet import (
    BEGIN,
    HOUR,
    ScheduledJob,
    StoredNode,
    labelled,
    pages,
    read_in,
    record,
    stored,
    stored_pages,
)

HOURS = 6
LONE = StoredNode("lab", "desk:9846", H100, 4, alone=(0.5, 0.5))
"""No scheduler: two GPUs at work, two idle."""
MIXED = StoredNode("lab", "slurm:9846", H100, 4, alone=(0.25,))
"""A job for half of the time, and then one GPU at work for nobody."""
JOB = ScheduledJob("1", "ada", (MIXED,), 0, 3, 0.4)


def told(
    url: str, *flags: str, end: float = BEGIN + HOURS * HOUR, hours: int = HOURS
) -> FleetReport:
    asked = ("--prometheus", url, "--since", f"{hours}h", "--until", iso(end), *flags)
    done = call("fleet", "report", "--format", "json", *asked)
    assert done.returncode == 0, done.stderr
    return FleetReport.model_validate_json(done.stdout)


def hours_of(found: FleetReport) -> dict[str, float | None]:
    return {step.name: step.gpu_hours for step in found.funnel}


@pytest.fixture(scope="module")
def raw_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    read_in(folder, pages((LONE, MIXED), (JOB,), HOURS))
    return folder


@pytest.fixture(scope="module", params=["raw", "recorded"])
def of_agents(
    request: pytest.FixtureRequest, raw_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> FleetReport:
    folder = raw_folder
    if request.param == "recorded":
        folder = tmp_path_factory.mktemp("recorded")
        shutil.copytree(raw_folder, folder, dirs_exist_ok=True)
        asked = (*queries.JOB_HOURS, *queries.MODEL_HOURS, *queries.JOBLESS)
        names = " ".join(each.recorded for each in asked)
        text = f"{Path(queries.__file__).read_text()} {names}"
        record(folder, BEGIN, BEGIN + HOURS * HOUR, text)
    with stored(folder) as prometheus:
        return told(prometheus.url)


@pytest.mark.slow
@pytest.mark.prometheus
@pytest.mark.xdist_group("outside of jobs")
class TestOfAgents:
    def test_busy_gpus_without_a_job_are_apart_from_idle_ones_and_from_jobs(
        self, of_agents: FleetReport
    ) -> None:
        hours = hours_of(of_agents)
        assert hours["installed"] == pytest.approx(8 * HOURS, rel=0.01)
        assert hours["held"] == pytest.approx(12, rel=0.01)
        assert hours["unclaimed"] == pytest.approx(2 * 6 + 3, rel=0.05)
        assert hours["free"] == pytest.approx(2 * 6 + 3 * 3, rel=0.05)
        assert (
            hours["idle"] or 0.0
        ) <= 0.5  # a look after the end of the job, which blocks do not tell
        assert hours["active"] == pytest.approx(12 + 15, rel=0.03)

    def test_all_work_is_computed_with_and_the_first_sentence_says_so(
        self, of_agents: FleetReport
    ) -> None:
        work = 12 * 0.4 + 2 * 6 * 0.5 + 3 * 0.25
        assert hours_of(of_agents)["effective"] == pytest.approx(work, rel=0.01)
        assert of_agents.ofu == pytest.approx(work / 48, rel=0.01)
        assert of_agents.total.ofu == pytest.approx(0.4, rel=0.001)
        assert of_agents.no_job is not None
        assert of_agents.no_job.effective_gpu_hours == pytest.approx(work - 4.8, rel=0.01)
        assert "% of the GPU-hours GPUs were busy without a known job." in of_agents.headline


def dcgm_pages(activity: float, gpus: int, busy: int) -> str:
    """What dcgm-exporter 3 shows of GPUs that no job is mapped to: no pod, no `hpc_job`."""
    lines: list[str] = []
    for name, values in (
        ("DCGM_FI_DEV_SM_CLOCK", ["1830"] * gpus),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", [f"{activity}"] * busy + ["0.0"] * (gpus - busy)),
    ):
        lines.append(f"# TYPE {name} gauge")
        for gpu, value in enumerate(values):
            labels = labelled(
                gpu=str(gpu), UUID=f"GPU-{gpu}", modelName=H100, Hostname="n1", job="dcgm"
            )
            times = (BEGIN + 30.0 * step for step in range(1, 3 * 120 + 1))
            lines += [f"{name}{labels} {value} {time:.0f}" for time in times]
    return "\n".join([*lines, "# EOF", ""])


@pytest.mark.slow
@pytest.mark.prometheus
@pytest.mark.parametrize(("busy", "share"), [(8, 0.5), (2, 0.125)])
def test_a_busy_fleet_of_dcgm_exporters_without_labels_of_jobs_is_not_free(
    tmp_path: Path, busy: int, share: float
) -> None:
    """Eight H100 with an activity of 0.5 at the tensor clock, for three hours: 12 of 24 GPU-hours by all."""
    read_in(tmp_path, dcgm_pages(0.5, 8, busy))
    prices = tmp_path / "prices.yaml"
    prices.write_text('gpu_hour: {"*H100*": 2.0}\n')
    with stored(tmp_path) as prometheus:
        flags = ("--from", "dcgm-exporter", "--target", "0.4", "--prices", str(prices))
        found = told(prometheus.url, *flags, end=BEGIN + 3 * HOUR, hours=3)
    assert found.jobs == []
    assert found.headline.startswith(f"The fleet delivered {share:.1%} of its peak.")
    steps = {step.name: step for step in found.funnel}
    assert steps["effective"].gpu_hours == pytest.approx(24 * share, rel=0.01)
    assert steps["effective"].cost == pytest.approx(48 * share, rel=0.01)
    assert steps["unclaimed"].gpu_hours == pytest.approx(3 * busy, rel=0.01)
    assert steps["free"].gpu_hours == pytest.approx(3 * (8 - busy), rel=0.01)
    assert steps["unknown"].gpu_hours == pytest.approx(0.0, abs=1e-6)
    assert found.ofu == pytest.approx(share, rel=0.001)
    assert found.no_job is not None
    assert found.no_job.wasted_gpu_hours == pytest.approx(24 * (0.4 - share), abs=0.1)


LOST = """
length: 4h
cluster: lab
interval: 30
nodes:
  - {name: h, count: 2, model: H100, gpus: 4}
jobs:
  - {name: untold, users: [ada], gpus: 4, ofu: 0.4, lasts: 3h}
  - {name: told, users: [eve], gpus: 3, ofu: 0.3, lasts: 3h}
faults:
  - {fault: scheduler_lost, nodes: [NODE]}
"""


@pytest.mark.slow
@pytest.mark.prometheus
def test_the_work_of_a_job_whose_scheduler_never_answered_is_the_true_one(tmp_path: Path) -> None:
    before = fleet(LOST.replace("NODE", "h1"), tmp_path)
    placed = {job.job.draft.group.name: job for job in before.jobs}
    (node,) = placed["untold"].job.devices
    made = fleet(LOST.replace("NODE", f"h{node + 1}"), tmp_path)
    truth = {job["name"]: job for job in fleet_truth.facts(made)}
    with stored_pages(tmp_path, scraped(made, SIMULATED_BEGIN, 60)) as prometheus:
        found = told(prometheus.url, end=SIMULATED_BEGIN + 4 * HOUR, hours=4)
    assert [row.job_name for row in found.jobs] == ["told"]
    hours = hours_of(found)
    untold = truth["untold"]["held_gpu_seconds"] / HOUR
    assert hours["unclaimed"] == pytest.approx(untold, rel=0.05)
    assert found.no_job is not None
    assert found.no_job.effective_gpu_hours == pytest.approx(
        untold * truth["untold"]["ofu"], rel=0.02
    )
    work = sum(job["held_gpu_seconds"] * job["ofu"] for job in truth.values()) / HOUR
    assert hours["effective"] == pytest.approx(work, rel=0.02)
    assert hours["free"] == pytest.approx(8 * 4 - 7 * 3, rel=0.1)


def test_hours_without_a_price_have_no_cost_and_make_none_of_the_others_free() -> None:
    models = {
        (1, "a", H100): ModelSums(10.0, 10.0, 5.0, JobSums(0, 10.0, 5.0, idle=2.0)),
        (1, "a", "NVIDIA L4"): ModelSums(10.0, 10.0, 0.0, JobSums(0, 10.0, 0.0, idle=10.0)),
    }
    prices = Prices(gpu_hour={"*H100*": 2.0})
    assert installed(models, prices) == (20.0, None)
    jobs = report().total.model_copy(update={"observed_gpu_hours": 0.0, "effective_gpu_hours": 0.0})
    found = outside_jobs(
        models, prices, installed({}, prices)._replace(gpu_hours=0.0, cost=0.0), jobs
    )
    assert found.whole == (20.0, None)
    assert found.busy == (8.0, None)
    assert found.effective == (5.0, 10.0)
    assert found.idle == (12.0, None)


SPLIT = job(
    "7",
    "ada",
    JobSums(
        held=100,
        observed=90,
        utilized=36,
        gained=1.0,
        joules=7.2e6,
        idle=4.0,
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
    of_jobs = {"unsplit": 40.0, "no_tensor": 30.0, "waiting_for_host": 11.0, "empty_sms": 6.0}
    of_jobs |= {"held_no_kernel": 4.0, "clock": 3.0}
    assert {name: lost[name] for name in of_jobs} == pytest.approx(of_jobs)
    assert list(of_jobs) == list(lost)[-6:], "the largest first"
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
        for part in (
            *("installed", "no tensor work", "waiting for the host", "empty SMs"),
            *("held, no kernel", "below the clock", "became work"),
        )
    ]
    assert places == sorted(places)
    assert "more data loader workers" in said
    assert "Where the peak went, by user:" in said


def test_the_drawn_way_falls_from_all_gpu_hours_to_what_was_delivered_without_a_gap() -> None:
    gain = job("9", "eve", JobSums(held=9, observed=9, utilized=5, gained=2, lost={"idle": 6.0}))
    for made in (report(history(SPLIT)), report(history(gain))):
        drawn = page(made).partition("<h2>Where the peak went</h2>")[2].partition("</section>")[0]
        bars = re.findall(r'<rect class="(\w+)" x="([\d.]+)" width="([\d.]+)"', drawn)
        shown = [*filter(is_shown, made.waterfall)]
        assert [kind for kind, _, _ in bars] == [step.name for step in shown]
        level = 100.0
        for step, (_, left, width) in zip(shown[1:-1], bars[1:-1], strict=True):
            level -= 100 * (step.share or 0.0)
            is_gain = (step.share or 0.0) < 0
            assert float(left) + is_gain * float(width) == pytest.approx(level, abs=0.02)
        assert level == pytest.approx(float(bars[-1][2]), abs=0.02)


def test_page_and_text_say_what_helps_against_the_largest_loss_and_which_energy_is_known() -> None:
    made = report(history(SPLIT))
    assert (
        "The largest loss of jobs is no tensor work (33.3% of their measured GPU-hours). Memory,"
        in made.headline
    )
    for shown in (document(made).plain(), page(made)):
        assert "Memory, communication or other arithmetic: fused kernels" in shown
        assert "docs/where.md" in shown
        assert "The measured GPUs of jobs took 2 kWh. For other parts of the peak no kWh" in shown
