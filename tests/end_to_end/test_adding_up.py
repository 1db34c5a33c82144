"""What GPUs, jobs, users and clusters had adds up to the same in report, rules and dashboards, and to the truth.

By both engines, with and without rules, over ranges that begin at half hours, within jobs and across midnight. What
increases are off by is a scrape's minute at the ends of a job on each of its nodes.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path

import pytest

from ofu_exporter.fleet.history import queries
from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.fleet.reports.result import FleetReport, SumsRow
from tests.deploy.promtool import RULES, groups
from tests.fleet.reports.test_funnel import told
from tests.helpers import stored_fleet
from tests.helpers.stored_fleet import HOUR, read_in, record, record_in, stored, victoria_with
from tests.helpers.two_clusters import BEGIN, HOURS, UNITS, Job, of_gpus, pages, truth

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("stored fleet")]

END = BEGIN + HOURS * HOUR
NEAR = 0.1
"""GPU-hours: a minute of six GPUs."""
RANGES = {
    "12 hours": (END, 12),
    "from a half hour on": (END - HOUR / 2, 9),
    "young": (END - 3 * HOUR, 6),
}
TEXT = " ".join(
    rule["record"] for path in RULES for group in groups(path) for rule in group["rules"]
)
TEXT += Path(queries.__file__).read_text()
LEVELS: dict[str, Callable[[Job], str]] = {
    name: attrgetter(name) for name in ("user", "account", "partition", "cluster")
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The URL of an engine. Each is begun once, however often pytest goes from one to another and back."""
    content = pages()
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(stored_fleet, "BEGIN", BEGIN)

        @functools.cache
        def begin(name: str) -> str:
            folder = tmp_path_factory.mktemp("sums")
            read_in(folder, content)
            if name == "recorded":
                record(folder, BEGIN, END, TEXT)
            prometheus = stack.enter_context(stored(folder))
            if "victoria" not in name:
                return prometheus.url
            empty = tmp_path_factory.mktemp("victoria")
            server = stack.enter_context(victoria_with(prometheus, empty))
            if "recorded" in name:
                record_in(server, BEGIN, END, TEXT)
            return server.url

        yield begin


@pytest.fixture(scope="module", params=["raw", "recorded", "victoria raw", "victoria recorded"])
def url(request: pytest.FixtureRequest, begun: Callable[[str], str]) -> str:
    return begun(request.param)


@pytest.fixture(scope="module", params=[*RANGES])
def report(url: str, request: pytest.FixtureRequest) -> FleetReport:
    end, hours = RANGES[request.param]
    return told(url, "--by", "account", "--no-changes", end=end, hours=hours)


def span(report: FleetReport) -> tuple[float, float]:
    ends = (report.time.start, report.time.end)
    start, end = (datetime.datetime.fromisoformat(each.replace("Z", "+00:00")) for each in ends)
    return start.timestamp(), end.timestamp()


def numbers(row: SumsRow) -> tuple[float, ...]:
    return (
        row.held_gpu_hours,
        row.observed_gpu_hours,
        row.effective_gpu_hours,
        row.compared_gpu_hours,
    )


def test_jobs_and_groups_have_what_they_truly_had(report: FleetReport) -> None:
    """No row is there for a job that ended as the time began."""
    rows: dict[str, SumsRow] = {f"{row.cluster}/{row.job_id}": row for row in report.jobs}
    for found, of in (
        (rows, lambda job: f"{job.cluster}/{job.job_id}"),
        ({row.name: row for row in report.groups}, LEVELS["account"]),
        ({"": report.total}, lambda _: ""),
    ):
        wanted = truth(*span(report), of)
        assert found.keys() == wanted.keys()
        for name, sums in wanted.items():
            true = (sums.held, sums.observed, sums.used, sums.compared)
            assert numbers(found[name]) == pytest.approx(true, abs=NEAR), name
            if sums.compared:
                mfu = sums.compared_mfu / sums.compared
                assert found[name].mfu == pytest.approx(mfu, abs=0.002)
                ofu = sums.compared_used / sums.compared
                assert found[name].ofu_compared == pytest.approx(ofu, abs=0.002)


def test_the_steps_are_what_is_installed(report: FleetReport) -> None:
    steps = {each.name: each.gpu_hours or 0.0 for each in report.waterfall}
    gpus = of_gpus(*span(report))
    assert steps["installed"] == pytest.approx(gpus.observed, abs=NEAR)
    assert sum(steps.values()) == pytest.approx(2 * steps["installed"], abs=NEAR)
    assert report.ofu == pytest.approx(gpus.used / gpus.observed, abs=0.001)
    lone = sum(
        each.within(*span(report)) / HOUR
        for unit in UNITS
        for each in unit.stretches
        if not each.jobs
    )
    assert steps["unclaimed"] == pytest.approx(lone, abs=2 * NEAR)


def test_rows_days_and_hours_have_the_same_sums(report: FleetReport) -> None:
    rest, total = report.no_job, report.total
    assert rest is not None
    gpus = of_gpus(*span(report))
    assert total.held_gpu_hours + rest.held_gpu_hours == pytest.approx(gpus.observed, abs=NEAR)
    assert total.observed_gpu_hours + rest.observed_gpu_hours == pytest.approx(
        gpus.observed, abs=NEAR
    )
    assert total.effective_gpu_hours + rest.effective_gpu_hours == pytest.approx(
        gpus.used, abs=NEAR
    )
    held = [each.gpu_hours for each in report.days if each.kind == "held"]
    assert sum(held) == pytest.approx(total.held_gpu_hours)
    assert sum(each.gpu_hours for each in report.days) == pytest.approx(gpus.observed, abs=NEAR)
    assert sum(each.held_gpus or 0.0 for each in report.hours) == pytest.approx(
        total.held_gpu_hours
    )
    installed = {row.cluster: row.gpus for row in report.clusters}
    for cluster in "ab":
        whole = sum(unit.share for unit in UNITS if unit.cluster == cluster)
        assert installed[cluster] == pytest.approx(whole)


@pytest.mark.parametrize("level", [*LEVELS])
def test_rules_and_dashboards_say_what_the_report_says(
    url: str, level: str, request: pytest.FixtureRequest
) -> None:
    """As the panels of users ask, over a range that ends between two hours of the rules."""
    at, client = END + HOUR / 2, PrometheusClient(url)
    wanted = truth(END - 12 * HOUR, END, LEVELS[level])
    for series, field in (
        ("held", "held"),
        ("observed", "observed"),
        ("utilized", "used"),
        ("compared_mfu", "compared_mfu"),
    ):
        expression = f"sum by ({level}) (sum_over_time(owner:{series}_gpu_hours:increase1h[12h]))"
        answer = {
            one.labels.get(level, ""): one.points[-1][1] for one in client.instant(expression, at)
        }
        has_rules = request.node.callspec.params["url"].endswith("recorded")
        assert bool(answer) == has_rules
        if has_rules:
            true = {name: getattr(sums, field) for name, sums in wanted.items()}
            found = {name: answer.get(name, 0.0) for name in true}
            assert found == pytest.approx(true, abs=NEAR)
    client.close()
