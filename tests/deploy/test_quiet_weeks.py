"""Four weeks of a healthy mixed fleet fire no alert but those of planted faults, on Prometheus and on vmalert.

Every alert has a planted fault. quiet_fleet.py has the fleet and the faults.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path

import pytest

from ofu_exporter.fleet.prometheus import LOOK_BACK
from tests.deploy import quiet_pages
from tests.deploy.promtool import ALERTS, the_alert
from tests.deploy.quiet_fleet import FAULTS, LENGTH, WEEK, Fault
from tests.helpers.programs import has_flag
from tests.helpers.prometheus_server import promql
from tests.helpers.stored_fleet import (
    BEGIN,
    empty_victoria,
    labelled,
    layers,
    put_into,
    read_in,
    stored,
)

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("quiet weeks")]

STEP = 180
"""Seconds between two evaluations."""
SHORT = ("--query.lookback-delta=190s",)
TEXT = " ".join(the_alert(path)["expr"] for path in ALERTS)
SECONDS = {"m": 60, "h": 3600}

Fired = dict[str, list[tuple[dict[str, str], list[float]]]]
"""The labels and the seconds of the four weeks at which each alert fires."""


Points = list[tuple[float, str]]


def evaluated(url: str, expression: str) -> Iterator[tuple[dict[str, str], Points]]:
    """What an expression says every STEP seconds, by fortnight: servers bound the points of an answer."""
    for week in (0, 2):
        begin = BEGIN + week * WEEK + STEP
        end = begin + 2 * WEEK - STEP
        for one in promql(url, expression, start=begin, end=end, step=STEP, **LOOK_BACK):
            yield one["metric"], one["values"]


def by_labels(
    series: Iterator[tuple[dict[str, str], Points]],
) -> list[tuple[dict[str, str], list[float]]]:
    found: dict[str, tuple[dict[str, str], list[float]]] = {}
    for labels, points in series:
        _, times = found.setdefault(labelled(**labels), (labels, []))
        times += [time - BEGIN for time, _ in points]
    return list(found.values())


def lasting(times: list[float], seconds: float) -> list[float]:
    """Those at which it has been true for so long, at every evaluation."""
    since = times[0] if times else 0.0
    kept = []
    for before, time in pairwise([since, *times]):
        since = time if time - before > STEP else since
        if time - since >= seconds:
            kept.append(time)
    return kept


def in_prometheus(folder: Path, content: str) -> Fired:
    read_in(folder, content)
    for layer in layers(TEXT):
        lines: list[str] = []
        with stored(folder, SHORT) as server:
            for rule, _ in layer:
                lines.append(f"# TYPE {rule['record']} gauge")
                lines += sorted(recorded(server.url, rule), key=lambda line: line.split(" ")[0])
        read_in(folder, "\n".join([*lines, "# EOF", ""]))
    fired: Fired = {}
    with stored(folder, SHORT) as server:
        for rule in map(the_alert, ALERTS):
            waits = int(rule["for"][:-1]) * SECONDS[rule["for"][-1]]
            found = by_labels(evaluated(server.url, rule["expr"]))
            fired[rule["alert"]] = [(labels, lasting(times, waits)) for labels, times in found]
    return fired


def recorded(url: str, rule: dict[str, str]) -> Iterator[str]:
    for labels, points in evaluated(url, rule["expr"]):
        name = rule["record"] + labelled(**labels)
        yield from (f"{name} {value} {time:.0f}" for time, value in points)


def in_vmalert(folder: Path, content: str) -> Fired:
    # A restart is looked for every 15 s, which old versions count as points of the answer.
    limits = [
        f"{flag}=200000"
        for flag in ("-search.maxPointsPerTimeseries", "-search.maxPointsSubqueryPerTimeseries")
        if has_flag("victoria-metrics", flag)
    ]
    with empty_victoria(folder, *limits) as server:
        # Line by line: of all in one piece VictoriaMetrics 1.145 loses a part.
        put_into(server, [f"{line}000" for line in content.splitlines() if line[0] != "#"])
        for layer in layers(TEXT):
            for rule, _ in layer:
                put_into(server, [f"{line}000" for line in recorded(server.url, rule)])
        replay(server.url)
        put_into(server, [])
        fired: Fired = {the_alert(path)["alert"]: [] for path in ALERTS}
        for labels, times in by_labels(evaluated(server.url, 'ALERTS{alertstate="firing"}')):
            fired[labels["alertname"]].append((labels, times))
    return fired


def as_text(time: float) -> str:
    return datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def replay(url: str) -> None:
    """Have vmalert itself evaluate the alerts over the four weeks."""
    subprocess.run(
        [
            "vmalert",
            *(f"-rule={path}" for path in ALERTS),
            f"-datasource.url={url}",
            f"-remoteWrite.url={url}",
            f"-evaluationInterval={STEP}s",
            f"-datasource.queryStep={STEP}s",
            f"-replay.timeFrom={as_text(BEGIN + STEP)}",
            f"-replay.timeTo={as_text(BEGIN + LENGTH)}",
            "-replay.maxDatapointsPerQuery=14000",
            "-replay.rulesDelay=0s",
            "-replay.disableProgressBar",
        ],
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def content() -> str:
    return quiet_pages.text()


@pytest.fixture(scope="module", params=[in_prometheus, in_vmalert], ids=["prometheus", "vmalert"])
def fired(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, content: str
) -> Fired:
    found: Fired = request.param(tmp_path_factory.mktemp("weeks"), content)
    return found


def is_of(fault: Fault, alert: str, labels: dict[str, str]) -> bool:
    return alert == fault.alert and fault.where.items() <= labels.items()


def test_every_alert_has_a_planted_fault() -> None:
    assert {fault.alert for fault in FAULTS.values()} == {the_alert(p)["alert"] for p in ALERTS}


def test_each_planted_fault_is_told_of_in_time_and_as_long_as_it_lasts(fired: Fired) -> None:
    late, short = {}, {}
    for name, fault in FAULTS.items():
        all_times = (t for labels, t in fired[fault.alert] if is_of(fault, fault.alert, labels))
        times = sorted({t for some in all_times for t in some if t >= fault.begin})
        if not times or times[0] > fault.begin + fault.within:
            late[name] = (times[0] - fault.begin) / 60 if times else None
        elif fault.goes_on and (missing := set(steps_of(fault, times[0])) - set(times)):
            short[name] = (min(missing) - fault.begin) / 60
    assert (late, short) == ({}, {})


def steps_of(fault: Fault, first: float) -> Iterator[float]:
    while first < fault.end:
        yield first
        first += STEP


def test_nothing_else_fires_in_four_weeks(fired: Fired) -> None:
    loud = {}
    for alert, found in fired.items():
        for labels, times in found:
            faults = [fault for fault in FAULTS.values() if is_of(fault, alert, labels)]
            faults += [each for each in FAULTS.values() if each.alert == alert and not faults]
            alone = [
                time
                for time in times
                if not any(f.begin <= time <= f.end + f.after for f in faults)
            ]
            if alone:
                loud[(alert, labelled(**labels))] = [(t / 86400, len(alone)) for t in alone[:1]]
    assert loud == {}
