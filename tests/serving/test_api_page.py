"""The page about the API: every route and every field of a report, and nothing from another host."""

from __future__ import annotations

import re

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.serving.access import Access
from ofu_exporter.serving.api_page import api_page
from ofu_exporter.serving.app import create_app
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.page import Page
from tests.helpers.values import FakeClock


def document() -> dict[str, object]:
    page = Page(FakeClock())
    book, reports = JobBook(page.snapshot, "node1"), ReportBook(page.snapshot)
    return create_app(page, book, reports, Guard(Access())).openapi()


def test_it_names_every_route_and_every_field_of_a_report() -> None:
    text = api_page(document())
    for path in ("GET /v1/gpus", "GET /v1/jobs/{job_id}", "POST /v1/mfu", "GET /readyz"):
        assert f"<code>{path}</code>" in text
    for name in MfuReport.model_fields:
        assert f"<code>{name}</code>" in text
    assert "<code>job_id</code> (needed)" in text


def test_a_browser_without_a_way_out_shows_all_of_it() -> None:
    """A page of Swagger would load its scripts from another host, and be empty on most nodes."""
    text = api_page(document())
    assert "<script" not in text
    assert set(re.findall(r"(?:href|src)=([^ >]+)", text)) == {"/metrics", "/openapi.json", "/"}
