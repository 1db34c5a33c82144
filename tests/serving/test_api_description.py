"""The page about the API: every route and every field of a report, and nothing from another host."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.serving.access import Access
from ofu_exporter.serving.app import create_app
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.read_access import ReadAccess
from tests.helpers.values import FakeClock


@pytest.fixture(scope="module")
def text() -> str:
    page = Page(FakeClock())
    book, reports = JobBook(page.snapshot, "node1"), ReportBook(page.snapshot)
    app = create_app(page, book, reports, Guard(Access()), ReadAccess())
    return TestClient(app).get("/docs").text


@pytest.mark.parametrize(
    "request_", ["/metrics", "/v1/gpus", "/v1/jobs/{job_id}", "/v1/history", "/readyz"]
)
def test_it_names_every_route(text: str, request_: str) -> None:
    assert f"<code>GET {request_}</code>" in text
    assert "<code>POST /v1/mfu</code>" in text


def test_it_explains_every_field_of_a_report(text: str) -> None:
    for name, field in MfuReport.model_fields.items():
        assert f"<code>{name}</code>" in text
        assert field.description or name == "framework"
    assert re.search(r"<code>job_id</code></th>\n<td>.*? Needed[.]</td>", text)
    assert text.count(" Needed.") == 1


def test_a_browser_without_a_way_out_shows_all_of_it(text: str) -> None:
    """A page of Swagger would load its scripts from another host, and be empty on most nodes."""
    assert " src=" not in text
    assert set(re.findall(r'href="([^"]+)"', text)) == {"/openapi.json", "/"}
