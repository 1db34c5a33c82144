"""What tokens cost in a report is what a schedule of serving says, from a real Prometheus with the rules and
without, and from a VictoriaMetrics.

The truth is added up here from the schedule: rates x time, and prices by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest

from ofu_exporter.cli.fleet_report import rendered
from ofu_exporter.fleet.history import queries, served
from ofu_exporter.fleet.history.fleet_history import ClusterJob
from ofu_exporter.fleet.history.history import read_history
from ofu_exporter.fleet.history.prices import Prices
from ofu_exporter.fleet.reports.fleet_report import ReportOptions, fleet_report
from ofu_exporter.fleet.reports.job_result import job_result
from ofu_exporter.fleet.reports.one_job import read_story
from ofu_exporter.fleet.reports.result import FleetReport, GroupRow, JobRow
from tests.helpers.stored_fleet import (
    BEGIN,
    ENGINES,
    HOUR,
    SCRAPE,
    HasUrl,
    ScheduledJob,
    StoredNode,
    Twice,
    openmetrics,
    pages,
    reading,
    seconds_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("served fleet")]

H100 = "NVIDIA H100 80GB HBM3"
NODES = tuple(StoredNode("a", f"n{each}:9846", H100, 4) for each in range(5))
HOURS = 8
END = BEGIN + HOURS * HOUR
PRICE = 2.5


@dataclass(frozen=True)
class Serving:
    """What the engines of a job do: tokens a second of each kind, and watts, on every node of it."""

    job: ScheduledJob
    rates: dict[tuple[str, str], float]
    watts: float
    role: str = "both"
    memory: float = 0.5
    idle_from: float | None = None
    """Hours after BEGIN from which it has no request."""

    def served(self, seconds: float) -> float:
        """Seconds of these in which it had requests."""
        if self.idle_from is None:
            return seconds
        return min(seconds, (self.idle_from - self.job.begin) * HOUR)

    @property
    def all_seconds(self) -> float:
        return (self.job.end - self.job.begin) * HOUR

    def tokens(self, *kinds: str) -> float:
        """Of the whole time, over its nodes."""
        nodes = len(self.job.nodes)
        rates = sum(rate for (_, kind), rate in self.rates.items() if kind in kinds)
        return rates * self.served(self.all_seconds) * nodes

    @property
    def joules(self) -> float:
        return self.watts * self.all_seconds * len(self.job.nodes)


BOTH = Serving(
    ScheduledJob("1", "alice", NODES[:2], 1, 7, 0.11),
    {("m", "prompt"): 900.0, ("m", "cached"): 300.0, ("m", "generation"): 120.0},
    1600.0,
    memory=0.85,
)
PREFILL = Serving(
    ScheduledJob("2", "bob", NODES[2:3], 0, 8, 0.4),
    {("big", "prompt"): 5000.0, ("big", "recomputed"): 10.0, ("big", "generation"): 20.0},
    2400.0,
    "prefill",
    memory=0.2,
)
DECODE = Serving(
    ScheduledJob("3", "bob", NODES[3:4], 0, 8, 0.04),
    {("big", "cached"): 5000.0, ("big", "generation"): 400.0, ("lora", "generation"): 40.0},
    1800.0,
    "decode",
    memory=0.7,
    idle_from=5,
)
TRAINING = ScheduledJob("4", "carol", NODES[4:], 0, 8, 0.4)
ALL = (BOTH, PREFILL, DECODE)


def history() -> str:
    """The pages of all, with those of engines."""
    whole = pages(NODES, [*(each.job for each in ALL), TRAINING], HOURS)
    families: dict[str, list[str]] = {}

    def put(name: str, labels: str, points: Iterable[tuple[float, float]]) -> None:
        lines = families.setdefault(name, [])
        lines += [f"{name}{labels} {value!r} {time:.3f}" for time, value in points]

    for each in ALL:
        for node in each.job.nodes:
            _put_engines(put, each, node)
    return whole.removesuffix("# EOF\n") + openmetrics(families)


def _put_engines(put: object, each: Serving, node: StoredNode) -> None:
    assert callable(put)
    job = each.job
    times = [
        time
        for step in range(round(HOURS * HOUR / SCRAPE) + 1)
        if job.begin * HOUR <= (time := SCRAPE * step) <= job.end * HOUR
    ]

    def grown(rate: float, *, while_served: bool = False) -> list[tuple[float, float]]:
        points = []
        for time in times:
            seconds = seconds_of(job, BEGIN + time)
            points.append(
                (BEGIN + time, rate * (each.served(seconds) if while_served else seconds))
            )
        return points

    for (model, kind), rate in each.rates.items():
        labels = job.labels(node, served_model=model, kind=kind)
        put("ofu_job_tokens_total", labels, grown(rate, while_served=True))
    put("ofu_job_energy_joules_total", job.labels(node), grown(each.watts))
    put("ofu_job_memory_gpu_seconds_total", job.labels(node), grown(4.0))
    put("ofu_job_memory_busy_seconds_total", job.labels(node), grown(4.0 * each.memory))
    busy = each.idle_from if each.idle_from is not None else job.end + 1
    put(
        "ofu_job_requests_running",
        job.labels(node, served_model="big"),
        [(BEGIN + time, 5.0 * (time < busy * HOUR)) for time in times],
    )
    put("ofu_job_engines", job.labels(node, role=each.role), [(BEGIN + t, 1.0) for t in times])


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Twice:
    asked = (*queries.JOB_HOURS, *queries.MODEL_HOURS, served.TOKENS, *served.BESIDE, served.ROLES)
    rules = " ".join(each.recorded for each in asked)
    return Twice.of(history(), (BEGIN, END), rules, tmp_path_factory.mktemp)


@pytest.fixture(scope="module", params=ENGINES[:3])
def prometheus(
    request: pytest.FixtureRequest, twice: Twice, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HasUrl]:
    with twice.served(request.param, tmp_path_factory.mktemp("victoria")) as server:
        yield server


def made(server: HasUrl, **wanted: object) -> FleetReport:
    prices = Prices(gpu_hour={"*H100*": PRICE}) if wanted.pop("priced", True) else Prices()
    options = ReportOptions(wanted.pop("by", "user"), prices, 0.4)  # type: ignore[arg-type]
    with reading(server.url) as reader:
        return fleet_report(read_history(reader, BEGIN, END), options, reader)


@pytest.fixture(scope="module")
def report(prometheus: HasUrl) -> FleetReport:
    return made(prometheus)


def near(value: float, share: float = 0.01) -> object:
    return pytest.approx(value, rel=share)


def job(report: FleetReport, job_id: str) -> JobRow:
    (row,) = (row for row in report.jobs if row.job_id == job_id)
    return row


def group(report: FleetReport, name: str) -> GroupRow:
    (row,) = (row for row in report.groups if row.name == name)
    return row


def test_a_jobs_tokens_joules_and_cost_are_the_schedules(report: FleetReport) -> None:
    row = job(report, "1")
    assert row.prompt_tokens == near(BOTH.tokens("prompt"))
    assert row.cached_tokens == near(BOTH.tokens("cached"))
    assert row.generation_tokens == near(BOTH.tokens("generation"))
    assert row.recomputed_tokens is None
    computed = BOTH.tokens("prompt", "generation")
    assert row.joules_per_token == near(BOTH.joules / computed)
    assert row.serving_kwh == near(BOTH.joules / 3.6e6)
    held_hours = 2 * 4 * 6
    assert row.tokens_per_gpu_second == near(computed / (3600 * held_hours))
    assert row.cost_per_million_tokens == near(1e6 * PRICE * held_hours / computed)
    assert row.cost_per_million_prompt_tokens is None
    assert row.cost_per_million_generation_tokens is None
    assert row.memory_ratio == near(0.85)
    assert row.idle_engine_kwh == 0


def test_a_role_has_a_price_of_its_own_tokens(report: FleetReport) -> None:
    prefill, decode = job(report, "2"), job(report, "3")
    cost = PRICE * 4 * 8
    of_prompts = 1e6 * cost / PREFILL.tokens("prompt", "recomputed")
    generated = 1e6 * cost / DECODE.tokens("generation")
    assert prefill.cost_per_million_prompt_tokens == near(of_prompts)
    assert prefill.cost_per_million_generation_tokens is None
    assert decode.cost_per_million_generation_tokens == near(generated)
    assert decode.joules_per_token == near(DECODE.joules / DECODE.tokens("generation"))
    bob = group(report, "bob")
    assert bob.cost_per_million_prompt_tokens == near(of_prompts)
    assert bob.cost_per_million_generation_tokens == near(generated)
    work = PREFILL.tokens("prompt", "recomputed") + DECODE.tokens("generation")
    assert bob.joules_per_token == near((PREFILL.joules + DECODE.joules) / work)


def test_energy_of_engines_without_a_request_is_that_of_the_idle_hours(report: FleetReport) -> None:
    """The last three hours but for the first five minutes, in which it is not known yet."""
    idle = 1800.0 * 3 * HOUR / 3.6e6
    found = job(report, "3").idle_engine_kwh
    assert found is not None
    assert idle * (1 - 10 / 180) <= found <= idle * 1.001


def test_a_job_that_serves_nothing_has_none_of_it(report: FleetReport) -> None:
    row = job(report, "4")
    served_columns = [name for name in type(row).model_fields if "token" in name]
    assert len(served_columns) == 9
    assert {getattr(row, name) for name in served_columns} == {None}
    assert group(report, "carol").serving_gpu_hours is None


def test_the_total_is_the_sum_over_sums(report: FleetReport) -> None:
    work = sum(
        (
            BOTH.tokens("prompt", "generation"),
            PREFILL.tokens("prompt", "recomputed"),
            DECODE.tokens("generation"),
        )
    )
    total = report.total
    assert total.joules_per_token == near(sum(each.joules for each in ALL) / work)
    assert total.cost_per_million_tokens == near(1e6 * PRICE * (48 + 32 + 32) / work)
    assert total.generation_tokens == near(sum(each.tokens("generation") for each in ALL))


def test_served_models_have_the_energy_of_jobs_that_served_them_alone(report: FleetReport) -> None:
    by_name = {row.served_model: row for row in report.served_models}
    assert list(by_name) == ["big", "m", "lora"]
    assert by_name["m"].joules_per_token == job(report, "1").joules_per_token
    assert by_name["big"].generation_tokens == near((20 * 8 + 400 * 5) * HOUR)
    assert by_name["big"].joules_per_token == job(report, "2").joules_per_token
    assert by_name["lora"].generation_tokens == near(40 * 5 * HOUR)
    assert by_name["lora"].joules_per_token is None
    assert by_name["lora"].serving_gpu_hours is None


def test_without_prices_there_is_no_cost(prometheus: HasUrl) -> None:
    found = made(prometheus, priced=False)
    row = job(found, "1")
    assert (row.serving_cost, row.cost_per_million_tokens) == (None, None)
    assert row.joules_per_token is not None


@pytest.mark.parametrize("by", ["job", "model", "namespace", "account"])
def test_the_tables_say_it_by_whatever_is_asked_for(prometheus: HasUrl, by: str) -> None:
    found = made(prometheus, by=by)
    text = rendered(found, "text", 20).decode()
    assert f"What tokens cost, by {by}:" in text
    assert "What tokens cost, by served model:" in text
    row = next(line for line in text.splitlines() if line.startswith("lora"))
    assert row.split()[:3] == ["lora", "1", "-"]
    page = rendered(found, "html", 20).decode()
    assert "USD a million tokens" in page
    lines = rendered(found, "csv", 20).decode().splitlines()
    assert "joules_per_token" in lines[0].split(",")
    data = json.loads(rendered(found, "json", 20))
    assert data["total"]["joules_per_token"] == found.total.joules_per_token


def test_a_fleet_that_serves_nothing_has_no_such_table(report: FleetReport) -> None:
    nothing = dict.fromkeys(
        name for name in GroupRow.model_fields if "serving" in name or "token" in name
    )
    quiet = report.model_copy(update={"total": report.total.model_copy(update=nothing)})
    assert "tokens" not in rendered(quiet, "text", 20).decode()


@pytest.mark.parametrize(
    ("job_id", "words", "bound"),
    [
        ("1", "Served 44.1 M tokens at 1.57 J a token.", "Bound by memory: 85.0% of what"),
        ("2", "Served", ""),
        ("4", "", ""),
    ],
)
def test_the_story_of_a_job_says_what_it_served_and_what_bounds_it(
    prometheus: HasUrl, job_id: str, words: str, bound: str
) -> None:
    with reading(prometheus.url) as reader:
        story = read_story(reader, (BEGIN, END), ClusterJob("", job_id))
        told = job_result(story, reader).headline
    assert words in told
    assert ("Served" in told) == bool(words)
    assert bound in told
    assert ("Bound by memory" in told) == bool(bound)
