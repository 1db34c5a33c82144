"""From the job's report to the operator's inbox, all of it real.

Four agents -> Prometheus with the rules -> Alertmanager -> a receiver; and beside it VictoriaMetrics and vmalert with
the same rules. Only intervals and waiting times are short. Reports count after a minute, so this takes two.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.deploy.monitoring import (
    Receiver,
    VictoriaMetrics,
    alertmanager,
    at_a_tests_pace,
    receiver,
    victoria_metrics,
    vmalert,
)
from tests.helpers.agent import Agent, agent, until
from tests.helpers.early import Early
from tests.helpers.job_node import Node
from tests.helpers.prometheus_server import Prometheus

OVER, HONEST, SILENT = "7", "8", "9"
REPORTED = {OVER: 0.9, HONEST: 0.42}
"""The simulated GPUs 0 to 2 have an OFU of 0.43 or so."""
PLACES = {"n1": OVER, "n2": OVER, "n3": HONEST, "n4": SILENT}
PACE = ("--interval", "1s", "--clock-interval", "0.5s", "--slurm-poll", "0.5s")
"""Faster would only cost: what they serve is read every two seconds."""
LONG = 300.0
EVALUATORS = ("prometheus", "vmalert")


class Fleet(NamedTuple):
    """All that runs."""

    prometheus: Prometheus
    victoria: VictoriaMetrics
    received: Receiver

    def ask(self, evaluator: str, expression: str) -> list[Any]:
        if evaluator == "prometheus":
            return self.prometheus.query(expression, time.time())
        return self.victoria.query(expression)

    def value(self, evaluator: str, expression: str) -> float | None:
        rows = self.ask(evaluator, expression)
        return float(rows[0]["value"][1]) if rows else None


@contextlib.contextmanager
def reporting(running: Agent, job_id: str, mfu: float) -> Iterator[None]:
    """A job that reports its MFU every second, from a thread."""
    ended = threading.Event()
    body = json.dumps({"job_id": job_id, "mfu": mfu}).encode()

    def report() -> None:
        while not ended.wait(1.0):
            request = urllib.request.Request(
                f"{running.url}/v1/mfu", body, {"Content-Type": "application/json"}
            )
            urllib.request.urlopen(request, timeout=60).close()

    thread = threading.Thread(target=report)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def nodes(stack: contextlib.ExitStack, folder: Path) -> list[str]:
    """Four agents, whose jobs run and report; their addresses."""
    addresses = []
    for name, job_id in PLACES.items():
        (folder / name).mkdir()
        node = Node(folder / name)
        running = stack.enter_context(agent(*node.flags(), *PACE))
        node.start(job_id, "0", "1", "2")
        until(partial(running.value, "ofu_job_gpu_seconds_total", job_id=job_id))
        if job_id in REPORTED:
            stack.enter_context(reporting(running, job_id, REPORTED[job_id]))
        addresses.append(running.url.removeprefix("http://"))
    return addresses


@contextlib.contextmanager
def begin(folder: Path) -> Iterator[Fleet]:
    rules = at_a_tests_pace(folder)
    with contextlib.ExitStack() as stack:
        received, hook = stack.enter_context(receiver())
        route = {"receiver": "test", "group_wait": "1s", "group_interval": "1s"}
        config = {
            "route": {**route, "group_by": ["..."]},
            "receivers": [{"name": "test", "webhook_configs": [{"url": hook}]}],
        }
        manager = stack.enter_context(alertmanager(folder / "alertmanager", config))
        targets = [{"targets": nodes(stack, folder)}]
        scraped = [{"job_name": "ofu", "scrape_interval": "2s", "static_configs": targets}]
        prometheus = Prometheus(
            folder,
            {},
            **{"global": {"external_labels": {"evaluated_by": "prometheus"}}},
            scrape_configs=scraped,
            rule_files=[str(path) for path in rules],
            alerting={"alertmanagers": [{"static_configs": [{"targets": [manager]}]}]},
        )
        stack.callback(prometheus.stop)
        victoria = stack.enter_context(victoria_metrics(folder / "victoria", scraped))
        stack.enter_context(vmalert(rules, victoria, manager))
        until(prometheus.ready)
        yield Fleet(prometheus, victoria, received)


pytestmark = [pytest.mark.slow, pytest.mark.prometheus, pytest.mark.early(begin=begin)]


@pytest.fixture(scope="module")
def fleet(early: Early) -> Iterator[Fleet]:
    with early.of(begin) as running:
        yield running


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_the_impossible_mfu_arrives_for_the_job_that_over_reports(
    fleet: Fleet, evaluator: str
) -> None:
    wanted = {"alertname": "OfuMfuAboveOfu", "evaluated_by": evaluator}
    until(lambda: fleet.received.names(**wanted), seconds=LONG)
    alert = next(one for one in fleet.received.alerts if wanted.items() <= one["labels"].items())
    labels = {"job_id": OVER, "job_name": "llama", "user": "ada", "severity": "warning"}
    assert labels.items() <= alert["labels"].items()
    assert not {"instance", "gpu", "verdict"} & alert["labels"].keys(), "it's about the whole job"
    assert alert["annotations"]["summary"].startswith(
        "Job 7 (llama) of ada reports an MFU that is 4"
    )


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_it_arrives_for_no_other_job(fleet: Fleet, evaluator: str) -> None:
    """Also once the honest job's report has been held against its OFU for a while."""
    held = f'job:mfu_minus_ofu:ratio_rate15m{{job_id="{HONEST}"}}'
    until(lambda: fleet.ask(evaluator, held), seconds=LONG)
    agrees = f'job:ofu_job_divergence_verdict:sum{{job_id="{HONEST}",verdict="agree"}}'
    until(lambda: fleet.value(evaluator, agrees) == 1, seconds=LONG)
    until(lambda: len(fleet.ask(evaluator, f"{held}[1h]")[0]["values"]) > 5)
    wanted = {"alertname": "OfuMfuAboveOfu", "evaluated_by": evaluator}
    jobs = [
        one["labels"]["job_id"]
        for one in fleet.received.alerts
        if wanted.items() <= one["labels"].items()
    ]
    assert set(jobs) <= {OVER}


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_what_is_recorded_is_what_was_reported_and_measured(fleet: Fleet, evaluator: str) -> None:
    for job_id, mfu in REPORTED.items():
        recorded = f'job:mfu:ratio_rate15m{{job_id="{job_id}"}}'
        until(partial(fleet.ask, evaluator, recorded), seconds=LONG)
        # Right after a start vmalert may read numerator and denominator of two evaluations.
        until(
            lambda recorded=recorded, mfu=mfu: (  # type: ignore[misc]
                fleet.value(evaluator, recorded) == pytest.approx(mfu, rel=1e-6)
            )
        )
    for job_id in (OVER, HONEST, SILENT):
        ofu = f'job:ofu:ratio_rate5m{{job_id="{job_id}"}}'
        until(partial(fleet.ask, evaluator, ofu))
        assert fleet.value(evaluator, ofu) == pytest.approx(0.43, abs=0.08)
    assert fleet.ask(evaluator, f'job:mfu:ratio_rate15m{{job_id="{SILENT}"}}') == []


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_a_job_of_two_nodes_is_one_job(fleet: Fleet, evaluator: str) -> None:
    on_nodes = f'rate(ofu_job_held_gpu_seconds_total{{job_id="{OVER}"}}[5m])'
    until(lambda: len(fleet.ask(evaluator, on_nodes)) == 2)
    held = f'job:ofu_job_held_gpu_seconds:rate5m{{job_id="{OVER}"}}'
    until(lambda: fleet.ask(evaluator, held))
    (whole,) = fleet.ask(evaluator, held)
    parts = [float(row["value"][1]) for row in fleet.ask(evaluator, on_nodes)]
    assert max(parts) < 0.75 * float(whole["value"][1]) < sum(parts)


def test_no_alert_arrives_that_says_that_something_broke(fleet: Fleet) -> None:
    until(lambda: fleet.received.names(alertname="OfuMfuAboveOfu"), seconds=LONG)
    broken = {"OfuAgentDown", "OfuGpuNotMeasured", "OfuSamplesStale", "OfuStateFileNotWritten"}
    broken |= {"OfuAgentMemoryHigh", "OfuAgentRestarting", "OfuAgentsGone", "OfuReloadFailed"}
    broken |= {"OfuClaimsRejected", "OfuClusterOfuDropped", "OfuManyNodesUnmeasured"}
    broken |= {"OfuAgentFaults"}
    names = set(fleet.received.names())
    if "OfuDeadlinesMissed" in names:  # of a machine so busy that windows were late indeed
        broken -= {"OfuGpuNotMeasured"}
    assert not broken & names


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_it_is_told_that_no_gpu_is_measured_here(fleet: Fleet, evaluator: str) -> None:
    wanted = {"alertname": "OfuSimulatedData", "evaluated_by": evaluator}

    def told() -> set[str]:
        alerts = [one["labels"] for one in fleet.received.alerts]
        return {one["instance"] for one in alerts if wanted.items() <= one.items()}

    until(lambda: len(told()) == len(PLACES))
