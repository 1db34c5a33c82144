"""The file that tells a job's next run, on other nodes, how far its steps had come."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ofu_exporter.client import Reporter
from ofu_exporter.client.steps_file import MOST_RUNS, StepsFile
from tests.doubles.report_agent import report_agent
from tests.helpers.agent import until


def test_the_next_run_tells_the_highest_step_whatever_became_of_the_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFU_EXPORTER_STEPS_FILE", str(tmp_path / "steps"))
    with Reporter(7, "http://127.0.0.1:1", every=0.02, run="llama") as first:
        for step in (90, 100):
            first.report(step=step)
    with report_agent() as node, Reporter(7, node.url, every=0.02, run="llama") as then:
        then.report(step=61)
        until(lambda: then.counts["accepted"] > 0)
        then.stage("rl")
        then.report(step=1)
    told = [(each["step"], each.get("reached")) for each in node.reports]
    assert told == [(61, 100), (1, None)]
    assert StepsFile(str(tmp_path / "steps")).reached("llama")["reached"] == 100


@pytest.mark.parametrize(
    "content",
    [b"", b"[", b"[]", b"[" * 60_000, b'{"": -1}', b'{"": "9"}', b'{"": [9, 1e12]}', b"\xff"],
)
def test_what_is_none_of_ours_is_as_if_it_were_not_there(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "steps"
    path.write_bytes(content)
    file = StepsFile(str(path))
    assert file.reached("") == {}
    file.keep("", 5)
    assert file.reached("") == {}, "it was not there when this run began"
    assert StepsFile(str(path)).reached("")["reached"] == 5


def test_a_pipe_in_its_place_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "steps")
    assert StepsFile(str(tmp_path / "steps")).reached("") == {}


def test_a_folder_that_is_away_costs_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OFU_EXPORTER_STEPS_FILE", str(tmp_path / "none" / "steps"))
    with report_agent() as node, Reporter(7, node.url, every=0.02) as reporter:
        reporter.report(step=1)
        until(lambda: reporter.counts["accepted"] > 0)
    assert sum("OFU_EXPORTER_STEPS_FILE is not written" in line for line in caplog.messages) == 1


def test_of_many_runs_the_last_are_kept(tmp_path: Path) -> None:
    for number in range(MOST_RUNS + 3):
        StepsFile(str(tmp_path / "steps")).keep(str(number), number)
    file = StepsFile(str(tmp_path / "steps"))
    assert [file.reached(str(number)).get("reached") for number in (2, 3, MOST_RUNS + 2)] == [
        None,
        3,
        MOST_RUNS + 2,
    ]
    assert len(os.listdir(tmp_path)) == 1
