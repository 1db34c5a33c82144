"""Lists of what this version knows."""

from __future__ import annotations

import csv
import io
import json

import pytest

from ofu_exporter import sources
from ofu_exporter.serving import metrics
from tests.helpers.in_process import shown


def test_list_sources_names_each_and_the_order_of_auto() -> None:
    text = shown("list", "sources")
    for name in sources.names():
        assert name in text
    assert "nvml           auto, 1." in text


@pytest.mark.parametrize(
    "what", ["sources", "schedulers", "gpus", "metrics", "architectures", "conventions"]
)
def test_a_list_says_the_same_in_each_format(what: str) -> None:
    rows = json.loads(shown("list", what, "--format", "json"))
    first = [row[next(iter(row))] for row in rows]
    table = csv.reader(io.StringIO(shown("list", what, "--format", "csv")))
    assert next(table) == list(rows[0])
    assert [row[0] for row in table] == first
    text = shown("list", what)
    assert all(name in text for name in first)


def test_list_gpus_shows_the_tensor_clock() -> None:
    line = next(line for line in shown("list", "gpus").splitlines() if "H100-SXM5-80GB" in line)
    assert "1830" in line


def test_list_metrics_shows_every_metric() -> None:
    text = shown("list", "metrics")
    for spec in metrics.every_metric():
        assert spec.shown_name in text


def test_what_is_known_is_listed() -> None:
    assert "DeepseekV3ForCausalLM                      closed form deepseek; executed" in shown(
        "list", "architectures"
    )
    text = shown("list", "conventions")
    assert (
        "kaplan      Kaplan et al. (OpenAI): the rows of their table 1, in FLOPs per token.\n"
        in text
    )
