"""Text from outside: everything that is shown of it can be written, and moves no terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.values.gpu import Gpu
from ofu_exporter.values.job import Job
from ofu_exporter.values.reading import Fault
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import SchedulerHealth, SourceHealth
from ofu_exporter.values.text import first_names, shown, shown_lines
from tests.helpers.every import every

ANY_TEXT = st.text(st.characters(exclude_categories=()))
"""Hypothesis leaves halves of surrogate pairs out unless it is told not to."""


def is_safe(text: str) -> bool:
    return text.encode().decode() == text and text.isprintable()


@given(ANY_TEXT)
def test_what_is_shown_of_any_text_can_be_written_and_is_printable(text: str) -> None:
    assert is_safe(shown(text))


@given(ANY_TEXT.filter(str.isprintable))
def test_printable_text_stays_as_it_is(text: str) -> None:
    assert shown(text) == text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("müller, 日本", "müller, 日本"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\nb\r\t", "a\\nb\\r\\t"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eabc", "\\u202eabc"),
        ("a\ud800b", "a\\ud800b"),
    ],
)
def test_the_rest_is_shown_by_its_escape(text: str, escaped: str) -> None:
    assert shown(text) == escaped


@given(ANY_TEXT)
def test_lines_stay_lines_and_what_is_shown_stays_as_it_is(text: str) -> None:
    lines = shown_lines(text)
    assert lines.split("\n") == [shown(line) for line in text.split("\n")]
    assert shown_lines(lines) == lines


@given(ANY_TEXT)
def test_gpus_jobs_and_details_are_made_of_safe_text(text: str) -> None:
    gpu = Gpu(text, text, text, text, text, text, text, text, mig_uuid=text)
    job = Job(text, text, text, text, text, text, text, text, text, text, uid=text, aliases=(text,))
    details = [
        Fault(gpu, 0.0, Reason.LOST, text).detail,
        SourceHealth(text, detail=text).detail,
        SchedulerHealth(text, detail=text).detail,
    ]
    fields = [*map(gpu.__getattribute__, gpu.__slots__), *map(job.__getattribute__, job.__slots__)]
    texts = [each for each in (*fields, *details, *job.aliases) if isinstance(each, str)]
    assert len(texts) == 9 + 12 + 3 + 1
    assert all(is_safe(each) for each in texts)


@every([(20, ""), (21, " and 1 more"), (25, " and 5 more")])
def test_names_beyond_the_most_are_counted(count: int, more: str) -> None:
    names = [f"n{number}" for number in range(count)]
    assert first_names(names, 20) == ", ".join(names[:20]) + more
