"""What the body of a report may be, and how one that is none is refused."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.reports.book import REPORTS_AT_ONCE, ReportBook
from ofu_exporter.reports.entry import Policy
from ofu_exporter.serving.access import Access
from ofu_exporter.serving.app import create_app
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.read_access import ReadAccess
from tests.helpers.node import snapshot_of
from tests.helpers.server import Client, post, serving
from tests.helpers.values import FakeClock, reading


@pytest.fixture
def reports() -> ReportBook:
    return ReportBook(lambda: snapshot_of(reading()), Policy(unowned=True))


@pytest.fixture
def client(reports: ReportBook) -> Iterator[Client]:
    with reporting_to(reports) as connected:
        yield connected


@contextlib.contextmanager
def reporting_to(reports: ReportBook) -> Iterator[Client]:
    page = Page(FakeClock(5.0))
    book = JobBook(page.snapshot, "node1")
    app = create_app(page, book, reports, Guard(Access()), ReadAccess())
    with serving(app) as listeners, Client(listeners) as connected:
        yield connected


def answer(client: Client, body: bytes) -> tuple[int, Any]:
    client.send(post(len(body)), body)
    return client.answer()[::2]


GOOD: dict[str, Any] = {"job_id": "1", "mfu": 0.4, "peak_tflops": 989.4, "gpus": 8}


@pytest.mark.parametrize("name", ["llm-7b", "größe", "模型", "\U0001f600", "a\\ud800"])
def test_text_is_taken_whether_it_is_escaped_or_not(client: Client, name: str) -> None:
    for ascii_only in (True, False):
        body = json.dumps({**GOOD, "job_id": name}, ensure_ascii=ascii_only).encode()
        assert answer(client, body)[0] == 200


MALFORMED = [
    b'{"job_id": "1", "mfu": 0.4, "\\ud800": 1}',
    b'{"job_id": "1", "mfu": 0.4, "model": {"config": {"x": "\\uDFFF"}, "seq_len": 8}}',
    b'{"job_id": "1", "mfu": 0.4, "\xed\xa0\x80": 1}',
    b'{"job_id": "1", "mfu": 0.4, "framework": "\xed\xa0\x80"}',
    b"",
    b"{",
    b'{"job_id": "1", "mfu": NaN}',
    b"[" * 100_000,
    b'{"job_id": ' + b"9" * 5000 + b"}",
    b'{"no": 1, "such": 2, "fields": 3}',
]


@pytest.mark.parametrize("body", MALFORMED)
def test_what_is_no_report_is_refused_with_its_problems_and_counted(
    client: Client, reports: ReportBook, body: bytes
) -> None:
    status, told = answer(client, body)
    assert status == 422
    for problem in told["detail"]:
        assert problem.keys() == {"loc", "msg", "type"}, "and never what was sent"
        assert (problem["loc"][0], problem["type"]) == ("body", "malformed")
    assert reports.rejected == {"malformed": 1}


def test_of_many_problems_ten_are_told(client: Client) -> None:
    body = json.dumps({"job_id": "103", "mfu": 0.4, **{f"x{n}": 1 for n in range(12)}}).encode()
    assert len(answer(client, body)[1]["detail"]) == 10
    long = answer(client, json.dumps({"job_id": "103", "mfu": 0.4, "y" * 100_000: 1}).encode())[1]
    assert len(json.dumps(long)) < 2000


def test_a_report_with_a_key_twice_is_of_no_job(client: Client, reports: ReportBook) -> None:
    told = answer(client, b'{"job_id": "103", "job_id": "104", "mfu": 0.4}')[1]["detail"]
    why = "JSON decode error: the key 'job_id' is there twice"
    assert told == [{"loc": ["body", 0], "msg": why, "type": "malformed"}]
    assert reports.rejected == {"malformed": 1}


def test_where_json_ends_too_early_is_said(client: Client) -> None:
    assert answer(client, b'{"job_id": }')[1]["detail"] == [
        {"loc": ["body", 11], "msg": "JSON decode error: Expecting value", "type": "malformed"}
    ]


@pytest.mark.slow
def test_a_job_that_reports_too_often_is_told_when_to_come_back() -> None:
    """No time passes for the book, so that no client is too slow for the limit."""
    reports = ReportBook(lambda: snapshot_of(reading()), Policy(unowned=True), FakeClock(5.0))
    body = b'{"job_id": "7", "gpus": 2}'
    with reporting_to(reports) as client:
        for _ in range(REPORTS_AT_ONCE):
            assert answer(client, body)[0] == 200
        client.send(post(len(body)), body)
        status, headers, told = client.answer()
        assert (status, headers["retry-after"]) == (429, "1")
        problems = [(each["loc"], each["type"]) for each in told["detail"]]
        assert problems == [(["body", "job_id"], "too_many")]
        assert answer(client, body.replace(b"7", b"8"))[0] == 200, "another job is not held up"
