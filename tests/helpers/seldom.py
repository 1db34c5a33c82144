"""A page on which stands what seldom happens: energy, memory, a trace, sources that fail, serving engines, faults."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from ofu_exporter.serving.metrics.agent import AgentCounts
from ofu_exporter.serving.page import Page
from ofu_exporter.values.job import Job
from ofu_exporter.values.reading import Activity
from ofu_exporter.values.reasons import Reason, SchedulerReason
from ofu_exporter.values.served import Served
from ofu_exporter.values.snapshot import SchedulerHealth, Snapshot, SourceHealth
from tests.helpers.desk import Desk
from tests.helpers.values import FakeClock, reading

WORKS = Activity(engine=0.8, sm=0.7, dram=0.25, energy_joules=3000.0)
RESTS = Activity(engine=0.0, sm=0.0, dram=0.0, energy_joules=500.0)
ENGINE = Served(
    tokens=defaultdict(float, {("m", "prompt"): 900.0}),
    requests=defaultdict(float, {"m": 12.0}),
    forward_seconds=defaultdict(float, {("m", "prefill"): 3.0}),
    moved_bytes=defaultdict(float, {("m", "read"): 7e12}),
    flops=defaultdict(float, {"m": 5e15}),
    seconds=defaultdict(float, {"m": 60.0}),
    running=defaultdict(float, {"m": 2.0}),
    waiting=defaultdict(float, {"m": 4.0}),
    engines=defaultdict(float, {"decode": 1.0}),
)
COUNTS = AgentCounts(
    rejected_reports={"overlap": 2},
    pulls={("41", "ok"): 8},
    served={"41": ENGINE},
    state_writes={"written": 7, "failed": 1},
    state_set_aside=1,
    dropped_log_lines=3,
    traces={"done": 5},
)
SOURCE = SourceHealth(
    "nvml", False, Reason.NO_DRIVER, reads=10, failures={"hung": 3}, rejected={"damaged_line": 2}
)
SCHEDULER = SchedulerHealth(
    "slurm", False, SchedulerReason.UNTRUSTED, failures={"untrusted": 3}, rejected={"malformed": 1}
)


def snapshot() -> Snapshot:
    """A window that works and one that rests, of a job that has stated a step and whose trace was read."""
    desk = Desk(1)
    desk.give(Job("slurm", "41", "llama", "ada"), "0")
    for end, tensor, activity in ((5.0, 0.5, WORKS), (10.0, 0.0, RESTS)):
        desk.node.tick(end, reading(end - 5.0, end, tensor, activity=activity))
    desk.clock.now = 10.0
    desk.report("41", mfu=0.2, precision="bf16", step=7)
    desk.show()
    (view,) = desk.shown.jobs
    assert view.reports is not None
    reports = replace(view.reports, finding_seconds={"checkpoint": 4.0}, traced_seconds=40.0)
    jobs = (replace(view, reports=reports),)
    failing = replace(desk.shown, jobs=jobs, source=SOURCE, schedulers=(SCHEDULER,))
    return replace(failing, paused=True, released=True)


def page() -> Page:
    """The page of that node, of which something could not be shown."""
    shown = snapshot()
    page = Page(FakeClock(shown.at), lambda: COUNTS, process=False)
    page.certificate_expires = lambda: 1.9e9
    page.publish(shown)
    page.count_request("/v1/jobs", 200)
    page.faults.note("/v1/gpus", ValueError())
    return page
