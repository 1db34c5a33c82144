"""`fleet job` tells of one job on a real Prometheus, in every format."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from ofu_exporter.cli import cli
from ofu_exporter.fleet.reports.job_result import JobResult
from ofu_exporter.fleet.reports.one_job import UnknownJobError
from tests.cli.conftest import JOB, NODE
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import ScheduledJob, StoredNode, pages, stored_pages

pytestmark = [pytest.mark.slow, pytest.mark.prometheus]

EAST = StoredNode("east", "e1:9846", NODE.model, 4)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """With an id that two clusters have, one of them without a name."""
    jobs = [
        JOB,
        ScheduledJob("9", "bob", (NODE,), 0, 1, 0.2),
        ScheduledJob("9", "eve", (EAST,), 0, 1, 0.3),
    ]
    with stored_pages(tmp_path_factory.mktemp("two"), pages([NODE, EAST], jobs, 4)) as running:
        yield running


def run(prometheus: Prometheus, job_id: str, *flags: str) -> Result:
    time = ("--since", "4h", "--until", "2026-01-05T04:00Z")
    command = ["fleet", "job", job_id, "--prometheus", prometheus.url, *time, *flags]
    return CliRunner().invoke(cli, command)


def test_text_json_and_html_tell_of_the_same_job(prometheus: Prometheus) -> None:
    text, page = run(prometheus, "7"), run(prometheus, "7", "--format", "html")
    found = JobResult.model_validate_json(run(prometheus, "7", "--format", "json").stdout)
    assert text.exit_code == page.exit_code == 0
    assert found.job.ofu == pytest.approx(0.3, abs=1e-6)
    assert found.headline in text.stdout
    assert found.headline in page.stdout
    assert page.stdout.startswith("<!doctype html>")


def test_a_job_that_nobody_knows_is_one_line(prometheus: Prometheus) -> None:
    result = run(prometheus, "8")
    assert isinstance(result.exception, UnknownJobError)
    assert "check --since and --cluster" in str(result.exception)


def test_a_cluster_without_a_name_is_named_by_an_empty_one(prometheus: Prometheus) -> None:
    result = run(prometheus, "9")
    assert str(result.exception) == 'job 9 is in clusters "", east: give --cluster'
    for cluster, user in (("", "bob"), ("east", "eve")):
        found = run(prometheus, "9", "--cluster", cluster, "--format", "json").stdout
        assert JobResult.model_validate_json(found).job.user == user
