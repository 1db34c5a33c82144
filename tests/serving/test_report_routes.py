"""What the body of a report may be."""

from __future__ import annotations

import json

import pytest

from ofu_exporter.serving.report_routes import MalformedError, read_report


@pytest.mark.parametrize("name", ["llm-7b", "größe", "模型", "\U0001f600"])
def test_text_is_taken_whether_it_is_escaped_or_not(name: str) -> None:
    for body in (json.dumps({"job_id": name, "mfu": 0.4}), f'{{"job_id": "{name}", "mfu": 0.4}}'):
        assert read_report(body.encode()).job_id == name


@pytest.mark.parametrize(
    "body",
    [
        b'{"job_id": "1", "mfu": 0.4, "\\ud800": 1}',
        b'{"job_id": "1", "mfu": 0.4, "model": {"config": {"x": "\\uDFFF"}, "seq_len": 8}}',
        b'{"job_id": "1", "mfu": 0.4, "\xed\xa0\x80": 1}',
        b'{"job_id": "1", "mfu": 0.4, "framework": "\xed\xa0\x80"}',
    ],
)
def test_half_a_surrogate_pair_is_refused_wherever_and_however_it_stands(body: bytes) -> None:
    with pytest.raises(MalformedError):
        read_report(body)


def test_an_escape_of_an_escape_is_text_as_any_other() -> None:
    assert read_report(b'{"job_id": "a\\\\ud800", "mfu": 0.4}').job_id == "a\\ud800"
