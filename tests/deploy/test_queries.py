"""Every query in the documentation finds something, in Prometheus' own engine, on the page of a node with MIG.

The page is that of six hours and a half: a GPU with three MIG instances and a whole one, some of whose samples overlap;
a job on two of the instances that reports its MFU and has a pulled engine, and one on the whole GPU. promtool runs the
recording rules over it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import promql_parser
import pytest
from prometheus_client import Metric

from ofu_exporter.reports.entry import Policy
from ofu_exporter.serving.metrics.agent import AgentCounts
from ofu_exporter.serving.page import Page
from ofu_exporter.values.job import Job
from ofu_exporter.values.reading import Activity
from ofu_exporter.values.served import Served
from tests.deploy.promtool import ROOT, RULES, said
from tests.helpers.desk import Desk
from tests.helpers.node import EPOCH, whole
from tests.helpers.values import gpu, reading

pytestmark = [pytest.mark.prometheus, pytest.mark.slow]

PAGES = sorted(
    path
    for folder in (".", "docs", "deploy", "helm")
    for path in (ROOT / folder).glob("*.md" if folder in (".", "docs") else "**/README.md")
)
JOB, NODE = "1234", "NODE"
"""As the documentation calls them."""
MINUTES = 390
"""Alerts of a cluster look at jobs that ran six hours ago."""
ACTIVITY = Activity(engine=0.9, sm=0.8, dram=0.3, energy_joules=12_000.0)
"""Of the whole GPU, beside its tensor activity."""

EMPTY: dict[str, str] = {
    "time() - ofu_exporter_snapshot_timestamp_seconds > 120": "a sampler that hangs",
    "ofu_exporter_source_unavailable > 0": "a source that cannot be read",
    'rate(ofu_exporter_read_failures_total{instance="NODE"}[15m]) > 0': "reads that fail",
    "sum by (job_id) (sum_over_time(job:idle_engine_watts:rate5m[1d])) * 60 / 3.6e6": "an idle engine",
    "topk(10, job:ofu:ratio_sum30m / job:ofu:ratio_sum1d < 0.6)": "a job whose OFU dropped",
    'group by (cluster, instance) (last_over_time(up{job=~".*ofu.*"}[1d])) '
    'unless on (cluster, instance) up{job=~".*ofu.*"}': "an agent that is gone since yesterday",
}
"""Queries that find nothing on a sound node, and what they look for."""
NO_QUERY = ("ofu_job_divergence_verdict{job_id=",)
"""How blocks begin that only look like a query: lines of a page."""


def queries(page: Path) -> Iterator[str]:
    """The queries of a page: marked blocks, indented blocks and code between words."""
    text = page.read_text()
    yield from re.findall(r"```promql\n(.*?)```", text, re.DOTALL)
    indented = (block[0] for block in re.finditer(r"(?:^ {4}.*\n)+", text, re.MULTILINE))
    yield from (block for block in indented if is_like_a_query(block))
    for word in re.findall(r"`([^`\n]+)`", text):
        if re.search(r"[a-z]\(.*\b(ofu_|up\b|\w+:\w+:)", word):
            yield word


def is_like_a_query(block: str) -> bool:
    begins = (
        r"\s*(ofu_\w+|\w+:\w+:\w+|up|time|(sum|max|min|avg|count|topk|group|rate|increase)\b.*\()"
    )
    return bool(re.match(begins, block)) and not block.lstrip().startswith(NO_QUERY)


def one_line(query: str) -> str:
    return " ".join(query.split())


ALL = sorted({one_line(query) for page in PAGES for query in queries(page)})


@cache
def scraped() -> dict[str, list[str]]:
    """The values of every series, minute by minute, in promtool's notation."""
    series: dict[str, list[str]] = defaultdict(lambda: ["_"] * (MINUTES + 1))
    for minute, families in enumerate(pages()):
        for family in families:
            for sample in family.samples:
                # promtool's time begins at 0
                begins = EPOCH if sample.name.endswith("_timestamp_seconds") else 0.0
                labels = {"instance": NODE, "job": "ofu", **sample.labels}
                words = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items())
                series[f"{sample.name}{{{words}}}"][minute] = repr(sample.value - begins)
    series[f'up{{instance="{NODE}",job="ofu"}}'] = ["1"] * (MINUTES + 1)
    series['up{instance="down",job="ofu"}'] = ["0"] * (MINUTES + 1)
    return dict(series)


def pages() -> Iterator[Iterable[Metric]]:
    """What a scrape of the node shows every minute."""
    desk = Desk(2, Policy())
    served = Served()
    counts = AgentCounts(rejected_reports={"overlap": 1}, served={JOB: served})
    page = Page(desk.clock, lambda: counts, process=False)
    instances = [
        replace(gpu(0, instance=str(number)), profile=profile)
        for number, profile in enumerate(("3g.40gb", "2g.20gb", "1g.10gb"), start=1)
    ]
    desk.node.gpus = [*instances, gpu(1)]
    jobs = whole(Job("slurm", JOB, "llama", "ada"), "0.1", "0.2"), whole(Job("slurm", "8"), "1")
    desk.node.give(0.0, *jobs)
    for minute in range(MINUTES + 1):
        served.seconds["llama"] += 60.0
        served.moved_bytes["llama", "read"] += 60e12
        page.publish(desk.shown)
        page.render()
        yield page.collect()
        page.count_request("/metrics", 200)
        desk.run(55.0, window=30.0)
        desk.node.tick(desk.clock.now, reading(60.0 * minute, desk.clock.now, device=gpu(1)))
        last = (desk.clock.now, desk.clock.now + 5.0)
        desk.node.tick(last[1], reading(*last, device=gpu(1), activity=ACTIVITY))
        desk.run(5.0)
        desk.report(JOB, mfu=0.38, peak_tflops=989.4)


def without_threshold(query: str) -> str:
    """A query that looks for a fault, as one that shows what the fault is looked for in."""
    return re.sub(r" [<>] [\d.]+(?=\)?$)", "", query)


def asked(query: str) -> str:
    """A query as it is typed: with the job's id in the place of its name."""
    typed = query.replace('"JOB"', json.dumps(JOB))
    return f"count({typed}) > bool 0"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """Whether promtool finds something with each query after these hours, also without its threshold."""
    wanted = {*ALL, *map(without_threshold, ALL), *OF_THE_NODE}
    expected = [{"labels": "{}", "value": 1}]
    checks = [
        {"expr": asked(query), "eval_time": f"{MINUTES}m", "exp_samples": expected}
        for query in wanted
    ]
    series = [{"series": name, "values": " ".join(row)} for name, row in scraped().items()]
    test = {
        "rule_files": [str(path) for path in RULES],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": checks}],
    }
    path = tmp_path_factory.mktemp("queries") / "test.yaml"
    path.write_text(json.dumps(test))  # JSON is YAML
    text = said(path)
    assert "FAILED" in text, text
    empty = {query for query in wanted if f"expr: {json.dumps(asked(query))}" in text}
    assert text.count("expr: ") == len(empty), text
    assert " err: " not in text, text
    return {query: query not in empty for query in wanted}


OF_THE_NODE = (
    'abs(sum(ofu_gpu_instance_share_ratio or ofu_gpu_info{gpu_instance=""}) - (6 / 7 + 1)) < 1e-9',
    f'abs(sum(job:ofu_job_gpu_seconds:rate5m{{job_id="{JOB}"}}) - 5 / 7) < 1e-6',
)
"""The node is what it should be: instances are parts of GPUs."""


def test_the_documentation_has_queries_and_each_is_one() -> None:
    assert len(ALL) > 20
    for query in ALL:
        promql_parser.parse(query)
    assert set(ALL) >= EMPTY.keys()


@pytest.mark.parametrize("query", [*ALL, *OF_THE_NODE])
def test_a_query_finds_something(query: str, answers: dict[str, bool]) -> None:
    assert answers[query] != (query in EMPTY)


@pytest.mark.parametrize("query", [query for query in EMPTY if without_threshold(query) != query])
def test_a_query_for_a_fault_looks_at_something(query: str, answers: dict[str, bool]) -> None:
    counts_nothing_yet = "_failures_" in query or "_unavailable" in query
    assert answers[without_threshold(query)] != counts_nothing_yet
