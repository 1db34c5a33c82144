"""The pages and the last hour over HTTP, from a real agent."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest

from tests.helpers.agent import SIMULATED, Agent, agent, until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]


@pytest.fixture(scope="module")
def demo() -> Iterator[Agent]:
    with agent(*SIMULATED) as running:
        until(lambda: "1002" in running.get("/v1/jobs")[1])
        until(lambda: any(json.loads(running.get("/v1/history")[1])["jobs"]))
        yield running


@pytest.mark.parametrize("path", ["/", "/jobs/1001"])
def test_a_page_has_headers_that_keep_it_to_itself(demo: Agent, path: str) -> None:
    with urllib.request.urlopen(demo.url + path, timeout=60) as answer:
        text = answer.read().decode()
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert answer.headers["Cache-Control"] == "no-store"
    assert "Simulated data: no GPU was measured." in text


def test_a_job_that_nobody_knows_has_no_page(demo: Agent) -> None:
    assert demo.get("/jobs/4711")[0] == 404


def test_the_last_hour_is_there_as_json(demo: Agent) -> None:
    hour = json.loads(demo.get("/v1/history")[1])
    assert (hour["gpu_step_seconds"], hour["job_step_seconds"]) == (10.0, 30.0)
    assert [len(each["ofu"]) for each in hour["gpus"]] == [360] * 8
    assert {each["job_id"] for each in hour["jobs"]} >= {"1001", "1002"}


def test_requests_for_pages_of_jobs_are_one_series(demo: Agent) -> None:
    for job in ("1001", "1002", "../x"):
        demo.get(f"/jobs/{job}")
    paths = {row for row in demo.get("/metrics")[1].splitlines() if 'path="/jobs/' in row}
    assert all('path="/jobs/{job_id}"' in row for row in paths)
    assert paths
