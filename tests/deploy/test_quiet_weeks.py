"""Four weeks of a healthy mixed fleet fire no alert about jobs' OFU but those of planted faults, in both engines.

A large training ends every Friday and begins on Monday, jobs of hours follow each other, two engines serve by day and
rest at night and on weekends, agents are upgraded and forget their totals, and nodes are drained.
"""

from __future__ import annotations

import json
import math
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ofu_exporter.fleet.prometheus import LOOK_BACK
from tests.deploy.monitoring import VictoriaMetrics, free_port, program
from tests.deploy.promtool import ALERTS, the_alert
from tests.helpers.stored_fleet import BEGIN, HOUR, labelled, layers, put_into, read_in, stored

pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.xdist_group("quiet weeks")]

STEP = 180
"""Seconds between two scrapes, and between two evaluations: rates of five minutes need two of the first."""
SCRAPE = 120
DAY = 24 * HOUR
WEEK = 7 * DAY
LENGTH = 4 * WEEK
ALERTING = {"OfuJobOfuDropped": 900.0, "OfuClusterOfuDropped": 900.0}
"""With the seconds for which they wait."""
SLOW_STORAGE = (2 * WEEK + DAY + 14 * HOUR, 2 * WEEK + DAY + 18 * HOUR)
"""All jobs do a third of their work on the third Tuesday afternoon."""
SLOW_JOB = (3 * WEEK + 2 * DAY + 10 * HOUR, 3 * WEEK + 2 * DAY + 16 * HOUR)
"""The large training does a fifth on the fourth Wednesday: BEGIN is a Monday."""
UPGRADES = tuple(week * WEEK + 2 * DAY + 3 * HOUR for week in range(4))


class QuietJob(NamedTuple):
    job_id: str
    gpus: int
    begin: float
    end: float
    ofu: Callable[[float], float]
    framework: str = ""


def by_day(time: float) -> float:
    """The OFU of a serving engine: less at night, and half on weekends."""
    hour, day = time % DAY / HOUR, time % WEEK // DAY
    rate = 0.05 + 0.25 * max(0.0, math.sin(math.pi * (hour - 7) / 14)) if 7 <= hour <= 21 else 0.05
    return rate * (0.6 if day >= 5 else 1.0)


def steady(level: float) -> Callable[[float], float]:
    return lambda _: level


def jobs() -> Iterator[QuietJob]:
    for week in range(4):
        monday = week * WEEK
        yield QuietJob(
            f"big-{week}", 32, monday + 8 * HOUR, monday + 4 * DAY + 18 * HOUR, steady(0.45)
        )
    yield QuietJob("serve-known", 8, 0, LENGTH, by_day, "vllm")
    yield QuietJob("serve-unknown", 8, -3 * DAY, LENGTH, by_day)
    begin, number = 0.0, 0
    while begin < LENGTH:
        hours, level = 2 + number * 7 % 11, 0.15 + number * 13 % 31 / 100
        yield QuietJob(f"small-{number}", 8, begin, begin + hours * HOUR, steady(level))
        drained = 4 * HOUR if number % 20 == 19 else 0.3 * HOUR
        begin, number = begin + hours * HOUR + drained, number + 1


def share(job: QuietJob, time: float) -> float:
    """Part of its work that it does, with the planted faults."""
    if SLOW_STORAGE[0] <= time < SLOW_STORAGE[1]:
        return 0.33
    return 0.2 if job.job_id.startswith("big") and SLOW_JOB[0] <= time < SLOW_JOB[1] else 1.0


def pages() -> str:
    names = ("ofu_job_info", "ofu_job_gpu_seconds_total", "ofu_job_utilization_seconds_total")
    families: dict[str, list[str]] = {name: [] for name in names}
    for job in jobs():
        where = {"cluster": "c", "instance": f"n-{job.job_id}", "job_id": job.job_id}
        info = labelled(**where, job_name=job.job_id.partition("-")[0], framework=job.framework)
        held, used = 0.0, 0.0
        start = max(job.begin, 0.0) // SCRAPE * SCRAPE + 7
        for number in range(int((min(job.end, LENGTH) - start) // SCRAPE)):
            time = start + SCRAPE * number
            if any(time - SCRAPE < upgrade <= time for upgrade in UPGRADES):
                held, used = 0.0, 0.0
            values = (1.0, held, used)
            for name, value in zip(names, values, strict=True):
                labels = info if name == "ofu_job_info" else labelled(**where)
                families[name].append(f"{name}{labels} {value!r} {BEGIN + time:.0f}")
            held += job.gpus * SCRAPE
            used += job.gpus * SCRAPE * job.ofu(time) * share(job, time)
    lines = []
    for name, samples in families.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# TYPE {name.removesuffix('_total')} {kind}", *samples]
    return "\n".join([*lines, "# EOF", ""])


def evaluated(url: str, expression: str) -> Iterator[tuple[dict[str, str], float, str]]:
    """What an expression says every STEP seconds, week by week: servers bound the points of an answer."""
    for week in range(4):
        begin = BEGIN + week * WEEK + STEP
        form = {"query": expression, "start": begin, "end": begin + WEEK - STEP, "step": STEP}
        asked = f"{url}/api/v1/query_range?{urllib.parse.urlencode({**form, **LOOK_BACK})}"
        with urllib.request.urlopen(asked, timeout=120) as answer:
            for one in json.load(answer)["data"]["result"]:
                yield from ((one["metric"], float(time), value) for time, value in one["values"])


def fired(url: str) -> dict[str, dict[str, list[float]]]:
    """Seconds of the four weeks at which each alert fires, by job."""
    found: dict[str, dict[str, list[float]]] = {}
    for path in ALERTS:
        alert = the_alert(path)
        if (name := alert["alert"]) not in ALERTING:
            continue
        true: dict[str, set[float]] = {}
        for labels, time, _ in evaluated(url, alert["expr"]):
            true.setdefault(labels.get("job_id", ""), set()).add(time)
        steps = range(0, int(ALERTING[name]) + 1, STEP)
        found[name] = {
            job: times
            for job, all_true in true.items()
            if (
                times := sorted(
                    t - BEGIN for t in all_true if all(t - s in all_true for s in steps)
                )
            )
        }
    return found


SHORT = ("--query.lookback-delta=190s",)
TEXT = " ".join(the_alert(path)["expr"] for path in ALERTS if the_alert(path)["alert"] in ALERTING)


def lines_of(url: str, rule: dict[str, str]) -> dict[str, list[tuple[float, str]]]:
    series: dict[str, list[tuple[float, str]]] = {}
    for labels, time, value in evaluated(url, rule["expr"]):
        series.setdefault(rule["record"] + labelled(**labels), []).append((time, value))
    return series


def in_prometheus(folder: Path) -> dict[str, dict[str, list[float]]]:
    read_in(folder, pages())
    for layer in layers(TEXT):
        lines: list[str] = []
        with stored(folder, SHORT) as server:
            for rule, _ in layer:
                lines.append(f"# TYPE {rule['record']} gauge")
                for name, points in lines_of(server.url, rule).items():
                    lines += [f"{name} {value} {time:.0f}" for time, value in points]
        read_in(folder, "\n".join([*lines, "# EOF", ""]))
    with stored(folder, SHORT) as server:
        return fired(server.url)


def in_victoria(folder: Path) -> dict[str, dict[str, list[float]]]:
    address = f"127.0.0.1:{free_port()}"
    flags = [f"-storageDataPath={folder}", f"-httpListenAddr={address}", "-retentionPeriod=100y"]
    with program("victoria-metrics", *flags, healthy=f"http://{address}/health"):
        server = VictoriaMetrics(address)
        put_into(server, [f"{line}000" for line in pages().splitlines() if line[0] != "#"])
        for layer in layers(TEXT):
            put_into(
                server,
                [
                    f"{name} {value} {1000 * time:.0f}"
                    for rule, _ in layer
                    for name, points in lines_of(server.url, rule).items()
                    for time, value in points
                ],
            )
        return fired(server.url)


@pytest.fixture(scope="module", params=[in_prometheus, in_victoria], ids=["prometheus", "victoria"])
def alerts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = request.param(tmp_path_factory.mktemp("weeks"))
    return found


def within(times: list[float], fault: tuple[float, float]) -> list[float]:
    """The times that are of a fault: the means of an hour know of it for so long after it."""
    return [time for time in times if fault[0] <= time <= fault[1] + HOUR]


def test_each_planted_fault_is_told_of_in_time(alerts: dict[str, dict[str, list[float]]]) -> None:
    of_cluster = within(alerts["OfuClusterOfuDropped"][""], SLOW_STORAGE)
    assert of_cluster[0] < SLOW_STORAGE[0] + 1.5 * HOUR
    of_job = within(alerts["OfuJobOfuDropped"]["big-3"], SLOW_JOB)
    assert of_job[0] < SLOW_JOB[0] + HOUR
    assert within(alerts["OfuJobOfuDropped"]["big-2"], SLOW_STORAGE)


def test_nothing_else_fires_in_four_weeks(alerts: dict[str, dict[str, list[float]]]) -> None:
    loud = {
        (name, job): [
            time for time in times if not within([time], SLOW_STORAGE) + within([time], SLOW_JOB)
        ]
        for name, of_jobs in alerts.items()
        for job, times in of_jobs.items()
    }
    first_night = loud.pop(("OfuJobOfuDropped", "serve-unknown"), [])
    assert max(first_night, default=0.0) < DAY + HOUR, (
        "an engine that nobody reads has no yesterday yet"
    )
    assert {place: times[:3] for place, times in loud.items() if times} == {}
