"""A report over a fleet that has some of everything, golden in each of its forms: no number or word changes unseen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ofu_exporter.fleet.actions import first_actions
from ofu_exporter.fleet.changes.text import document as changes_document
from ofu_exporter.fleet.changes_result import ChangesReport
from ofu_exporter.fleet.chunks import ChunkReader, MissingChunk
from ofu_exporter.fleet.digest import report_mail
from ofu_exporter.fleet.digest import text as digest_text
from ofu_exporter.fleet.digest.config_file import DigestConfig, Exemptions
from ofu_exporter.fleet.digest.digests import DigestSource, digests
from ofu_exporter.fleet.digest.result import Digest
from ofu_exporter.fleet.digest.signs import FleetSigns, JobSigns, PartitionKey
from ofu_exporter.fleet.history.fleet_history import (
    AbsentNode,
    ClusterJob,
    FleetHistory,
    JobSums,
    ModelSums,
)
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.history.progress_sums import ProgressSums
from ofu_exporter.fleet.history.served_sums import ServedSums
from ofu_exporter.fleet.history_server import HistoryServer
from ofu_exporter.fleet.hours import HOUR, TimeSpan
from ofu_exporter.fleet.pages import report_text, rows
from ofu_exporter.fleet.pages.folder import PageNumbers
from ofu_exporter.fleet.pages.job_page import job_html, job_text
from ofu_exporter.fleet.pages.report_page import page
from ofu_exporter.fleet.reports.job_result import JobResult, job_result
from ofu_exporter.fleet.reports.job_rows import iso
from ofu_exporter.fleet.reports.one_job import GpuHours, JobStory, PointRow
from ofu_exporter.fleet.reports.periods import with_periods
from ofu_exporter.fleet.reports.result import FleetReport, PeriodRow
from ofu_exporter.values.losses import Loss
from tests.fleet.changes.test_text import NAMES, change, slow
from tests.fleet.changes.test_text import report as changes_of
from tests.fleet.reports.test_fleet_report import DAY, FIRST, H100, SPAN, history, job, report
from tests.helpers.rounding import as_json, rounded, schemas

Golden = Callable[[str, str], None]
L4 = "NVIDIA L4"
VERDICTS = ("agree", "mfu_above_ofu", "mfu_below_ofu", "insufficient_data")
LOST = dict(zip((str(loss.value) for loss in Loss), (3.0, 9.0, 6.0, 2.0, 1.0), strict=False))


def served() -> ServedSums:
    sums = ServedSums(roles={"prefill"}, memory_busy=9.0, memory=30.0, idle_joules=2e6)
    sums.add_hour({("llama", "prompt"): 9e8, ("llama", "cached"): 3e8}, 30.0, 4e7)
    sums.add_hour({("qwen", "generation"): 5e7, ("qwen", "prompt"): 1e7}, None, None)
    return sums


def fleet() -> FleetHistory:
    """Ten jobs of four users on two models of two clusters, no two of which are alike."""
    made = []
    for n in range(10):
        held = 10.0 + 7 * n
        seen = held - n % 3
        of_peak = 0.9 / (2 + n) if n != 4 else 0.0
        sums = JobSums(
            held,
            seen,
            seen * of_peak,
            seen / 2,
            seen * (0.11 + 0.017 * n),
            seen / 2 * of_peak,
            0.1 * n,
        )
        sums.joules, sums.idle_joules, sums.gained = 1e6 * held, 1e5 * n, 0.01 * n
        sums.lost = {name: part * seen / 30 for name, part in LOST.items()} if n % 2 else {}
        if n == 4:
            sums.idle = seen
        one = job(str(n), ("ada", "bob", "eve", "joe")[n % 4], sums)
        one.verdicts = {VERDICTS[n % 4]: 3.0}
        one.causes = {"sparse_peak": 2.0} if n % 4 in (1, 2) else {}
        one.findings = {"host_bound": 0.3, "padding": 0.1} if n % 5 == 0 else {}
        one.frameworks = {"nemo": 1.0} if n % 2 else {}
        one.models = {H100: 1.0} if n % 3 else {L4: 1.0, H100: 1.0}
        one.sizes = {float(2 ** (n % 4)): 1.0}
        one.served = served() if n == 6 else None
        made.append(one)
    found = history(*made, installed=900.0)
    found.models[DAY, "b", L4] = ModelSums(150.0, 90.0, 12.0, JobSums(0, 60, 6, idle=30))
    found.covered[("b", FIRST)] = 0.5
    found.raw, found.is_simulated, found.is_partly_measured = {("b", FIRST)}, True, True
    found.absent = [
        AbsentNode("a", f"n{n}", {FIRST + n: 0.5, FIRST + n + 1: 1.0}, 8.0 * n, n > 1)
        for n in range(4)
    ]
    found.elsewhere, found.remark = "Elsewhere are 3 GPUs.", "A remark."
    made[2].away = 3.5
    for n, one in enumerate(made[:6]):
        lost = {"starting": 1.0 + n, "held_idle": 2.0, "alone": 0.5, "done_again": 0.25 * n}
        lost |= {"evaluation": 0.3, "checkpoint": 0.2} if n % 2 else {}
        steps = 100.0 * n if n else None
        found.progress[one.key] = ProgressSums(10.0 + 5 * n, lost, 0.4 * n, steps, float(n))
        found.progress[one.key].restarted = {FIRST + 2 * n: 1.0, FIRST + 2 * n + 1: 1.0 + n}
        found.progress[one.key].recovering = {FIRST + 2 * n: 0.5 * n}
    for n in range(30):
        found.hours[FIRST + n] = JobSums(8.0, 7.5, 0.1 * n, 4.0, 2.0, 0.05 * n, 0.2)
        found.jobless_hours[FIRST + n] = JobSums(0.0, 3.0, 0.02 * n, idle=2.5)
        found.gpus["a", FIRST + n] = 16.0
    return found


@cache
def whole() -> FleetReport:
    prices = Prices(currency="EUR", gpu_hour={"*H100*": 2.5, "*L4*": 0.5})
    gap = MissingChunk("energy", TimeSpan(SPAN.start, SPAN.start + HOUR), "too many samples")
    made = report(fleet(), prices=prices, missing=(gap,))
    before = [
        PeriodRow(
            start=f"2024-09-{day:02}T00:00:00Z",
            end=f"2024-09-{day + 2:02}T00:00:00Z",
            covered_ratio=1.0,
            delivered_ratio=0.01 * day,
            ofu=0.015 * day,
            groups={"ada": 0.2, "gone": 0.1},
            chain=[],
        )
        for day in (3, 5, 7)
    ]
    rows_of = [
        change(),
        change(direction="improvement", sure=False, labels={**NAMES, "user": "bob"}),
    ]
    changes = changes_of(rows_of, [slow(), slow(gpu=None, uuid=None, compared="ofu")])
    made = with_periods(made, before).model_copy(update={"changes": changes})
    made = made.model_copy(update={"actions": first_actions(made)})
    return FleetReport.model_validate(rounded(json.loads(made.model_dump_json())))


def in_text() -> str:
    return report_text.document(whole(), changes_document(changes()), 5).plain()


def in_markdown() -> str:
    return report_text.document(whole(), changes_document(changes()), 5).markdown()


def changes() -> ChangesReport:
    found = whole().changes
    assert found
    return found


def in_html() -> str:
    return bare(page(whole(), changes_document(changes())))


def bare(text: str) -> str:
    """A page without what its style sheet and its program are."""
    return re.sub(r"(?s)(<(style|script)[^>]*>).*?(</\2>)", r"\1\3", text)


@cache
def story() -> JobResult:
    """Of the last job, of whose GPUs one is slow; two others are its earlier runs."""
    history = fleet()
    *others, own = history.jobs.values()
    own.note_hour(FIRST + 12)
    for each in others[:2]:
        each.names, each.models, each.sizes = own.names, own.models, own.sizes
        each.first_hour = FIRST - 5
    points = [
        PointRow(
            time=iso(SPAN.start + 120 * n),
            gpus=None if n % 28 == 27 else 8 - (9 < n < 15),
            ofu=0.0 if 20 < n < 40 else 0.01 * (n % 9),
            mfu=0.1 if n % 4 else None,
            activity=0.02 * (n % 5),
            clock=0.7 + 0.005 * n,
            lost={Loss.CLOCK: 0.1, Loss.IDLE: 0.01 * n} if n % 3 else {},
        )
        for n in range(60)
    ]
    gpus = [
        GpuHours(
            f"n{n}:9846",
            str(n),
            f"GPU-{n}",
            {FIRST + at: 0.3 - 0.2 * (n == 1) for at in range(8)},
            {FIRST + at: 1.4e9 for at in range(8)},
        )
        for n in range(4)
    ]
    told = JobStory(own, history, 120.0, points, gpus, ["zoe", "max"])
    return job_result(told, ChunkReader(HistoryServer("http://p")))


@cache
def of_ada() -> Digest:
    idle = {("n1", "3"): {*range(5)}, ("n2", "0"): {1, 2}}
    signs = JobSigns(0.71, 0.4, 30.0, {1, 2, 3, 4}, {1, 2, 3}, idle)
    known = FleetSigns({ClusterJob("a", "8"): signs}, {PartitionKey("a", "gpu"): 0.35})
    config = DigestConfig(
        ranks=True, contact="Ask us.\nAt noon.", exempt=Exemptions(job_names=("x",))
    )
    return digests(DigestSource(whole(), known, "SIMULATED. "), "user", config)[0]


FORMS: dict[str, Callable[[], str]] = {
    "fleet-report.json": lambda: as_json(whole()),
    "fleet-report.txt": in_text,
    "fleet-report.md": in_markdown,
    "fleet-report.csv": lambda: rows.as_csv(whole()),
    "fleet-report.html": in_html,
    "fleet-job.json": lambda: as_json(story()),
    "fleet-job.txt": lambda: job_text(story()),
    "fleet-job.html": lambda: bare(job_html(story())),
    "digest.json": lambda: as_json(of_ada()),
    "digest.txt": lambda: digest_text.text(of_ada(), 2),
    "digest.short.txt": lambda: digest_text.short(of_ada()),
    "digest.html": lambda: bare(digest_text.page(of_ada(), 2)),
    "report-mail.txt": lambda: report_mail.body(whole(), Path("report.html")),
    "fleet-schemas.json": lambda: schemas(JobResult, Digest, PageNumbers),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_report_is_as_it_was(name: str, golden: Golden) -> None:
    golden(name, FORMS[name]())
