"""The Collector's recipe keeps what the page lists, and gives names that the conventions have."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.chart import ROOT
from tests.helpers.agent import agent, until
from tests.helpers.prometheus_server import Prometheus

RECIPE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/opentelemetry/collector.yaml").read_text())
(SCRAPED,) = RECIPE["receivers"]["prometheus"]["config"]["scrape_configs"]
STATEMENTS = [
    line
    for group in RECIPE["processors"]["transform/ofu"]["metric_statements"]
    for line in group["statements"]
]
METRICS = {"hw.gpu.utilization": "1", "hw.energy": "J"}
ATTRIBUTES = {
    *("hw.id", "hw.name", "hw.type", "hw.gpu.task", "hw.vendor", "hw.model", "hw.driver_version")
}
"""Names and units of github.com/open-telemetry/semantic-conventions, v1.44.0: docs/hardware/gpu.md, common.md."""
FORM = re.compile(
    r'set\((metric\.(?:name|unit)|datapoint\.attributes\["([\w.]+)"\]), '
    r'(?:"([^"]+)"|datapoint\.attributes\["(\w+)"\])\)'
    r' where (?:metric\.name == "(\w+)"|IsMatch\(metric\.name, "([^"]+)"\))'
)


def kept() -> set[str]:
    (rule,) = SCRAPED["metric_relabel_configs"]
    names = re.findall(r"ofu_[a-z_]+", (ROOT / "docs" / "metrics.md").read_text())
    return {name for name in names if re.fullmatch(rule["regex"], name)}


@contextlib.contextmanager
def scraping(folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes a demonstration as the recipe says."""
    with agent("demo", "--interval", "0.5s") as running:
        target = [{"targets": [running.url.removeprefix("http://")]}]
        job = {**SCRAPED, "scrape_interval": "1s", "static_configs": target}
        prometheus = Prometheus(folder, {}, scrape_configs=[job])
        try:
            until(prometheus.ready)
            yield prometheus
        finally:
            prometheus.stop()


@pytest.mark.prometheus
@pytest.mark.slow
def test_a_real_prometheus_keeps_these_series_and_no_others(tmp_path: Path) -> None:
    with scraping(tmp_path) as prometheus:

        def names() -> set[str]:
            rows = prometheus.query('{job="ofu-exporter"}', time.time())
            made = {"up", "scrape_duration_seconds", "scrape_samples_scraped"}
            made |= {"scrape_samples_post_metric_relabeling", "scrape_series_added"}
            return {row["metric"]["__name__"] for row in rows} - made

        until(lambda: names() == kept())


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_reads_what_is_kept_and_makes_what_the_conventions_name(statement: str) -> None:
    form = FORM.fullmatch(statement)
    assert form, "of another form than the others"
    target, attribute, text, label, name, pattern = form.groups()
    read = {each for each in kept() if each == name or (pattern and re.search(pattern, each))}
    assert read
    if attribute:
        assert attribute in ATTRIBUTES
    elif target == "metric.name":
        assert text in METRICS
    else:
        assert text in METRICS.values()
    if label:
        rows = (ROOT / "docs" / "metrics.md").read_text().splitlines()
        for each in read:
            (row,) = [line for line in rows if line.startswith(f"- `{each}` (")]
            labels = row.partition("(")[2].partition(")")[0].replace("GPU", "gpu, uuid")
            assert label in labels.split(", "), each


def test_a_metric_gets_its_unit_before_it_loses_its_name() -> None:
    for name, unit in METRICS.items():
        (renamed,) = [at for at, line in enumerate(STATEMENTS) if f'metric.name, "{name}"' in line]
        where = STATEMENTS[renamed].partition(" where ")[2]
        assert f'set(metric.unit, "{unit}") where {where}' in STATEMENTS[:renamed]


def test_the_page_lists_what_is_kept_and_what_it_becomes() -> None:
    page = (ROOT / "docs" / "dashboards.md").read_text()
    assert all(f"`{name}`" in page for name in [*METRICS, "hw.gpu.utilization"])
    for name in kept():
        assert f"`{name}`" in page or name.startswith("ofu_job_"), name
