"""Times are read as people write them, and progress is said where somebody looks."""

from __future__ import annotations

import pytest

from ofu_exporter.cli.fleet_server import ProgressLine, instant, since_seconds
from ofu_exporter.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1h", 3600), ("90m", 5400), ("14d", 1209600), ("1.5d", 129600), ("2w", 1209600)],
)
def test_durations(text: str, seconds: float) -> None:
    assert since_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "d", "-1d", "59m", "99999w", "1e3d", "1 d", "nan"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--since"):
        since_seconds(text)


@pytest.mark.parametrize(
    ("text", "unix"),
    [
        ("1970-01-02", 86400),
        ("1970-01-01T01:00", 3600),
        ("1970-01-01T01:00Z", 3600),
        ("1970-01-01T01:00:00+01:00", 0),
    ],
)
def test_a_time_without_a_zone_is_utc(text: str, unix: float) -> None:
    assert instant(text) == unix


def test_progress_is_one_line_each_where_it_is_no_terminal_and_only_if_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for wanted in (None, False, True):
        line = ProgressLine(wanted)
        line("jobs", 24, 336)
        line.end()
    assert capsys.readouterr().err == "reading jobs: 24 of 336 hours\n"
