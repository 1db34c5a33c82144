"""Errors of this program: each costs one series or one answer, is counted, and has a line a minute in the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.serving.access import Access
from ofu_exporter.serving.app import create_app
from ofu_exporter.serving.faults import LINE_SECONDS, Faults
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.metrics.agent import AgentCounts
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.values.snapshot import Snapshot
from tests.helpers.node import snapshot_of
from tests.helpers.server import Client, serving
from tests.helpers.values import FakeClock, gpu, reading

GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"


class Broken:
    """Counts of the agent that cannot be had while `is_broken`."""

    is_broken = True

    def __call__(self) -> AgentCounts:
        if self.is_broken:
            raise ValueError("\ud800" * 10_000)
        return AgentCounts()


@pytest.fixture
def counts() -> Broken:
    return Broken()


@pytest.fixture
def page(counts: Broken) -> Page:
    return Page(FakeClock(5.0), counts)


@pytest.fixture
def client(page: Page) -> Iterator[Client]:
    book, reports = JobBook(page.snapshot, "node1"), ReportBook(page.snapshot)
    with (
        serving(create_app(page, book, reports, Guard(Access()), ReadAccess())) as listeners,
        Client(listeners) as connected,
    ):
        yield connected


def samples(page: Page, name: str) -> dict[tuple[str, ...], float]:
    """The values by their labels, in the order of the labels' names."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.render().body.decode())
        for sample in family.samples
        if sample.name == name
    }


def test_an_answer_that_fails_is_a_500_on_the_same_connection_counted_and_one_line(
    client: Client, counts: Broken, page: Page, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        client.send(GET % b"/metrics")
        status, _, body = client.answer()
        assert (status, body) == (500, {"detail": "an error of the agent: see its log"})
    counts.is_broken = False
    assert samples(page, "ofu_exporter_faults_total") == {("/metrics",): 20}
    assert samples(page, "ofu_exporter_http_requests_total") == {("500", "/metrics"): 20}
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is None
    message = record.getMessage()
    assert "/metrics" in message
    assert "ValueError" in message
    assert "test_faults.py" in message or "page.py:" in message
    assert len(message) < 1000
    assert "\n" not in message


def test_a_line_is_due_again_after_a_while_and_each_place_has_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock(0.0)
    faults = Faults(clock)
    for now in (0.0, 1.0, LINE_SECONDS - 1, LINE_SECONDS + 1):
        clock.now = now
        faults.note("/", ValueError())
        faults.note("/v1/gpus", ValueError())
    assert len(caplog.records) == 4
    assert faults.counts() == {"/": 4, "/v1/gpus": 4}


def test_a_sample_that_cannot_be_written_costs_itself(counts: Broken, page: Page) -> None:
    counts.is_broken = False
    whole = snapshot_of(reading(), reading(device=gpu(1)))
    first, second = whole.gpus
    page.publish(replace(whole, gpus=(first._replace(source="\ud800"), second)))
    for accept in ("", "application/openmetrics-text; version=1.0.0"):
        assert page.render(accept).body
    infos = samples(page, "ofu_gpu_info")
    assert len(infos) == 1
    assert "GPU-0001" in next(iter(infos))
    assert len(samples(page, "ofu_gpu_utilization_ratio")) == 2
    assert samples(page, "ofu_exporter_faults_total") == {("ofu_gpu_info",): 1}


def broken_gpu() -> Snapshot:
    """Two GPUs; what one of them counts as is not there, which cannot be."""
    whole = snapshot_of(reading(), reading(device=gpu(1)))
    first, second = whole.gpus
    return replace(whole, gpus=(first._replace(share=None), second))  # type: ignore[arg-type]


def test_a_series_that_cannot_be_made_costs_itself(counts: Broken, page: Page) -> None:
    counts.is_broken = False
    page.publish(broken_gpu())
    assert ["GPU-0001" in info for info in samples(page, "ofu_gpu_info")] == [True]
    assert len(samples(page, "ofu_gpu_utilization_ratio")) == 2
    assert samples(page, "ofu_exporter_faults_total") == {
        ("ofu_gpu_info",): 1,
        ("ofu_gpu_instance_share_ratio",): 1,
        ("/v1/history",): 1,
    }


def test_a_gpu_that_cannot_be_shown_costs_the_api_that_gpu(
    client: Client, counts: Broken, page: Page
) -> None:
    counts.is_broken = False
    page.publish(broken_gpu())
    client.send(GET % b"/v1/gpus")
    status, _, body = client.answer()
    assert (status, [each["uuid"] for each in body]) == (200, ["GPU-0001"])
    assert samples(page, "ofu_exporter_faults_total")[("/v1/gpus",)] == 1
