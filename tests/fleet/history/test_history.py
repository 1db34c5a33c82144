"""What is read from a real Prometheus is what the schedule of the jobs says, from recorded series and without any."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.fleet.history import history as history_module
from ofu_exporter.fleet.history import queries
from ofu_exporter.fleet.history.fleet_history import ClusterJob, FleetHistory, JobSums
from ofu_exporter.fleet.history.history import read_history
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.reports.job_rows import job_row
from ofu_exporter.fleet.series import Series
from tests.deploy.monitoring import VictoriaMetrics
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import (
    BEGIN,
    ENGINES,
    HOUR,
    IDLE_WATTS,
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
    victoria_with,
)

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("stored fleet")]

H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
N1, N2, N3 = (StoredNode("a", f"n{each}:9846", H100, 4) for each in (1, 2, 3))
M1 = StoredNode("b", "m1:9846", A100, 4, simulated=10.0)
NODES = (N1, N2, N3, M1)
HOURS = 30
HONEST = ScheduledJob(
    *("1", "alice", (N1, N2), 2, 20, 0.42, 0.40),
    verdict="agree",
    framework="nemo",
    finding="host_bound",
)
WRONG = ScheduledJob(
    *("2", "bob", (N3,), 1.5, 10.25, 0.2, 0.5),
    verdict="mfu_above_ofu",
    cause="sparse_peak",
    framework="megatron",
)
IDLE = ScheduledJob("3", "carol", (N3,), 12, 25, 0.0)
HALF = ScheduledJob("1", "dave", (M1,), 3, 28, 0.3, 0.28, measured=0.5, verdict="agree")
JOBS = (HONEST, WRONG, IDLE, HALF)
END = BEGIN + HOURS * HOUR
Server = Prometheus | VictoriaMetrics
NEAR = 0.01
"""Prometheus guesses up to a scrape interval at each end of a job."""


@pytest.fixture(scope="module")
def raw_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    read_in(folder, pages(NODES, JOBS, HOURS))
    return folder


@pytest.fixture(scope="module")
def recorded_folder(raw_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    shutil.copytree(raw_folder, folder, dirs_exist_ok=True)
    record(folder, BEGIN, END, Path(queries.__file__).read_text() + hourly())
    return folder


def hourly() -> str:
    asked = (*queries.JOB_HOURS, *queries.MODEL_HOURS, *queries.JOBLESS, queries.IDLE_ENERGY)
    return " ".join(each.recorded for each in asked)


@pytest.fixture(scope="module")
def raw(raw_folder: Path) -> Iterator[Prometheus]:
    with stored(raw_folder) as prometheus:
        yield prometheus


@pytest.fixture(scope="module")
def recorded(recorded_folder: Path) -> Iterator[Prometheus]:
    with stored(recorded_folder) as prometheus:
        yield prometheus


@pytest.fixture(scope="module")
def victoria(
    recorded: Prometheus, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VictoriaMetrics]:
    with victoria_with(recorded, tmp_path_factory.mktemp("victoria")) as server:
        yield server


@pytest.fixture(scope="module", params=["raw", "recorded", "victoria"])
def history(request: pytest.FixtureRequest) -> FleetHistory:
    return read(request.getfixturevalue(request.param))


@cache
def read(
    prometheus: Server, at_once: int = 24, begin: float = BEGIN, end: float = END
) -> FleetHistory:
    with reading(prometheus.url, at_once) as reader:
        return read_history(reader, begin, end)


def total(history: FleetHistory, cluster: str, job: ScheduledJob) -> JobSums:
    return history.jobs[ClusterJob(cluster, job.job_id)].total


@pytest.mark.parametrize(
    ("cluster", "job"), [("a", HONEST), ("a", WRONG), ("a", IDLE), ("b", HALF)]
)
def test_a_jobs_gpu_hours_and_ofu_are_those_of_its_schedule(
    history: FleetHistory, cluster: str, job: ScheduledJob
) -> None:
    sums = total(history, cluster, job)
    assert sums.held == pytest.approx(job.held, rel=NEAR)
    assert sums.observed == pytest.approx(job.held * job.measured, rel=NEAR)
    assert sums.ofu == pytest.approx(job.ofu, abs=1e-6)
    assert sums.mfu == (None if job.mfu is None else pytest.approx(job.mfu, abs=1e-6))
    assert sums.ofu_compared == (None if job.mfu is None else pytest.approx(job.ofu, abs=1e-6))


def test_two_jobs_of_one_id_in_two_clusters_stay_two(history: FleetHistory) -> None:
    assert len(history.jobs) == len(JOBS)
    assert history.clusters == ["a", "b"]


def test_a_job_without_reports_has_no_mfu_and_one_that_idles_an_ofu_of_0(
    history: FleetHistory,
) -> None:
    sums = total(history, "a", IDLE)
    assert sums.compared == 0.0
    assert sums.mfu is None
    assert sums.ofu == 0.0
    assert sums.idle == pytest.approx(IDLE.held, rel=0.04)
    looks = HONEST.gpus / 12
    assert (
        total(history, "a", HONEST).idle < 2.1 * looks
    )  # blocks don't say that a series has ended


def test_names_sizes_models_and_verdicts_are_those_of_the_pages(history: FleetHistory) -> None:
    job = history.jobs[ClusterJob("a", "2")]
    assert {name[:3] for name in job.names} == {("train-bob", "bob", "lab")}
    assert max(job.sizes) == pytest.approx(4, rel=NEAR)
    assert {*job.verdicts} == {"mfu_above_ofu"}
    assert job.verdicts["mfu_above_ofu"] == pytest.approx(8.75, abs=0.3)
    assert {*job.causes} == {"sparse_peak"}
    assert {*job.models} == {H100}
    assert {*history.jobs[ClusterJob("b", "1")].models} == {A100}


@pytest.mark.parametrize("engine", ENGINES)
def test_jobs_have_their_gpus_however_short_they_are_and_hours_cut_them(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a short one the agents' series are asked for its own hours only, however many others are."""
    monkeypatch.setattr(history_module, "IDS_AT_ONCE", 1)
    lives = (0.95, 1.95), (2.95, 4.05), (4.95, 5.05), (6.5, 6.5 + 1 / 12), (7.2, 7.25)
    jobs = [ScheduledJob(str(n), "eve", (N1,), *life, 0.4) for n, life in enumerate(lives)]
    span = (BEGIN, BEGIN + 8 * HOUR)
    rules = " ".join((queries.SIZE.recorded, hourly()))
    twice = Twice.of(pages((N1,), jobs, 8), span, rules, lambda name: tmp_path / name)
    (tmp_path / "empty").mkdir()
    with (
        twice.served(engine, tmp_path / "empty") as server,
        reading(server.url) as reader,
    ):
        steps, asked = reader.client.steps, Counter[str]()

        def noted(expression: str, start: float, end: float, step: float) -> list[Series]:
            asked.update(
                re.findall(r'job_id=~"(\d)"', expression)[:1] * round((end - start) / HOUR)
            )
            return steps(expression, start, end, step)

        monkeypatch.setattr(reader.client, "steps", noted)
        found = read_history(reader, *span)
    assert asked == {"2": 2, "3": 1, "4": 1}
    rows = [job_row(job, found.clock, None, Prices()) for job in found.jobs.values()]
    assert {row.job_id: row.gpus for row in rows} == dict.fromkeys(map(str, range(5)), 4.0)


def test_what_cost_most_in_the_traces_of_a_job_is_its_share_of_them(history: FleetHistory) -> None:
    assert history.jobs[ClusterJob("a", "1")].findings == {"host_bound": pytest.approx(0.5)}
    assert history.jobs[ClusterJob("a", "2")].findings == {}


def test_what_is_installed_and_covered_is_every_gpu_at_every_time(history: FleetHistory) -> None:
    by_model: dict[str, float] = {}
    for (_, _, model), sums in history.models.items():
        by_model[model] = by_model.get(model, 0.0) + sums.installed
    assert by_model == {H100: pytest.approx(12 * HOURS), A100: pytest.approx(4 * HOURS)}
    assert sum(history.covered.values()) == pytest.approx(2 * HOURS)


def test_gpus_that_no_job_has_are_measured_and_idle(history: FleetHistory) -> None:
    """But for the five minutes after each job and the first of all."""
    found = [sums.jobless for sums in history.models.values()]
    free = 16 * HOURS - sum(job.held for job in JOBS)
    assert sum(sums.observed for sums in found) == pytest.approx(free, rel=0.03)
    assert sum(sums.idle for sums in found) == pytest.approx(free, rel=0.03)
    assert sum(sums.utilized for sums in found) == pytest.approx(0.0, abs=1e-6)


def nearly(one: Any) -> Any:
    """The same to 13 digits: Prometheus 2 adds up the series of a product in the order of a map of Go, which differs.

    github.com/prometheus/prometheus, v2.42.0, promql/engine.go, `rangeEval`.
    """
    if isinstance(one, float):
        return pytest.approx(one, rel=1e-13)
    if isinstance(one, dict):
        return {key: nearly(value) for key, value in one.items()}
    if isinstance(one, list):
        return [nearly(value) for value in one]
    if is_dataclass(one) and not isinstance(one, type):
        return replace(one, **{each.name: nearly(getattr(one, each.name)) for each in fields(one)})
    return one


@pytest.mark.parametrize("source", ["raw", "recorded", "victoria"])
def test_the_sums_are_the_same_however_the_time_is_cut(
    source: str, request: pytest.FixtureRequest
) -> None:
    """Of 14 hours, in which all jobs begin and one ends. The default cuts all 30 hours once."""
    prometheus: Server = request.getfixturevalue(source)
    early = BEGIN + 14 * HOUR
    cuts = [read(prometheus, at_once=hours, end=early) for hours in (1, 5, 7)]
    for end, of_end in ((early, cuts), (END, [read(prometheus)])):
        whole = read(prometheus, at_once=1000, end=end)
        for cut in of_end:
            assert cut.jobs == nearly(whole.jobs)
            assert cut.models == nearly(whole.models)
            assert cut.hours == nearly(whole.hours)
            assert cut.jobless_hours == nearly(whole.jobless_hours)


def test_the_rules_records_are_used_where_they_are(raw: Prometheus, recorded: Prometheus) -> None:
    without, with_rules = read(raw), read(recorded)
    assert (len(without.recorded), len(without.raw)) == (0, 2 * HOURS)
    assert (len(with_rules.recorded), len(with_rules.raw)) == (2 * HOURS, 0)
    assert without.target is None
    assert with_rules.target == pytest.approx(0.4)


def test_a_fleet_with_a_node_that_once_was_simulated_is_known_as_such(
    raw: Prometheus, recorded: Prometheus
) -> None:
    """Its node was simulated in the first ten hours, and is not at the end."""
    for server in (raw, recorded):
        known = read(server)
        assert known.is_simulated
        assert known.is_partly_measured
        assert known.mark.startswith("SIMULATED in part")
        assert read(server, begin=BEGIN + 11 * HOUR).mark == ""


def test_idle_energy_is_that_of_the_hours_for_which_one_job_had_the_gpu(
    history: FleetHistory,
) -> None:
    for cluster, job, hours in (
        ("a", HONEST, 18),
        ("a", WRONG, 8),
        ("a", IDLE, 13),
        ("b", HALF, 25),
    ):
        joules = total(history, cluster, job).idle_joules
        assert joules == pytest.approx(job.gpus * hours * HOUR * IDLE_WATTS, rel=NEAR), job.job_id


def test_the_framework_is_the_one_that_any_node_tells_and_unknown_where_none_does(
    history: FleetHistory,
) -> None:
    told = {key: {*job.frameworks} for key, job in history.jobs.items()}
    assert told == {
        ClusterJob("a", "1"): {"nemo"},
        ClusterJob("a", "2"): {"megatron"},
        ClusterJob("a", "3"): set(),
        ClusterJob("b", "1"): set(),
    }


def test_rules_that_were_loaded_late_are_completed_from_the_pages(
    raw_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(raw_folder, tmp_path, dirs_exist_ok=True)
    late = BEGIN + 11 * HOUR
    record(tmp_path, late, END, Path(queries.__file__).read_text() + hourly())
    with stored(tmp_path) as prometheus:
        found = read(prometheus)
    assert len(found.raw) == 2 * 11
    assert len(found.recorded) == 2 * (HOURS - 11)
    for job, cluster in ((HONEST, "a"), (WRONG, "a"), (IDLE, "a"), (HALF, "b")):
        assert total(found, cluster, job).held == pytest.approx(job.held, rel=NEAR)


def test_a_time_without_data_has_nothing_and_no_zero(raw: Prometheus) -> None:
    found = read(raw, begin=BEGIN - 100 * HOUR, end=BEGIN - 50 * HOUR)
    assert found.jobs == {}
    assert found.models == {}
    assert found.clusters == []


def test_a_part_of_the_time_without_data_is_not_covered(raw: Prometheus) -> None:
    found = read(raw, begin=BEGIN - HOURS * HOUR)
    covered = sum(share for (cluster, _), share in found.covered.items() if cluster == "a")
    assert covered / found.span.hours == pytest.approx(0.5, abs=0.01)


def test_a_server_that_computes_little_at_once_gives_the_same(
    raw_folder: Path, raw: Prometheus, tmp_path: Path
) -> None:
    """4,000 samples are less than one query over a day of these pages needs."""
    shutil.copytree(raw_folder, tmp_path, dirs_exist_ok=True)  # a server locks its folder
    with stored(tmp_path, ["--query.max-samples=4000"]) as small:
        assert read(small).jobs == read(raw).jobs


def test_two_replicas_that_tell_the_same_hours_count_once(tmp_path: Path) -> None:
    """As two Prometheis of a pair do behind a Thanos that does not merge them."""
    lines: list[str] = []
    for name, value in (("held", 8.0), ("observed", 6.0), ("utilized", 3.0)):
        lines.append(f"# TYPE job:{name}_gpu_hours:increase1h gauge")
        for replica, share in (("0", 1.0), ("1", 0.75)):
            labels = labelled(cluster="a", job_id="1", user="ada", replica=replica)
            lines += [
                f"job:{name}_gpu_hours:increase1h{labels} {value * share} {BEGIN + 3600 * n + 1800}"
                for n in range(4)
            ]
    with stored_pages(tmp_path, "\n".join([*lines, "# EOF", ""])) as prometheus:
        found = read(prometheus, end=BEGIN + 4 * HOUR)
    (job,) = found.jobs.values()
    assert (job.total.held, job.total.observed, job.total.utilized) == (32.0, 24.0, 12.0)


YOUNG = StoredNode("a", "n2:9846", H100, 4, away=(-1.0, 0.05))
"""Comes three minutes after the fleet."""
LATE = ScheduledJob("4", "eve", (N1,), 0.5, 0.9, 0.4)


def test_a_fleet_of_some_minutes_has_the_gpu_hours_of_these_minutes(tmp_path: Path) -> None:
    job = ScheduledJob("4", "eve", (N1,), 0.0, 1.0, 0.4)
    with stored_pages(tmp_path, pages((N1, YOUNG), (job,), 0.2)) as prometheus:
        history = read(prometheus, begin=BEGIN - 0.8 * HOUR, end=BEGIN + 0.2 * HOUR)
    (models,) = history.models.values()
    assert models.installed == pytest.approx(4 * 0.2 + 4 * 0.15, rel=0.05)
    assert models.observed == pytest.approx(models.installed, rel=0.1)
    assert models.jobless.idle == pytest.approx(4 * 0.15, rel=0.3)  # rates lag by a minute
    assert models.jobless.idle < 4 * 0.15
    assert sum(history.covered.values()) == pytest.approx(0.2, rel=0.05)


def test_the_first_hour_on_record_does_not_hide_what_came_after_it(tmp_path: Path) -> None:
    read_in(tmp_path, pages((N1,), (LATE,), 0.9))
    name = queries.MODEL_HOURS[0].recorded
    record = f"{name}{labelled(cluster='a', model=H100)} 0.8 {BEGIN + 0.2 * HOUR}"
    with stored_pages(tmp_path, f"# TYPE {name} gauge\n{record}\n# EOF\n") as prometheus:
        history = read(prometheus, begin=BEGIN - 0.1 * HOUR, end=BEGIN + 0.9 * HOUR)
    assert history.span.end == BEGIN + 0.9 * HOUR
    assert total(history, "a", LATE).held == pytest.approx(LATE.held, rel=0.05)
    (models,) = history.models.values()
    assert models.observed == pytest.approx(4 * 0.9, rel=0.05)


def test_an_hour_that_rules_missed_near_the_end_hides_no_record_of_those_before(
    tmp_path: Path,
) -> None:
    """As where Prometheus was started anew when the hourly rules were due."""
    read_in(tmp_path, pages((N1,), (LATE,), 5))
    name = queries.MODEL_HOURS[0].recorded
    records = [
        f"{name}{labelled(cluster='a', model=H100)} 4 {BEGIN + hour * HOUR}"
        for hour in (1, 2, 3, 5)
    ]
    with stored_pages(tmp_path, openmetrics({name: records})) as prometheus:
        history = read(prometheus, end=BEGIN + 5 * HOUR)
    assert (len(history.recorded), len(history.raw)) == (4, 1)


def test_a_restart_onto_another_node_counts_without_rules_too(tmp_path: Path) -> None:
    """In the first hour of the job; its second node begins with what the scheduler has counted."""
    first = ScheduledJob("5", "ada", (N1,), 0, 0.5, 0.4)
    lives = [first, replace(first, nodes=(N2,), begin=0.6, end=3)]
    counted = [
        f"ofu_job_restarts_total{life.labels(node)} {count} {BEGIN + 60 * minute}"
        for count, life in enumerate(lives)
        for node in life.nodes
        for minute in range(round(60 * life.begin), round(60 * life.end))
    ]
    text = pages((N1, N2), lives, 3).removesuffix("# EOF\n")
    lines = ["# TYPE ofu_job_restarts counter", *counted, "# EOF", ""]
    with stored_pages(tmp_path, text + "\n".join(lines)) as prometheus:
        history = read(prometheus, end=BEGIN + 3 * HOUR)
    hour, *_ = history.clock.hours(history.span)
    assert history.progress[ClusterJob("a", "5")].restarted == {hour: 1.0}


@pytest.mark.parametrize(("others", "mark"), [((N1,), "SIMULATED in part"), ((), "SIMULATED, no")])
@pytest.mark.parametrize("engine", ["raw", "recorded"])
def test_one_simulated_node_of_a_cluster_makes_no_other_of_it_one(
    tmp_path: Path, engine: str, others: tuple[StoredNode, ...], mark: str
) -> None:
    made = StoredNode("a", "made:9846", H100, 1, simulated=3.0)
    rules = " ".join([queries.SIMULATED.recorded, queries.MODEL_HOURS[0].recorded])
    text, span = pages((made, *others), (), 2), (BEGIN, BEGIN + 2 * HOUR)
    twice = Twice.of(text, span, rules, lambda name: tmp_path / name)
    with twice.served(engine, tmp_path) as server, reading(server.url) as reader:
        history = read_history(reader, *span)
    assert bool(history.recorded) == (engine == "recorded")
    assert history.mark.startswith(mark)
