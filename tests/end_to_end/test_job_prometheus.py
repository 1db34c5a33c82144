"""A job's OFU over many nodes, asked of a real Prometheus, is the one computed by hand.

The scenario is three jobs on four nodes that hold different numbers of GPUs: one grows, moves and
shrinks, the second shares a node with it, and both end between two scrapes. The third is requeued twice,
and every agent is restarted from its state file meanwhile.
"""

from __future__ import annotations

import functools
import itertools
import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.jobs.totals import JobTotals, resumed_job, totals_of
from ofu_exporter.ofu.ownership.job_state import JobState
from ofu_exporter.ofu.ownership.owners import OwnerState
from ofu_exporter.ofu.tick import State, Tick, step
from ofu_exporter.serving.page import Page
from ofu_exporter.values.instant import Instant
from ofu_exporter.values.job import Claim, Job, JobKey, Ownership
from ofu_exporter.values.reading import Reading
from ofu_exporter.values.snapshot import JobView, SchedulerHealth
from tests.deploy.promtool import is_newer
from tests.helpers.agent import until
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import CREATE_BLOCKS
from tests.helpers.values import FakeClock, gpu, health, reading

pytestmark = [pytest.mark.prometheus, pytest.mark.xdist_group("job_prometheus")]

SCENARIO = json.loads(
    (Path(__file__).parents[1] / "scenarios" / "four-nodes-three-jobs.json").read_text()
)
EPOCH = 1_790_000_000
WINDOW = 5
SCRAPE = 15
RESTARTED_AT = 1380
"""When every agent starts anew with what its state file has."""
HZ = 1400e6
TENSOR_HZ = 1830e6

Owned = dict[str, frozenset[int]]
"""GPU indices by job, on one node at one time."""


def tensor(node: str, index: int, start: float) -> float:
    """A load that differs by GPU and window, so that a wrong weight or range cannot look right."""
    share = {"n1": 1.0, "n2": 0.5, "n3": 0.8, "n4": 0.3}[node]
    return share * ((int(start) * 7 + index * 11) % 83) / 97


def owned(node: str, at: float) -> Owned:
    """Who has which GPU of a node at a time, as the scenario says."""
    found: Owned = {}
    for job, changes in SCENARIO["jobs"].items():
        past = [change for change in changes if change["at"] <= at]
        found[job] = frozenset(past[-1]["holds"].get(node, [])) if past else frozenset()
    return found


def run(job: str, at: float) -> str:
    """Which run of a job it is at a time; "" where the scheduler does not say."""
    past = [change for change in SCENARIO["jobs"][job] if change["at"] <= at]
    return str(past[-1].get("run", "")) if past else ""


def windows(node: str) -> Iterator[tuple[float, float]]:
    """The node's windows: on its beat, and cut wherever its owners change."""
    times = {float(at) for at in range(0, SCENARIO["seconds"] + 1, WINDOW)}
    for at in sorted(change["at"] for changes in SCENARIO["jobs"].values() for change in changes):
        if owned(node, at) != owned(node, at - 1):
            times.add(float(at))
    yield from itertools.pairwise(sorted(times))


def by_hand(job: str, begin: float, end: float) -> tuple[float, float]:
    """U and O of a job over the windows in (begin, end], summed over all nodes."""
    utilization = observed = 0.0
    for node in SCENARIO["nodes"]:
        for start, stop in windows(node):
            if begin <= start and stop <= end:
                for index in owned(node, start)[job]:
                    utilization += tensor(node, index, start) * HZ / TENSOR_HZ * (stop - start)
                    observed += stop - start
    return utilization, observed


@functools.cache
def pages(node: str) -> list[tuple[int, list[str]]]:
    """What a scrape of the node sees of jobs, every 15 s."""
    return [
        (at, [line for line in page.splitlines() if line.startswith("ofu_job_") and "{" in line])
        for at, page in served(node, SCENARIO["nodes"][node])
    ]


def served(node: str, gpus: int) -> Iterator[tuple[int, str]]:
    clock, state = FakeClock(0.0), State()
    page = Page(clock, process=False)
    devices = [gpu(index, f"GPU-{node}-{index}") for index in range(gpus)]
    before: Owned = {}
    for start, stop in windows(node):
        events: list[Reading] = []
        for index, device in enumerate(devices):
            events.append(reading(start, stop, tensor(node, index, start), [HZ] * 3, device=device))
        now = owned(node, start)
        changes = (Ownership(start, claims(now, start)),) if now != before else ()
        before = now
        clock.now = stop
        tick = Tick(
            now=stop,
            interval=WINDOW,
            present=devices,
            events=events,
            source=health("replay", simulated=True),
            unix=EPOCH + stop,
            owners=changes,
            schedulers=(SchedulerHealth("slurm", up=True, reason=None),),
        )
        state, snapshot = step(state, tick)
        if stop == RESTARTED_AT:
            state, before = State(owners=OwnerState(left_behind(snapshot.jobs, stop))), {}
        if stop % SCRAPE == 0:
            page.publish(snapshot)
            yield EPOCH + int(stop), page.render().body.decode()


def left_behind(jobs: Iterable[JobView], at: float) -> dict[JobKey, JobState]:
    """The jobs as they come out of a state file."""
    rows = [totals_of(view, "n", simulated=True).model_dump_json() for view in jobs]
    totals = [JobTotals.model_validate_json(row) for row in rows]
    states = [resumed_job(each, Instant(at, EPOCH + at)) for each in totals]
    return {state.job.key: state for state in states}


def claims(now: Owned, at: float) -> tuple[Claim, ...]:
    return tuple(
        Claim(Job("slurm", job, uid=run(job, at)), tuple(str(index) for index in sorted(held)))
        for job, held in now.items()
        if held
    )


def history(dropped: bool) -> str:
    """All scrapes of all nodes as text that promtool makes a database of."""
    lines: list[str] = []
    for node in SCENARIO["nodes"]:
        for number, (at, page) in enumerate(pages(node)):
            if dropped and (number + len(lines)) % 3 == 0:
                continue
            for line in page:
                labels, _, value = line.rpartition(" ")
                lines.append(f'{labels[:-1]},instance="{node}"}} {value} {at}')
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture(scope="module", params=[False, True], ids=["every scrape", "a third dropped"])
def prometheus(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    text = folder / "history.txt"
    text.write_text(history(request.param))
    command = [*CREATE_BLOCKS, str(text), str(folder / "data")]
    subprocess.run(command, check=True, capture_output=True)
    server = Prometheus(folder, {})
    try:
        until(server.ready)
        yield server
    finally:
        server.stop()


def ask(prometheus: Prometheus, expression: str, at: float) -> float:
    (answer,) = prometheus.query(expression, EPOCH + at)
    return float(answer["value"][1])


def ratio(job: str, seconds: int) -> str:
    labels = f'{{job_id="{job}"}}[{seconds}s]'
    return (
        f"sum(rate(ofu_job_utilization_seconds_total{labels}))"
        f" / sum(rate(ofu_job_gpu_seconds_total{labels}))"
    )


@pytest.mark.parametrize("job", ["a", "b", "c"])
def test_the_ofu_of_a_whole_job_is_exact(prometheus: Prometheus, job: str) -> None:
    """Also of nodes that it left long ago, of every run, and though its end fell between two scrapes."""
    last = 'max_over_time({}{{job_id="{}"}}[30m])'
    used = last.format("ofu_job_utilization_seconds_total", job)
    seen = last.format("ofu_job_gpu_seconds_total", job)
    utilization, observed = by_hand(job, 0, SCENARIO["seconds"])
    assert ask(prometheus, f"sum({seen})", 1800) == pytest.approx(observed, rel=1e-9)
    assert ask(prometheus, f"sum({used}) / sum({seen})", 1800) == pytest.approx(
        utilization / observed, rel=1e-9
    )


@pytest.mark.parametrize(
    ("at", "seconds"),
    [(600, 300), (990, 300), (1500, 300), (330, 240)],
    ids=["two nodes", "three nodes", "after the move", "after its start"],
)
def test_the_rate_of_a_job_over_any_range_is_the_ofu_of_its_nodes(
    prometheus: Prometheus, request: pytest.FixtureRequest, at: int, seconds: int
) -> None:
    if "dropped" in request.node.name:
        pytest.skip("the nodes' samples span different windows: see the next test")
    left_out = SCRAPE if is_newer() else 0  # the sample at the begin of a range
    utilization, observed = by_hand("a", at - seconds + left_out, at)
    assert ask(prometheus, ratio("a", seconds), at) == pytest.approx(
        utilization / observed, rel=1e-6
    )


@pytest.mark.parametrize("at", range(600, 1501, 60))
def test_the_rate_is_right_within_a_scrape_while_a_job_moves(
    prometheus: Prometheus, at: int
) -> None:
    """The range takes in a change, or scrapes failed: its edge is sharp to one scrape interval."""
    utilization, observed = by_hand("a", at - 300, at)
    assert ask(prometheus, ratio("a", 300), at) == pytest.approx(utilization / observed, abs=0.01)


def test_a_mean_of_node_ratios_would_be_wrong(prometheus: Prometheus) -> None:
    """What the sums are for: nodes that hold different numbers of GPUs weigh differently."""
    utilization, observed = by_hand("a", 300, 600)
    labels = '{job_id="a"}[300s]'
    naive = (
        f"avg(rate(ofu_job_utilization_seconds_total{labels})"
        f" / rate(ofu_job_gpu_seconds_total{labels}))"
    )
    assert abs(ask(prometheus, naive, 600) - utilization / observed) > 0.01


def test_a_job_that_ended_leaves(prometheus: Prometheus) -> None:
    def series(at: float) -> list[dict[str, Any]]:
        return prometheus.query('ofu_job_gpu_seconds_total{job_id="b"}', EPOCH + at)

    assert series(1241 + 290)
    assert not series(1241 + 300 + 300 + SCRAPE)
