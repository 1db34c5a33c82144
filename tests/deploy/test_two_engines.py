"""Prometheus and VictoriaMetrics answer every query of rules, alerts, reports, changes, digests and dashboards alike.

Over the same half day, of which each engine has made the recorded series itself. VictoriaMetrics reads ranges in its
own way: its rates begin at the last sample before the range, and a new series has its full rate at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from ofu_exporter.fleet.changes import peer_hours
from ofu_exporter.fleet.digest import signs
from ofu_exporter.fleet.history import progress_reader, queries, served
from ofu_exporter.fleet.history.queries import Quantity
from ofu_exporter.fleet.hours import HOUR
from ofu_exporter.fleet.prometheus import PrometheusClient
from ofu_exporter.fleet.reports import one_job
from tests.deploy.promtool import ALERTS, RULES, groups, the_alert
from tests.deploy.test_dashboards import MARKS, QUERIES, filled
from tests.helpers import troubled_fleet
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import BEGIN, read_in, record, record_in, stored, victoria_with
from tests.helpers.troubled_fleet import END, N1

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("two engines")]

NEAR = 0.06
"""Of a sum over the half day: the shortest jobs last for half an hour, in whose first five minutes rates grow."""
MINUTES = 2 / 60
"""GPU-hours by which the losses of an hour may differ: jobs begin and end, and of some users these alone are shown."""
SECONDS = {"1m": 60.0, "2m": 120.0, "1h": HOUR}


class Asked(NamedTuple):
    name: str
    expression: str
    step: float


def of_rules() -> Iterator[Asked]:
    """What each engine has recorded, at the very times of the rule."""
    for path in RULES:
        for group in groups(path):
            step = SECONDS[group["interval"]]
            for rule in group["rules"]:
                only = f"last_over_time({rule['record']}[{1000 * step - 1:.0f}ms])"
                yield Asked(rule["record"], only, step)


def of_module(module: ModuleType) -> Iterator[Asked]:
    """Every quantity of a module, from recorded series where rules record it, and without any."""
    for name, value in vars(module).items():
        several = value if type(value) is tuple else (value,)
        for number, each in enumerate(several):
            if isinstance(each, Quantity) and each.raw:  # without any it only names a counter
                where = f"{module.__name__.rpartition('.')[2]}.{name}[{number}]"
                if each.recorded:
                    yield Asked(where, each.of_jobs(""), HOUR)
                yield Asked(f"{where} without rules", each.of_cluster("a"), HOUR)


def of_reports() -> Iterator[Asked]:
    """The queries of reports that are no quantities, and those of a job's points."""
    for name in ("AGENTS", "RAW_NAMES", "ABSENT", "NODE_GPUS", "PRESENT", "TARGET"):
        expression = getattr(queries, name).replace("{CLUSTER}", "").replace("{NODES}", "")
        yield Asked(name, expression, HOUR)
    yield Asked("looks at nodes", queries.looks_at_nodes(3), HOUR)
    for name, expression in one_job.expressions('cluster="a",job_id="2"', 'cluster="a"').items():
        yield Asked(f"points of a job: {name}", expression, 300.0)


def of_boards() -> Iterator[Asked]:
    choices = {"node": N1.name, "job": "2", "cluster": ".*"}
    for number, each in enumerate([*QUERIES, *MARKS]):
        expression = filled(each.expression, choices).replace("[15s]", "[2m]")
        if re.search("(increase|sum)1h", expression):
            # Prometheus 2 counts a sample at the very begin of a range, too
            expression = expression.replace("[5m]", "[4m59s999ms]")
        yield Asked(f"{each.board}: {each.panel} {number}", expression, 60.0)


def of_alerts() -> Iterator[Asked]:
    for path in ALERTS:
        alert = the_alert(path)
        yield Asked(alert["alert"], alert["expr"], 60.0)


ASKED = [
    *of_rules(),
    *(
        each
        for module in (queries, progress_reader, served, peer_hours, signs)
        for each in of_module(module)
    ),
    *of_reports(),
    *of_boards(),
    *of_alerts(),
]


def server(folder: Path, look_back: int = 90) -> AbstractContextManager[Prometheus]:
    """A series that a page no longer has ends with its last scrape, which what is read in from a file can't say."""
    return stored(folder, (f"--query.lookback-delta={look_back}s",))


OF_TWO_MINUTES = 130
"""Seconds for which series are looked for that are recorded every two minutes."""


Engines = tuple[PrometheusClient, PrometheusClient]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """A Prometheus and a VictoriaMetrics, each with the pages and what its own engine recorded of them."""
    raw, recorded, data = (tmp_path_factory.mktemp(name) for name in ("raw", "recorded", "data"))
    text = " ".join(
        rule["record"] for path in RULES for group in groups(path) for rule in group["rules"]
    )
    for folder in (raw, recorded):
        read_in(folder, troubled_fleet.pages())
    record(recorded, BEGIN, END, text, server)
    with server(raw) as unrecorded, victoria_with(unrecorded, data) as victoria:
        record_in(victoria, BEGIN, END, text)
        with server(recorded, OF_TWO_MINUTES) as prometheus:
            clients = PrometheusClient(prometheus.url), PrometheusClient(victoria.url)
            yield clients
            for client in clients:
                client.close()


Labels = tuple[tuple[str, str], ...]


def answer(client: PrometheusClient, asked: Asked) -> dict[Labels, list[float]]:
    """The values of every series over the half day, in the order of time."""
    return {
        tuple(sorted(item for item in one.labels.items() if item[0] != "__name__" and item[1])): [
            value for _, value in one.points
        ]
        for one in client.steps(asked.expression, BEGIN, END, asked.step)
    }


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked.name)
def test_both_engines_answer_alike(asked: Asked, engines: Engines) -> None:
    first, second = (answer(client, asked) for client in engines)
    for labels in first.keys() | second.keys():
        ours, theirs = first.get(labels, []), second.get(labels, [])
        largest = max(map(abs, [*ours, *theirs]), default=0.0)
        apart = abs(sum(ours) - sum(theirs))
        minutes = MINUTES * len(ours) if asked.expression.count("sum1h{") else 0.0
        assert apart <= NEAR * abs(sum(ours)) + 1.01 * largest + minutes, (
            f"{labels}: {ours}, {theirs}"
        )


def test_every_query_of_the_rules_finds_something_here(engines: Engines) -> None:
    """A history that lacks what a query is about would compare nothing with nothing."""
    empty = {asked.name for asked in of_rules() if not answer(engines[0], asked)}
    of_slurm = {name for name in empty if name.startswith("namespace:")}
    # nothing drops; quiet weeks have some
    dropped = {"job:ofu_before_drop:ratio", "job_gpu:ofu_gpu_sm_clock_before_loss:hertz"}
    assert empty - of_slurm == dropped
