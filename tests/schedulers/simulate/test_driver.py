"""Jobs that come and go on a simulated node."""

from __future__ import annotations

import re
from pathlib import Path

from ofu_exporter import schedulers
from ofu_exporter.schedulers.simulate.driver import PAUSE_SECONDS, QUEUES, Options, Scheduler
from tests.helpers.values import FakeClock


def test_it_is_never_used_unasked() -> None:
    assert "simulate" in schedulers.names()
    assert "simulate" not in schedulers.automatic()


def test_every_queue_runs_one_job_on_gpus_of_its_own() -> None:
    claims = Scheduler(Options(), FakeClock()).claims()
    assert [claim.job.name for claim in claims] == [queue.name for queue in QUEUES]
    gpus = [gpu for claim in claims for gpu in claim.devices]
    assert len(gpus) == len(set(gpus)) == 7
    assert {claim.job.scheduler for claim in claims} == {"simulate"}


def test_a_job_ends_and_after_a_pause_the_next_begins() -> None:
    clock = FakeClock(100.0)
    scheduler = Scheduler(Options(), clock, lambda: 5000.0)
    short = QUEUES[3]

    def job() -> tuple[str, float | None] | None:
        found = [claim.job for claim in scheduler.claims() if claim.job.name == short.name]
        return (found[0].job_id, found[0].started) if found else None

    assert job() == ("1004", 5000.0)
    clock.now = 100.0 + short.seconds - 1.0
    assert job() == ("1004", 5000.0)
    clock.now = 100.0 + short.seconds
    assert job() is None
    clock.now = 100.0 + short.seconds + PAUSE_SECONDS
    assert job() == ("1008", 5000.0 + short.seconds + PAUSE_SECONDS)


def test_the_jobs_that_the_documentation_names_run_as_long_as_anybody_reads_it() -> None:
    text = Path("README.md").read_text() + Path("docs/start.md").read_text()
    named = set(re.findall(r"(?:job show |job_id\W+|--job )\"?(1\d\d\d)\b", text)) - {"1234"}
    clock = FakeClock(100.0)
    scheduler = Scheduler(Options(), clock, lambda: 5000.0)
    first = {claim.job.job_id: claim.job for claim in scheduler.claims()}
    assert {"1001", "1003"} <= named <= set(first)
    for _ in range(300):
        clock.now += 977.7
        now = {claim.job.job_id: claim.job for claim in scheduler.claims()}
        assert {name: now.get(name) for name in named} == {name: first[name] for name in named}


def test_no_two_jobs_ever_have_one_id() -> None:
    clock = FakeClock(0.0)
    scheduler = Scheduler(Options(), clock)
    names: dict[str, str] = {}
    for _ in range(2000):
        clock.now += 10.0
        for claim in scheduler.claims():
            assert names.setdefault(claim.job.job_id, claim.job.name) == claim.job.name
