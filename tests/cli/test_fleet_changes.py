"""`fleet changes` on a real Prometheus: the paper's case from history alone, and what is said where there is none."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from ofu_exporter.cli import cli
from ofu_exporter.errors import QueryError
from ofu_exporter.fleet.changes_result import ChangeRow, ChangesReport
from tests.helpers.changed_fleet import DROPPED, END, HALVED, MENDED, changed_fleet
from tests.helpers.impatience import impatient
from tests.helpers.prometheus_server import Prometheus

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("changed-fleet")]
UNTIL = ("--until", END)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with changed_fleet(tmp_path_factory.mktemp("changed")) as running:
        yield running


def run(url: str, *flags: str) -> Result:
    return CliRunner().invoke(cli, ["fleet", "changes", "--prometheus", url, *flags])


@pytest.fixture(scope="module")
def report(prometheus: Prometheus) -> ChangesReport:
    result = run(prometheus.url, *UNTIL, "--format", "json")
    assert result.exit_code == 0, result.output
    return ChangesReport.model_validate_json(result.stdout)


def test_fewer_rows_than_one_are_refused_as_a_report_refuses_them() -> None:
    """Of -1 a table would show all rows but the last."""
    for command in ("changes", "report"):
        asked = ["fleet", command, "--prometheus", "http://127.0.0.1:1", "--rows", "-1"]
        result = CliRunner().invoke(cli, asked)
        assert (result.exit_code, "x>=1" in result.output) == (2, True), command


def of(report: ChangesReport, kind: str) -> list[ChangeRow]:
    rows = [row for row in report.changes if row.kind == kind and row.sure]
    return sorted(rows, key=lambda row: row.at)


def test_the_papers_regression_is_found_with_its_end(report: ChangesReport) -> None:
    worse, better = of(report, "name")
    assert worse.labels["job_name"] == better.labels["job_name"] == "robot-policy"
    assert (worse.at, worse.direction) == (DROPPED, "regression")
    assert (better.at, better.direction) == (MENDED, "improvement")
    assert better.factor == pytest.approx(2.5, rel=0.12)
    assert better.factor_low < 2.5 < better.factor_high
    assert (worse.ofu_before, worse.ofu_after) == pytest.approx((0.31, 0.124), rel=0.1)


def test_the_jobs_beside_it_are_named(report: ChangesReport) -> None:
    worse, better = of(report, "name")
    assert all(job.ofu > 0.2 for job in worse.before)
    assert all(job.ofu < 0.2 for job in worse.after)
    assert better.before[-1].job_id != better.after[0].job_id
    assert worse.after[0].gpus == 256


def test_its_cost_is_what_the_schedule_says(report: ChangesReport) -> None:
    worse, better = of(report, "name")
    assert worse.lost_gpu_hours == pytest.approx(9 * 256 * 12 * (1 - 0.4), rel=0.05)
    assert better.lost_gpu_hours == pytest.approx(5 * 256 * 12 * (1 - 2.5), rel=0.15)


def test_a_long_job_that_falls_to_a_half_is_found_to_the_hour(report: ChangesReport) -> None:
    (change,) = of(report, "job")
    assert (change.labels["job_name"], change.at) == ("long", HALVED)
    assert change.factor == pytest.approx(0.5, rel=0.01)


def test_a_gpu_model_says_which_jobs_moved_it(report: ChangesReport) -> None:
    moved = of(report, "model")
    assert moved
    assert {row.shares[0].job_name for row in moved} == {"robot-policy"}
    assert moved[0].factor < 0.7


def test_jobs_in_which_nothing_changes_are_not_sure(report: ChangesReport) -> None:
    names = {row.labels.get("job_name", "") for row in report.changes if row.sure}
    assert names <= {"robot-policy", "long", ""}


def test_it_says_how_far_to_trust_it(prometheus: Prometheus, report: ChangesReport) -> None:
    shown = run(prometheus.url, *UNTIL).stdout
    assert shown.startswith(report.headline)
    assert "Sure: on simulated noise at most 2% of whole answers had a sure change" in shown
    assert "100.0% of it covered by data" in shown
    assert "No GPU could be compared with others of its job" in shown


def test_only_what_is_asked_for_is_looked_at(prometheus: Prometheus) -> None:
    shown = json.loads(
        run(prometheus.url, *UNTIL, "--of", "name", "--least", "2", "--format", "json").stdout
    )
    assert [row["kind"] for row in shown["series"]] == ["name"]
    assert {row["kind"] for row in shown["changes"]} == {"name"}
    assert shown["peers"] == []


def test_markdown_has_the_same_tables(prometheus: Prometheus) -> None:
    shown = run(prometheus.url, *UNTIL, "--format", "markdown").stdout
    assert shown.startswith("# What changed\n")
    assert "## Sure changes" in shown
    assert "| what | since |" in shown


def test_a_time_without_data_is_said(prometheus: Prometheus) -> None:
    result = run(prometheus.url, "--since", "4h", "--until", "2020-01-01")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "has no series of ofu-exporter" in result.stderr


@impatient
def test_a_server_that_is_away_is_one_line() -> None:
    result = run("http://127.0.0.1:9", "--since", "4h")
    assert isinstance(result.exception, QueryError)
