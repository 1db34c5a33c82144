"""What a client would like: by its own order, and never what it refuses."""

from __future__ import annotations

import pytest

from ofu_exporter.serving.negotiation import chosen_format, prefers_text, takes_gzip, wishes

OPENMETRICS = "application/openmetrics-text"
PROMETHEUS_2 = (  # 2.42, scrape.go
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (  # 3.5, config.go: PrometheusText1.0.0 and the others in their order
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("asked", "is_packed"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=1.0", True),
        ("*", True),
        ("gzip;q=0.5, identity;q=0.5", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip;q=0.000, *", False),
        ("identity;q=1, gzip;q=0.5", False),
        ("notgzip", False),
        ("gzip;q=much", False),
        ("gzip;q=nan", False),
    ],
)
def test_a_page_is_packed_for_whoever_wants_that_no_less_than_plain(
    asked: str, is_packed: bool
) -> None:
    assert takes_gzip(asked) is is_packed


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        ("text/html", "text/plain; version=0.0.4"),
        ("text/plain", "text/plain; version=0.0.4"),
        (PROMETHEUS_2, f"{OPENMETRICS}; version=1.0.0"),
        (PROMETHEUS_3, f"{OPENMETRICS}; version=1.0.0"),
        (OPENMETRICS, f"{OPENMETRICS}; version=1.0.0"),
        (f"{OPENMETRICS}; version=1.7.9", f"{OPENMETRICS}; version=1.0.0"),
        (f"{OPENMETRICS};version=0.0.1", "text/plain; version=0.0.4"),
        (f"{OPENMETRICS};version=x", "text/plain; version=0.0.4"),
        (f"{OPENMETRICS};q=0.2, text/plain;q=0.9", "text/plain; version=0.0.4"),
        (f"{OPENMETRICS};q=0, */*", "text/plain; version=0.0.4"),
        ("text/plain;version=1.0.0;escaping=underscores", "text/plain; version=1.0.0"),
    ],
)
def test_the_format_that_is_wanted_most_is_written(accept: str, kind: str) -> None:
    assert chosen_format(accept)[1].startswith(kind)


def test_what_a_client_writes_makes_no_more_than_a_few_formats() -> None:
    """A page of each is kept."""
    versions = [*(f"1.{number}" for number in range(100)), "99", "1\u0660", "1.0.0\r\nX: y", "2"]
    schemes = ["allow-utf-8", "underscores", "dots", "values", *map(str, range(50))]
    kinds = {
        chosen_format(f"{kind};version={version};escaping={scheme}")[1]
        for kind in (OPENMETRICS, "text/plain")
        for version in versions
        for scheme in schemes
    }
    assert len(kinds) <= 12
    assert not any("\r" in kind for kind in kinds)


@pytest.mark.parametrize(
    ("accept", "is_text"),
    [
        ("text/plain", True),
        ("text/plain, application/json", True),
        ("application/json;q=0.5, text/plain", True),
        ("application/json, text/plain", False),
        ("text/plain;q=0.5, application/json", False),
        ("text/plain;q=0", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_text_is_given_to_whoever_wants_it_more_than_json(accept: str, is_text: bool) -> None:
    assert prefers_text(accept) is is_text


def test_of_an_endless_header_32_wishes_are_read() -> None:
    assert len(wishes("a," * 10_000)) == 32
