"""What a trace is found to have lost is what it was made to lose."""

from __future__ import annotations

from pathlib import Path

import pytest

from ofu_exporter.traces import job
from ofu_exporter.traces.findings import names
from tests.traces.planted import PLANTS, Job, clean, planted

MOST_POINTS = 0.02


@pytest.mark.parametrize("made", [*planted()], ids=lambda made: made.finding)
def test_the_first_finding_is_what_was_planted(made: Job, tmp_path: Path) -> None:
    result, _ = job.read([made.maker.write(tmp_path / "trace.json")])
    first = result.findings[0]
    assert first.finding == made.finding
    assert first.share == pytest.approx(made.share, abs=MOST_POINTS)
    assert sum(each.share for each in result.findings) <= 1


@pytest.mark.parametrize("made", [*clean()], ids=range(30))
def test_a_sound_job_has_no_finding(made: Job, tmp_path: Path) -> None:
    result, _ = job.read([made.maker.write(tmp_path / "trace.json")])
    assert result.findings == ()


def test_every_finding_is_planted() -> None:
    assert PLANTS.keys() | {"slow_rank", "padding"} == {*names()}
