"""Honest jobs that report their MFU under simulated time: `python -m tests.simulator.reporting`, some minutes.

A job trains in steps of 2.3 s with a noisy clock, and may pause after each report, as for an evaluation that its loop
leaves out. What it truly did is integrated by tests/simulator/curve.py. The agent measures it with its own drivers and
compares with its own report book. `--jobs N` sets how many jobs are judged; `--write` puts the table into
tests/measured/accuracy.md.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.coverage import reported_sums
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.values.job import Claim, Job
from ofu_exporter.values.reported import Verdict
from ofu_exporter.values.snapshot import Snapshot
from tests.helpers.markdown import with_section
from tests.simulator import agent
from tests.simulator.__main__ import PAGE
from tests.simulator.curve import Curve, Level
from tests.simulator.driver_servers import EPOCH, START
from tests.simulator.loads import training
from tests.simulator.sources import Dcgm, Kind, Nvml
from tests.simulator.world import World

BEGIN = 5.0
"""The agent begins, in seconds of the load."""
REPORTS, PAUSES, WINDOWS = (3.0, 10.0, 60.0, 600.0), (0.0, 0.5, 4.0, 30.0), (1.0, 5.0, 30.0)
SHARES = (0.86, 0.97)
"""An honest MFU over its OFU (docs/hardware.md)."""
SHORTEST_RUN, FEWEST_REPORTS = 240.0, 3


class Case(NamedTuple):
    """One honest job."""

    source: str
    window: float
    report: float
    pause: float
    seed: int = 0

    @property
    def kind(self) -> Kind:
        if self.source == "dcgm":
            return Dcgm("dcgm", "4.5", interval=self.window)
        return Nvml("nvml", cycles=False, interval=self.window)

    @property
    def cycle(self) -> float:
        return self.report + self.pause

    @property
    def seconds(self) -> float:
        return max(SHORTEST_RUN, FEWEST_REPORTS * self.cycle + 100)


class Judged(NamedTuple):
    """One report: the OFU of its seconds by the agent, its stated error, and the truth."""

    ofu: float
    stderr: float
    truth: float
    seconds: float


class Result(NamedTuple):
    reports: list[Judged]
    verdicts: Counter[Verdict]
    """Of the last minutes, by the number of ticks."""

    @property
    def accused(self) -> bool:
        return self.verdicts[Verdict.MFU_ABOVE_OFU] > 0


def load(case: Case) -> Curve:
    """Training in steps that go on after each pause."""
    chance = random.Random(str(case))
    steps, done = training(chance), 0.0
    levels: list[Level] = []

    def add(level: Level, seconds: float) -> None:
        nonlocal done
        levels.append(Level(round(seconds, 6), round(min(level.tensor, 1.0), 9), level.mhz))
        done = round(done + levels[-1].seconds, 6)

    rest = next(steps)
    while done < case.seconds + 60:
        left = case.report
        while left > 1e-6:
            seconds = min(left, rest.seconds)
            add(rest, seconds)
            left = round(left - seconds, 6)
            rest = rest._replace(seconds=round(rest.seconds - seconds, 6))
            if rest.seconds <= 0:
                rest = next(steps)
        if case.pause:
            add(Level(0, 0.0, 1755), case.pause)
    return Curve(levels)


class Reporter:
    """Reports for the job when it is due, and judges what the agent says of each report."""

    def __init__(self, case: Case, curve: Curve, world: World) -> None:
        self._case, self._curve, self._world = case, curve, world
        self._chance = random.Random(case.seed)
        self._share = self._chance.uniform(*SHARES)
        self._number = math.ceil((BEGIN + case.window) / case.cycle)
        self._last: Snapshot | None = None
        self._book = ReportBook(lambda: self._last, clock=world.monotonic, unix=world.unix)
        self._waiting: list[tuple[float, float, float]] = []
        self.result = Result([], Counter())

    def take(self, snapshot: Snapshot) -> None:
        """A tick of the agent."""
        self._last = snapshot
        now = self._world.now()
        while (end := self._number * self._case.cycle + self._case.report) <= now - 0.2:
            self._post(end - self._case.report, end)
            self._number += 1
        reviewed = self._book.reviewed(snapshot)
        for view in reviewed.jobs:
            if view.reports is not None:
                self.result.verdicts[view.reports.recent_verdict] += 1
        while self._waiting and self._waiting[0][1] < now - 2 * self._case.window - 3:
            self._judge(*self._waiting.pop(0))

    def _post(self, start: float, end: float) -> None:
        mfu = self._curve.utilization(start, end) * self._share
        mfu *= self._chance.gauss(1, 0.005)
        body = {"job_id": "1", "mfu": mfu, "start": EPOCH + start, "end": EPOCH + end}
        self._book.take(MfuReport.model_validate(body), lambda _: None)
        self._waiting.append((start, end, mfu))

    def _judge(self, start: float, end: float, mfu: float) -> None:
        assert self._last is not None
        (view,) = self._last.jobs
        sums = reported_sums(mfu, START + start, START + end, view.usage.values())
        if sums.gpu_seconds < 0.99 * (end - start):
            return  # a part of it was before the first window
        assert sums.ofu is not None
        error = sums.error().ratio
        assert error is not None
        truth = self._curve.utilization(start, end)
        self.result.reports.append(Judged(sums.ofu, error, truth, sums.gpu_seconds))


def judged(case: Case) -> Result:
    """What the agent makes of an honest job."""
    curve = load(case)
    with tempfile.TemporaryDirectory() as folder:
        running = case.kind.start(Path(folder), [curve], "")
        try:
            agent.seed(case.seed)
            running.world.wait(BEGIN)
            reporter = Reporter(case, curve, running.world)
            claims = (Claim(Job("slurm", "1", started=EPOCH), ("0",)),)
            living = agent.Agent(
                running.source(), running.world, case.window, claims, reporter.take
            )
            living.live(case.seconds)
        finally:
            running.close()
    return reporter.result


def cases(jobs: int) -> Iterator[Case]:
    """As many jobs: every combination once, and again with other chance."""
    grid = [*itertools.product(("nvml", "dcgm"), WINDOWS, REPORTS, PAUSES)]
    return itertools.islice(
        (Case(*each, seed) for seed in itertools.count() for each in grid), jobs
    )


class Row(NamedTuple):
    """Some jobs together."""

    reports: list[Judged]
    accused: int
    jobs: int

    @property
    def within(self) -> float:
        """Share of the reports with the truth within two stated errors."""
        good = sum(abs(each.ofu - each.truth) <= 2 * each.stderr for each in self.reports)
        return good / len(self.reports)

    @property
    def bias(self) -> float:
        """Points by which the sum over all seconds is off."""
        seconds = math.fsum(each.seconds for each in self.reports)
        off = math.fsum((each.ofu - each.truth) * each.seconds for each in self.reports)
        return 100 * off / seconds

    @property
    def stated(self) -> float:
        """Mean stated error, in points."""
        return 100 * math.fsum(each.stderr for each in self.reports) / len(self.reports)


def rows(results: list[tuple[Case, Result]]) -> dict[tuple[str, float, float], Row]:
    """By source, window and length of the reports."""
    found: dict[tuple[str, float, float], Row] = {}
    for case, result in results:
        key = case.source, case.window, case.report
        row = found.get(key, Row([], 0, 0))
        found[key] = Row(row.reports + result.reports, row.accused + result.accused, row.jobs + 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulator.reporting", description=__doc__
    )
    parser.add_argument("--jobs", type=int, default=96)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    results = [(case, judged(case)) for case in cases(asked.jobs)]
    text = table(rows(results))
    if not asked.write:
        print(text)
        return
    PAGE.write_text(with_section(PAGE, "reporting", [text], "<!-- end of reporting -->"))


def table(found: dict[tuple[str, float, float], Row]) -> str:
    lines = [
        "| source | window | reports of | within 2 stated errors | bias, points | stated, points | accused |",
        "|---|---|---|---|---|---|---|",
    ]
    for (source, window, report), row in found.items():
        lines.append(
            f"| `{source}` | {window:g} s | {report:g} s | {row.within:.0%} of {len(row.reports)} "
            f"| {row.bias:+.2f} | {row.stated:.2f} | {row.accused} of {row.jobs} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
