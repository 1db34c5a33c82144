"""A store that has agents of one node and dcgm-exporter's pages of another is reported on without a GPU twice or lost.

As in a fleet on its way from one to the other: node `old` has dcgm-exporter alone, `new` an agent alone, `both` has
both. The pages of `old` are scraped by two jobs of Prometheus at two addresses, and two jobs share one of its GPUs, for
each of which dcgm-exporter repeats all of the GPU's series. Two pods of one name in two namespaces share another.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ofu_exporter.fleet.reports.result import FleetReport
from tests.fleet.history.test_from_dcgm import DcgmGpu
from tests.fleet.history.test_from_dcgm import pages as dcgm_pages
from tests.fleet.reports.test_funnel import told
from tests.helpers.stored_fleet import (
    ScheduledJob,
    StoredNode,
    pages,
    read_in,
    stored,
    stored_pages,
    victoria_with,
)

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("dcgm history")]

HOURS = 6
H100, TENSOR_MHZ = "NVIDIA H100 80GB HBM3", 1830.0
NEW = StoredNode("lab", "new:9846", H100, 4)
BOTH = StoredNode("lab", "both:9846", H100, 2)
JOBS = (ScheduledJob("1", "ada", (NEW,), 0, 6, 0.4), ScheduledJob("2", "bob", (BOTH,), 0, 6, 0.3))


def series(node: str, number: int, job: str, scraped_by: str = "dcgm") -> DcgmGpu:
    labels = {"gpu": str(number), "modelName": H100, "Hostname": node, "job": scraped_by}
    at = f"{node}:9400" if scraped_by == "dcgm" else f"{scraped_by}.{node}:9400"
    place = {"cluster": "lab", "instance": at, "UUID": f"GPU-{node}:9846-{number}"}
    namespace, _, pod = job.rpartition("/")
    owner = {"pod": pod, "namespace": namespace} if namespace else {"hpc_job": job} if job else {}
    return DcgmGpu({**labels, **place, **owner}, 0.5, TENSOR_MHZ, engine=0.9)


OLD = [
    series("old", number, job, by)
    for by in ("pods", "services")
    for number, job in ((0, "7"), (1, "7"), (2, "8"), (2, "9"), (3, ""), (4, "a/w-0"), (4, "b/w-0"))
]
"""GPU 2 is shared by jobs 8 and 9, GPU 4 by pods of two namespaces, and GPU 3 is nobody's."""

FROM_DCGM = ("--from", "dcgm-exporter")
SHARERS = ("8", "9", "a/w-0", "b/w-0")


class Told(NamedTuple):
    agents: FleetReport
    dcgm: FleetReport


@pytest.fixture(scope="module", params=["prometheus", "victoria-metrics"])
def reports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("both")
    own = pages((NEW, BOTH), JOBS, HOURS).removesuffix("# EOF\n")
    read_in(folder, own + dcgm_pages([*OLD, *(series("both", number, "2") for number in (0, 1))]))
    with stored(folder) as prometheus:
        if request.param == "prometheus":
            yield both_of(prometheus.url)
            return
        with victoria_with(prometheus, tmp_path_factory.mktemp("victoria")) as victoria:
            yield both_of(victoria.url)


def both_of(url: str) -> Told:
    return Told(told(url), told(url, *FROM_DCGM))


def installed(report: FleetReport) -> float | None:
    return {step.name: step.gpu_hours for step in report.funnel}["installed"]


def test_each_counts_the_gpus_that_it_sees_once(reports: Told) -> None:
    assert installed(reports.agents) == pytest.approx((4 + 2) * HOURS, rel=0.02)
    assert installed(reports.dcgm) == pytest.approx((5 + 2) * HOURS, rel=0.02)


def test_jobs_have_what_they_held_and_did(reports: Told) -> None:
    held = {row.job_id: (row.held_gpu_hours, row.ofu) for row in reports.agents.jobs}
    assert held == {
        "1": pytest.approx((4 * HOURS, 0.4), rel=0.02),
        "2": pytest.approx((2 * HOURS, 0.3), rel=0.02),
    }
    held = {row.job_id: (row.held_gpu_hours, row.ofu) for row in reports.dcgm.jobs}
    assert held == {
        "7": pytest.approx((2 * HOURS, 0.5), rel=0.02),
        "2": pytest.approx((2 * HOURS, 0.5), rel=0.02),
        **{job: (pytest.approx(HOURS / 2, rel=0.02), None) for job in SHARERS},
    }
    sizes = {row.job_id: row.gpus for row in reports.dcgm.jobs}
    assert sizes == pytest.approx({"7": 2, "2": 2, **dict.fromkeys(SHARERS, 0.5)})


def test_what_a_gpu_did_that_two_jobs_share_is_that_of_none(reports: Told) -> None:
    """Each holds half of it, not measured, as agents say it. Steps add up to what is installed."""
    rest, steps = reports.dcgm.no_job, {each.name: each for each in reports.dcgm.waterfall}
    assert rest is not None
    assert rest.held_gpu_hours == pytest.approx(HOURS, rel=0.02)
    assert rest.observed_gpu_hours == pytest.approx(3 * HOURS, rel=0.02)
    assert rest.effective_gpu_hours == pytest.approx(1.5 * HOURS, rel=0.02)
    assert steps["unclaimed"].gpu_hours == pytest.approx(HOURS, rel=0.02)
    assert steps["unmeasured"].gpu_hours == pytest.approx(2 * HOURS, rel=0.02)
    lost = sum(each.gpu_hours or 0.0 for name, each in steps.items() if name != "installed")
    assert lost == pytest.approx(steps["installed"].gpu_hours)


def test_what_only_the_other_tells_of_is_said(reports: Told) -> None:
    """Of nodes of both neither report says so."""
    (said,) = (note for note in reports.agents.notes if "only dcgm-exporter tells" in note)
    assert "5 GPUs, about 30 GPU-hours" in said
    assert "on lab/old. The same report with --from dcgm-exporter" in said
    (said,) = (note for note in reports.dcgm.notes if "only agents tell" in note)
    assert "4 GPUs, about 24 GPU-hours" in said
    assert "on lab/new:9846. The same report without --from" in said


@pytest.mark.parametrize("has_twins", [True, False])
def test_gpus_without_a_uuid_leave_others_counted_once(tmp_path: Path, has_twins: bool) -> None:
    """Nothing tells whether two series without one are of one GPU, so both count."""
    unnamed = [series("x", number, "5") for number in range(3)]
    for each in unnamed:
        each.labels["UUID"] = ""
    twins = [each for each in OLD if each.labels["gpu"] == "0"]
    with stored_pages(tmp_path, dcgm_pages([*unnamed, *(twins if has_twins else ())])) as server:
        held = {row.job_id: row.held_gpu_hours for row in told(server.url, *FROM_DCGM).jobs}
    assert held == pytest.approx({"5": 3 * HOURS, "7": HOURS} if has_twins else {"5": 3 * HOURS})


def test_parts_and_the_chain_count_each_gpu_once_too(reports: Told) -> None:
    for row in (row for row in reports.dcgm.jobs if row.job_id in ("2", "7")):
        assert row.lost_idle_gpu_hours == pytest.approx(0.1 * row.held_gpu_hours, rel=0.02)
    (whole,) = (each for each in reports.dcgm.progress if each.by == "all")
    assert whole.held_gpu_hours == pytest.approx(6 * HOURS, rel=0.02)
    assert whole.watched_ratio == pytest.approx(4 / 6, rel=0.01)
