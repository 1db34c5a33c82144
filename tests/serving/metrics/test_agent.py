"""Metrics of the agent itself."""

from __future__ import annotations

import re
from dataclasses import replace

from ofu_exporter.serving.metrics.agent import AgentCounts
from ofu_exporter.serving.page import Page
from ofu_exporter.values.snapshot import SchedulerHealth
from tests.helpers.node import snapshot_of
from tests.helpers.values import FakeClock, reading
from tests.serving.test_page import page_of


def test_only_what_reads_a_file_again_says_that_it_is_right() -> None:
    """A full reload reads both files; a change of the web configuration is read by itself."""
    page = Page(FakeClock())

    def is_in_force() -> bool:
        return b"ofu_exporter_config_last_reload_successful 1.0\n" in page.render().body

    assert is_in_force()
    page.count_reload("failed")
    page.count_web_reload("applied")
    assert not is_in_force()
    page.count_reload("applied")
    assert is_in_force()
    page.count_web_reload("failed")
    assert not is_in_force()
    page.count_reload("failed")
    page.count_web_reload("applied")
    assert not is_in_force()
    page.count_web_reload("failed")
    page.count_reload("applied")
    assert is_in_force()


def test_refused_reports_are_counted_by_the_reasons_that_there_were() -> None:
    counts = AgentCounts(rejected_reports={"overlap": 2})
    body = Page(FakeClock(), lambda: counts, process=False).render().body.decode()
    found = re.findall(r'ofu_exporter_rejected_reports_total{reason="(.*)"} (.*)', body)
    assert found == [("overlap", "2.0")]


def test_what_a_scheduler_fails_at_is_counted_by_the_reasons_that_there_were() -> None:
    down = SchedulerHealth("slurm", failures={"untrusted": 3}, rejected={"malformed": 1})
    snapshot = replace(snapshot_of(reading()), schedulers=(down,))
    body = page_of(snapshot).render().body.decode()
    line = 'ofu_exporter_scheduler_{}_total{{reason="{}",scheduler="slurm"}} {}\n'
    assert line.format("failures", "untrusted", 3.0) in body
    assert line.format("rejected", "malformed", 1.0) in body
    assert len(re.findall("^ofu_exporter_scheduler_(?:failures|rejected)_total{", body, re.M)) == 2
    bare = page_of(snapshot_of(reading())).render().body.decode()
    assert "ofu_exporter_scheduler" not in bare, "a node without a scheduler has no series of one"
