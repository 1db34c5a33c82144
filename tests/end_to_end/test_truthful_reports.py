"""Truthful reports of jobs whose GPUs are read from a dcgm-exporter's page: no verdict ever accuses one of them.

A page has one clock for a whole collection interval, so the error of its OFU is not known from the window itself.
The page is read by the agent's own driver; the simulator knows what the GPUs truly did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from ofu_exporter.reports.book import ReportBook
from ofu_exporter.values.job import Claim, Job
from ofu_exporter.values.reported import ErrorMethod, Verdict
from ofu_exporter.values.snapshot import Snapshot
from tests.helpers.desk import anybody, said
from tests.simulator import agent
from tests.simulator.driver_servers import EPOCH
from tests.simulator.loads import BY_NAME, LOADS, Load
from tests.simulator.mishaps import BEGIN, END, SEED
from tests.simulator.sources import Page

pytestmark = [pytest.mark.slow]
REPORT_SECONDS = 10.0
QUIET = {Verdict.AGREE, Verdict.INSUFFICIENT_DATA}


class Said(NamedTuple):
    """What was said of a job at one instant."""

    verdict: Verdict
    total_verdict: Verdict
    method: ErrorMethod | None
    stderr: float | None


class TruthfulJobs:
    """A job on each GPU, which reports every ten seconds what the GPU truly did."""

    def __init__(self, kind: Page, loads: Sequence[Load], over: float) -> None:
        """`over` is what each report adds to the truth."""
        self._running = kind.start(Path(), [load.curve for load in loads], "")
        self._loads = loads
        self._over = over
        self._shown: Snapshot | None = None
        self._last = BEGIN
        world = self._running.world
        self._book = ReportBook(lambda: self._shown, None, world.monotonic, world.unix)
        self.said: dict[str, list[Said]] = defaultdict(list)
        """By load, at every tick."""
        claims = tuple(
            Claim(Job("slurm", load.name), (str(number),)) for number, load in enumerate(loads)
        )
        agent.seed(SEED)
        world.wait(BEGIN)
        source = self._running.source()
        self._agent = agent.Agent(source, world, kind.interval, claims, self._publish)

    def live(self) -> None:
        try:
            self._agent.live(END)
        finally:
            self._running.close()

    def _publish(self, snapshot: Snapshot) -> None:
        self._shown = snapshot
        now = self._running.world.now()
        if now - self._last >= REPORT_SECONDS:
            for load in self._loads:
                mfu = load.curve.utilization(self._last, now) + self._over
                report = said(load.name, mfu=mfu, start=EPOCH + self._last, end=EPOCH + now)
                self._book.report(report, anybody)
            self._last = now
        for view in self._book.reviewed(snapshot).jobs:
            if view.reports is not None:
                found = view.reports
                said_now = Said(
                    found.recent_verdict,
                    found.verdict,
                    found.recent_stderr_method,
                    found.recent_stderr_ratio,
                )
                self.said[view.job.job_id].append(said_now)


def said_of(pace: float, loads: Sequence[Load], over: float = 0.0) -> dict[str, list[Said]]:
    """What is said of jobs whose page has a value every `pace` seconds."""
    jobs = TruthfulJobs(Page(pace, 1.0), loads, over)
    jobs.live()
    return jobs.said


@cache
def said_of_truthful(pace: float) -> dict[str, list[Said]]:
    return said_of(pace, LOADS)


PACES = [
    pytest.param(pace, marks=pytest.mark.xdist_group(f"truthful, {pace:g} s"))
    for pace in (1.0, 5.0, 30.0)
]
ON_THE_BEAT = {"square, 0.5 s", "square, 1 s"}
"""Loads whose clock is the same at every read: no spread shows that, and docs/dcgm.md says so."""


@pytest.mark.parametrize("pace", PACES)
def test_no_truthful_job_is_accused_and_no_verdict_flaps(pace: float) -> None:
    for load, each in said_of_truthful(pace).items():
        if load in ON_THE_BEAT:
            continue
        for verdicts in ([now.verdict for now in each], [now.total_verdict for now in each]):
            assert set(verdicts) <= QUIET, load
            changes = sum(one is not other for one, other in pairwise(verdicts))
            assert changes <= 1, load


@pytest.mark.parametrize("pace", PACES)
def test_an_error_that_no_window_knows_is_estimated_and_never_zero(pace: float) -> None:
    found = {load: each[-1] for load, each in said_of_truthful(pace).items()}
    # An idle GPU has an OFU of 0 whatever its clock is.
    assert (found["idle"].method, found["idle"].stderr) == (ErrorMethod.MEASURED, 0.0)
    methods = {load: each.method for load, each in found.items() if load != "idle"}
    assert set(methods.values()) == {ErrorMethod.ESTIMATED}
    assert (found["clock noise"].stderr or 0.0) > 0.005
    assert (found["work and sleep"].stderr or 0.0) > 0.1


@pytest.mark.parametrize("pace", PACES)
def test_a_report_that_is_ten_points_too_high_is_still_found(pace: float) -> None:
    names = ("steady", "clock noise", "mild steps", "ten-second steps")
    found = said_of(pace, [BY_NAME[name] for name in names], over=0.1)
    for name in names:
        assert found[name][-1].verdict is Verdict.MFU_ABOVE_OFU, name
