"""The log of changes: one line each, as loud as the change is bad."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from ofu_exporter.agent.change_log import log_changes
from ofu_exporter.values.reasons import SchedulerReason
from ofu_exporter.values.snapshot import SchedulerHealth
from tests.helpers.node import snapshot_of
from tests.helpers.values import reading


@pytest.mark.parametrize(
    ("reason", "level"),
    [
        (SchedulerReason.NO_JOB_YET, logging.INFO),
        (SchedulerReason.UNTRUSTED, logging.WARNING),
        (SchedulerReason.ABSENT, logging.WARNING),
    ],
)
def test_a_scheduler_that_does_not_say_who_owns_what_is_logged_once(
    caplog: pytest.LogCaptureFixture, reason: SchedulerReason, level: int
) -> None:
    """That no job has begun yet is no fault of the node."""
    caplog.set_level(logging.INFO)
    down = SchedulerHealth("slurm", reason=reason, detail="/run/jobs")
    before = snapshot_of(reading())
    after = replace(before, schedulers=(down,))
    log_changes(before, after)
    log_changes(after, after)
    (line,) = caplog.records
    assert line.levelno == level
    assert reason.advice in line.getMessage()
    assert "/run/jobs" in line.getMessage()
