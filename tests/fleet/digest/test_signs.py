"""Clocks, slow GPUs and busy memory of jobs, from a real Prometheus; what no series tells stays unknown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from ofu_exporter.fleet.changes import peer_hours
from ofu_exporter.fleet.digest import signs
from ofu_exporter.fleet.digest.signs import FleetSigns, JobSigns, PartitionKey, read_signs
from ofu_exporter.fleet.history import queries
from ofu_exporter.fleet.history.fleet_history import ClusterJob
from ofu_exporter.fleet.history.history import read_history
from ofu_exporter.fleet.reports import one_job
from tests.helpers import fleets, uneven_fleet
from tests.helpers.simulated_pages import scraped
from tests.helpers.stored_fleet import (
    BEGIN,
    ENGINES,
    HOUR,
    SCRAPE,
    ScheduledJob,
    StoredNode,
    Twice,
    labelled,
    openmetrics,
    pages,
    read_in,
    reading,
    record,
    stored,
    stored_pages,
)

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("digest-signs")]

N1, N2, N3 = (StoredNode("a", f"n{each}:9846", "H100", 4) for each in (1, 2, 3))
EVEN = ScheduledJob("1", "alice", (N1,), 1, 6, 0.42)
SLOW = ScheduledJob("2", "bob", (N2,), 1, 6, 0.3, slow_gpu=2)
IDLE = ScheduledJob("3", "carol", (N3,), 1, 6, 0.0)
STORED_HOURS = 7
TARGETS = {
    PartitionKey("", "batch"): 0.45,
    PartitionKey("west", "batch"): 0.3,
    PartitionKey("", "interactive"): 0.1,
}
DEPLOYED = Path(__file__).parents[3] / "deploy/prometheus/rules"
DRAM_BUSY = {N1.name: 0.75, N2.name: 0.2}


def read_all(url: str, hours: float, with_dram: bool, at_once: int = 24) -> FleetSigns:
    with reading(url, at_once) as reader:
        history = read_history(reader, BEGIN, BEGIN + hours * HOUR)
        return read_signs(reader, history, with_dram)


def read(
    url: str, hours: float, with_dram: bool, at_once: int = 24
) -> Mapping[ClusterJob, JobSigns]:
    return read_all(url, hours, with_dram, at_once).jobs


def busy_memory() -> Iterator[str]:
    """As dcgm-exporter serves it: a share 0..1 by `UUID`, https://docs.nvidia.com/datacenter/dcgm/ field 1005."""
    yield "# TYPE DCGM_FI_PROF_DRAM_ACTIVE gauge"
    for node, value in DRAM_BUSY.items():
        for gpu in range(4):
            labels = labelled(cluster="a", instance="dcgm", UUID=f"GPU-{node}-{gpu}", gpu=str(gpu))
            for step in range(round(STORED_HOURS * HOUR / SCRAPE) + 1):
                yield f"DCGM_FI_PROF_DRAM_ACTIVE{labels} {value} {BEGIN + SCRAPE * step:.3f}"


def targets() -> Iterator[str]:
    """What the rules of deploy/prometheus/rules/partition-targets.yaml record."""
    name = "partition:ofu_target:ratio"
    assert f"- record: {name}\n" in (DEPLOYED / "partition-targets.yaml").read_text()
    yield f"# TYPE {name} gauge"
    for place, value in TARGETS.items():
        labels = labelled(**{key: label for key, label in place._asdict().items() if label})
        for step in range(round(STORED_HOURS * HOUR / SCRAPE) + 1):
            yield f"{name}{labels} {value} {BEGIN + SCRAPE * step:.3f}"


@pytest.fixture(scope="module")
def even(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetSigns]:
    folder = tmp_path_factory.mktemp("even")
    text = pages((N1, N2, N3), (EVEN, SLOW, IDLE), STORED_HOURS).replace("# EOF\n", "")
    with stored_pages(
        folder, "\n".join([text.rstrip("\n"), *busy_memory(), *targets(), "# EOF", ""])
    ) as prometheus:
        yield read_all(prometheus.url, STORED_HOURS, True)


def test_a_slow_gpu_is_seen_in_its_job_alone(even: FleetSigns) -> None:
    assert even.jobs[ClusterJob("a", "2")].has_slow_gpus is True
    assert even.jobs[ClusterJob("a", "1")].has_slow_gpus is False
    assert even.jobs[ClusterJob("a", "3")].has_slow_gpus is None, "a job that idles has no slow GPU"


def test_busy_memory_is_that_of_the_jobs_own_gpus(even: FleetSigns) -> None:
    for job, node in ((EVEN, N1), (SLOW, N2)):
        found = even.jobs[ClusterJob("a", job.job_id)]
        assert found.dram_busy == pytest.approx(DRAM_BUSY[node.name])
        assert found.dram_hours == pytest.approx(5, abs=0.2)
    assert even.jobs[ClusterJob("a", "3")].dram_busy is None


def test_the_targets_of_partitions_are_those_that_rules_record(even: FleetSigns) -> None:
    assert even.targets == TARGETS


def test_a_clock_that_nobody_tells_is_not_known(even: FleetSigns) -> None:
    assert {each.clock for each in even.jobs.values()} == {None}


def test_an_hour_that_only_the_hourly_rules_missed_counts_once(tmp_path: Path) -> None:
    job = ScheduledJob("4", "dave", (N1,), 0, 5, 0.4, idle_gpu=1)
    read_in(tmp_path, pages((N1,), (job,), 5))
    record(tmp_path, BEGIN, BEGIN + 5 * HOUR, peer_hours.WORK.recorded)
    name = queries.MODEL_HOURS[0].recorded
    labels = labelled(cluster="a", model="H100")
    lines = [f"{name}{labels} 4 {BEGIN + hour * HOUR}" for hour in (1, 2, 4, 5)]
    with stored_pages(tmp_path, openmetrics({name: lines})) as prometheus:
        found = read(prometheus.url, 5, False)[ClusterJob("a", "4")]
    assert {gpu: len(hours) for gpu, hours in found.idle_gpus.items()} == {("n1", "1"): 5}


@pytest.mark.parametrize(
    ("instance", "node"), [("gpu-7", "gpu-7"), ("[fd00::7]:9846", "[fd00::7]")]
)
def test_an_idle_gpu_is_of_its_node_and_its_instances_idle_in_the_same_hours(
    instance: str, node: str, tmp_path: Path
) -> None:
    """The chart's `instance` is the node without a port."""
    parted = StoredNode("a", instance, "H100", 4)
    text = pages((parted,), (ScheduledJob("6", "dave", (parted,), 0, 3, 0.0),), 3)
    gpu = re.compile(rf'gpu="(\d)",uuid="GPU-{re.escape(instance)}-\d"')
    text = gpu.sub(r'gpu="0",uuid="GPU-0",gpu_instance="\1"', text)
    with stored_pages(tmp_path, text) as prometheus:
        (found,) = read(prometheus.url, 3, False).values()
    assert {gpu: len(hours) for gpu, hours in found.idle_gpus.items()} == {(node, "0"): 3}


def test_the_signs_of_an_id_that_two_users_had_are_of_each_of_them_alone(tmp_path: Path) -> None:
    """The first had a slow GPU and one that idled, the second neither."""
    jobs = (
        ScheduledJob("5", "ada", (N1,), 0, 5, 0.4, slow_gpu=2, idle_gpu=1),
        ScheduledJob("5", "bob", (N2,), 7, 11, 0.4),
    )
    with stored_pages(tmp_path, pages((N1, N2), jobs, 12)) as prometheus:
        found = read(prometheus.url, 12, False)
    ada, bob = (found[ClusterJob("a", "5", user)] for user in ("ada", "bob"))
    assert (ada.has_slow_gpus, bob.has_slow_gpus) == (True, False)
    assert ([*ada.idle_gpus], [*bob.idle_gpus]) == ([("n1", "1")], [])
    assert ClusterJob("a", "5") not in found


@pytest.fixture(scope="module", params=["raw", "recorded"])
def uneven(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    read_in(folder, uneven_fleet.pages())
    if request.param == "recorded":
        asked = [inspect.getsource(module) for module in (queries, peer_hours, signs)]
        hourly = [each.recorded for each in (*queries.JOB_HOURS, *queries.MODEL_HOURS)]
        record(folder, BEGIN, BEGIN + uneven_fleet.HOURS * HOUR, " ".join([*asked, *hourly]))
    with stored(folder) as prometheus:
        yield prometheus.url


def test_clock_and_slow_gpus_are_the_same_with_the_rules_and_without(uneven: str) -> None:
    found = read(uneven, uneven_fleet.HOURS, False)
    gpus = uneven_fleet.NODES * uneven_fleet.GPUS
    usual = uneven_fleet.OFU * 1.83e9 / uneven_fleet.CLOCK_HZ
    active = usual * (gpus - 2 + 1 / 0.8 + 0.75) / gpus
    for job in uneven_fleet.JOBS:
        one = found[ClusterJob("c", job)]
        assert one.clock == pytest.approx(uneven_fleet.OFU / active, abs=0.02), "to a job's ends"
        assert one.has_slow_gpus is True
        assert one.dram_busy is None


def test_the_signs_are_the_same_however_the_time_is_cut(uneven: str) -> None:
    whole = read(uneven, uneven_fleet.HOURS, False)
    for key, one in read(uneven, uneven_fleet.HOURS, False, 3).items():
        assert one.clock == pytest.approx(whole[key].clock)
        assert (one.slow, one.compared) == (whole[key].slow, whole[key].compared)


def test_the_clock_of_a_simulated_job_is_the_one_that_it_was_given(tmp_path: Path) -> None:
    made = fleets.fleet(
        "length: 4h\ninterval: 30\n" + fleets.NODES + "jobs:\n"
        "  - {name: throttled, users: [ada], gpus: 4, ofu: 0.3, clock_mhz: 900, start: 30m, lasts: 2h}\n"
        "  - {name: usual, users: [bob], gpus: 4, ofu: 0.3, clock_mhz: 1650, start: 30m}\n",
        tmp_path,
    )
    with stored_pages(tmp_path, scraped(made, BEGIN, 60)) as prometheus:
        found = {key.job_id: each for key, each in read(prometheus.url, 4, False).items()}
    wanted = {"throttled": 900 / 1830, "usual": 1650 / 1830}
    names = {job.job.draft.job_id: job.job.draft.group.name for job in made.jobs}
    assert {names[job]: each.clock for job, each in found.items()} == {
        name: pytest.approx(clock, abs=0.02) for name, clock in wanted.items()
    }


_with_stale_series = partial(stored, flags=("--query.lookback-delta=90s",))
"""What is read in from a file can't say that a page no longer has a series."""


@pytest.mark.parametrize("has_rules", [False, True])
def test_what_was_done_on_its_gpus_before_is_not_in_the_clock_of_a_job(
    has_rules: bool, tmp_path: Path
) -> None:
    """One that idles from the begin on has none."""
    made = fleets.fleet(
        "length: 2h\ninterval: 30\nnodes: [{name: n, count: 1, model: H100, gpus: 4}]\njobs:\n"
        "  - {name: busy, users: [ada], gpus: 4, ofu: 0.6, lasts: 1h}\n"
        "  - {name: light, users: [bob], gpus: 4, ofu: 0.1, clock_mhz: 1650, start: 1h, lasts: 21m}\n"
        "  - {name: busy, users: [ada], gpus: 4, ofu: 0.6, start: 81m, lasts: 9m}\n"
        "  - {name: idle, users: [eve], gpus: 4, work: idle, start: 90m, lasts: 21m}\n",
        tmp_path,
    )
    read_in(tmp_path, scraped(made, BEGIN, 60))
    if has_rules:
        hourly = [each.recorded for each in (*queries.JOB_HOURS, *queries.MODEL_HOURS)]
        text = " ".join([inspect.getsource(signs), *hourly])
        record(tmp_path, BEGIN, BEGIN + 2 * HOUR, text, _with_stale_series)
    with _with_stale_series(tmp_path) as prometheus:
        found = read(prometheus.url, 2, False)
    ids = {job.job.draft.group.users[0]: job.job.draft.job_id for job in made.jobs}
    assert found[ClusterJob("", ids["bob"])].clock == pytest.approx(1650 / 1830, abs=0.02)
    assert found[ClusterJob("", ids["eve"])].clock is None


@pytest.fixture(scope="module")
def parted_twice(tmp_path_factory: pytest.TempPathFactory) -> Twice:
    hourly = [each.recorded for each in (*queries.JOB_HOURS, *queries.MODEL_HOURS)]
    rules = " ".join([inspect.getsource(signs), inspect.getsource(one_job), *hourly])
    span = (BEGIN, BEGIN + uneven_fleet.PARTED_HOURS * HOUR)
    return Twice.of(uneven_fleet.parted_pages(), span, rules, tmp_path_factory.mktemp)


@pytest.mark.parametrize("engine", ENGINES)
def test_instances_of_other_sizes_count_by_their_share_of_the_gpu(
    engine: str, parted_twice: Twice, tmp_path: Path
) -> None:
    """Not every instance, nor every look, as much as the others: the job has one at first, and a larger one later."""
    key = ClusterJob("c", "1")
    with parted_twice.served(engine, tmp_path) as server:
        clock = read(server.url, uneven_fleet.PARTED_HOURS, False)[key].clock
        with reading(server.url) as reader:
            points = one_job.read_story(reader, parted_twice.span, key).points
    _, active, utilized = uneven_fleet.parted_sums(uneven_fleet.PARTED_HOURS)
    assert clock == pytest.approx(utilized / active, rel=0.02)
    assert points[-1].activity == pytest.approx(0.68, rel=0.001), "(4 x 0.8 + 1 x 0.2) / 5"
    assert points[-1].clock == pytest.approx(0.36 / 0.68, rel=0.001), "(4 x 0.4 + 1 x 0.2) / 5"
