"""Whose job a report is about, and which GPUs count for it."""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.reports.owner import (
    YOUNG_SECONDS,
    KnownOwners,
    Owner,
    UnownedKey,
    gpus_of_reports,
    owner_of,
    stepped,
)
from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.job import GpuUsage, Job, Start
from ofu_exporter.values.progress import Progress
from ofu_exporter.values.reported import ReportsView
from ofu_exporter.values.snapshot import GpuView, JobView, Snapshot
from tests.helpers.values import gpu, health

MINE, OTHER = Job("slurm", "1", uid="u1"), Job("slurm", "2")
USAGE = {gpu(place).key: GpuUsage(str(place), gpu(place).key) for place in (0, 1)}
VIEW = JobView(MINE, 0.0, USAGE, updated=9.0)


def held(device: Gpu, *holders: Job) -> GpuView:
    return GpuView(device, None, None, None, holders=holders)


PAGE = Snapshot(9.0, (held(gpu(0), OTHER), held(gpu(1), MINE), held(gpu(2), MINE)), health())


def indices(owner: Owner) -> list[str]:
    return [view.gpu.index for view in owner.gpus]


def test_a_job_that_runs_has_the_gpus_that_it_holds_now() -> None:
    owner = owner_of(VIEW, PAGE)
    assert indices(owner) == ["1", "2"]
    assert (owner.key, owner.run, owner.usage) == (("slurm", "1"), "u1", VIEW.usage)


def test_a_job_that_ended_has_those_it_had_whoever_holds_them_now() -> None:
    ended = replace(VIEW, ended=8.0)
    assert indices(owner_of(ended, PAGE)) == ["0", "1"]
    earlier = {gpu(0).key: replace(USAGE[gpu(0).key], in_last_run=False)}
    assert indices(owner_of(replace(ended, usage=USAGE | earlier), PAGE)) == ["1"]


def test_a_job_without_a_gpu_here_has_none_and_no_run() -> None:
    owner = Owner(UnownedKey("9"))
    assert (owner.run, owner.usage, owner.gpus) == ("", {}, ())


def test_a_job_is_found_by_its_own_id_and_by_those_of_its_pods() -> None:
    view = replace(VIEW, job=replace(MINE, aliases=("ns/pod-0",)))
    owners = KnownOwners(replace(PAGE, jobs=(view,)))
    found = owners.of("1")
    assert found is not None
    assert found.view is view
    assert owners.of("ns/pod-0") == found
    assert owners.of("1") is found, "it was looked for once"
    assert owners.of("2") is None


def test_of_two_runs_of_one_id_the_one_that_runs_is_meant() -> None:
    ended, runs = replace(VIEW, ended=8.0, updated=9.5), replace(VIEW, began=8.0)
    found = KnownOwners(replace(PAGE, jobs=(ended, runs))).of("1")
    assert found is not None
    assert found.view is runs


def test_before_the_first_snapshot_nobody_is_known() -> None:
    assert KnownOwners(None).of("1") is None


def test_the_gpus_of_jobs_that_report_or_may_yet_begin_to_are_known() -> None:
    reports, later = ReportsView(), YOUNG_SECONDS + 1.0
    mine, other = VIEW, JobView(OTHER, 0.0)
    young = replace(PAGE, unix=60.0, jobs=(mine, other))
    assert gpus_of_reports(young) == {gpu(place).key for place in (0, 1, 2)}
    old = replace(young, unix=later)
    assert gpus_of_reports(old) == set()
    again = replace(mine, run_began=later - 60.0)
    assert gpus_of_reports(replace(old, jobs=(again,))) == {gpu(1).key, gpu(2).key}
    told = replace(old, jobs=(replace(mine, reports=reports), other))
    assert gpus_of_reports(told) == {gpu(1).key, gpu(2).key}
    ended = replace(told, jobs=(replace(mine, reports=reports, ended=later),))
    assert gpus_of_reports(ended) == set()


def test_a_run_has_stated_a_step_once_its_reports_have_one() -> None:
    for step, found in ((None, set()), (3, {(VIEW.job.key, VIEW.job.uid)})):
        reports = ReportsView(progress=Progress(step=step))
        view = replace(VIEW, reports=reports, start=Start(is_open=True))
        assert stepped(replace(PAGE, jobs=(view,))) == found
