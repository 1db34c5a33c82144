"""The recording rules say what they should, by promtool's own tests, and can be read by what has to read them."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector

from ofu_exporter.fleet.history import queries
from ofu_exporter.serving import metrics
from tests.deploy.promtool import (
    ALERTS,
    ORDER,
    RULES,
    groups,
    read_rules,
    said,
    selected,
)
from tests.helpers.every import every

TESTS = sorted((Path(__file__).parent / "rules").glob("*.test.yaml"))
SPECS = list(metrics.every_metric())
KNOWN = {"up"} | {spec.shown_name for spec in SPECS}
KNOWN |= {
    f"{spec.name}_{part}" for spec in SPECS if spec.kind == "summary" for part in ("sum", "count")
}
KNOWN |= {
    sample.name
    for family in ProcessCollector(registry=CollectorRegistry()).collect()
    for sample in family.samples
}
"""What an agent's page has, and `up`."""

ALL = [
    (path.stem, rule)
    for path in (*RULES, *ALERTS)
    for group in groups(path)
    for rule in group["rules"]
]
RECORDED = [(file, rule) for file, rule in ALL if "record" in rule]
NAMES = {rule["record"] for _, rule in RECORDED}


def name(file: str, rule: dict[str, Any]) -> str:
    return f"{file}: {rule.get('record') or rule['alert']}"


def test_every_name_in_an_expression_is_seen() -> None:
    text = """topk by (x) (1, -a + on (x) group_left () (max_over_time(b{y="1"}[5m]) > bool 0)) or
        label_replace({__name__=~"c|d"}, "x", "$1", "y", "z") unless last_over_time(e[5m:1m] offset 1h)"""
    assert selected(text) == set("abcde")


@pytest.mark.slow
@pytest.mark.prometheus
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_the_rules_say(path: Path) -> None:
    assert said(path) == "SUCCESS"


@pytest.mark.slow
@pytest.mark.prometheus
@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_promtool_and_vmalert_read_them(path: Path) -> None:
    subprocess.run(["promtool", "check", "rules", str(path)], check=True, capture_output=True)
    subprocess.run(["vmalert", "-dryRun", f"-rule={path}"], check=True, capture_output=True)


def test_the_tests_know_every_group() -> None:
    named = {group["name"] for path in RULES for group in groups(path)}
    assert named ^ {*ORDER} == set(), "a group is in ORDER of promtool.py, below what it reads"


def test_alerts_see_what_rules_record_until_they_record_it_again() -> None:
    """vmalert records a time up to an interval after it, and is asked for what is less than five minutes old."""
    intervals = {group["interval"] for path in RULES for group in groups(path)} - {"1h"}
    assert all(2 * int(each.removesuffix("m")) < 5 for each in intervals)


def test_all_hours_that_a_report_adds_up_are_of_one_group() -> None:
    """Each group has its own minute of the hour, and shares of hours that differ would be of nothing."""
    asked = (*queries.JOB_HOURS, *queries.MODEL_HOURS, *queries.JOBLESS, queries.JOB_MODELS)
    named = " ".join(each.recorded for each in asked)
    where = {
        group["name"]
        for path in RULES
        for group in groups(path)
        for rule in group["rules"]
        if re.search(rf"{rule['record']}(?![\w:])", named)
    }
    assert where == {"ofu-hours"}


def test_no_rule_of_an_hour_builds_on_another_of_that_hour() -> None:
    """vmalert writes what a rule records after the next has been evaluated; an hour later it is too old."""
    for group in (each for path in RULES for each in groups(path) if each["interval"] == "1h"):
        recorded = {rule["record"] for rule in group["rules"]}
        assert {
            rule["record"] for rule in group["rules"] if selected(rule["expr"]) & recorded
        } == set()


def test_what_reads_what_tells_of_a_minute_waits_until_vmalert_has_written_it() -> None:
    """Else it would mix two minutes, or lack one of those beside it or the last of an hour."""
    minutes = "|".join(name for name in NAMES if name.endswith("1m"))
    read = {
        rule["record"]: re.findall(rf"(?:{minutes})(\S* offset \dm)?", rule["expr"])
        for _, rule in RECORDED
    }
    assert read["job:watched_gpu_hours:sum1h"] == ["[59m59s999ms] offset 1m"] * 2
    assert [name for name, offsets in read.items() if not all(offsets)] == []


def test_no_rule_is_recorded_twice() -> None:
    assert [
        one for one, count in Counter(rule["record"] for _, rule in RECORDED).items() if count > 1
    ] == []


@every(RECORDED, name)
def test_its_name_is_level_metric_and_operations(file: str, rule: dict[str, Any]) -> None:
    levels = (
        "job|job_gpu|job_model|gpu|node|model|owner|user|account|partition|namespace|cluster|fleet"
    )
    assert re.fullmatch(rf"({levels}):[a-z0-9_]+:[a-z0-9_]+", rule["record"])


@every(ALL, name)
def test_it_reads_what_exists(file: str, rule: dict[str, Any]) -> None:
    assert selected(rule["expr"]) <= KNOWN | NAMES


@every(ALL, name)
def test_a_join_has_one_series_on_its_one_side(file: str, rule: dict[str, Any]) -> None:
    """What group_left takes labels from is cut to one series for what it's matched on."""
    for on, one_side in re.findall(
        r"on \(([^)]*)\)\s+group_left \([^)]*\)\s+\(?(\w+ by \([^)]*\) \(\s*1,|sum by \([^)]*\)|max\(|job:\w+:\w+)",
        rule["expr"],
    ):
        if on and not one_side.startswith("job:"):
            assert one_side.startswith((f"topk by ({on})", f"sum by ({on})"))
    joins = len(re.findall("group_left", rule["expr"]))
    seen = len(re.findall(r"group_left \([^)]*\)\s+\(?(?:topk by|sum by|max\(|job:)", rule["expr"]))
    assert seen == joins


@every(ALL, name)
def test_no_level_is_a_mean_of_ratios(file: str, rule: dict[str, Any]) -> None:
    assert not re.search(r"avg by[^(]*\([^)]*\) \([^)]*:(ratio|mfu|ofu)", rule["expr"])


def test_rules_that_no_test_reads_are_left_out_and_those_that_rules_read_are_not() -> None:
    made = {"a": "x", "b": "a + 1", "user:c": "1", "other:c": "2", "unread": "b"}
    rules = [{"record": name, "expr": expr} for name, expr in made.items()]
    files = [[{"name": "g", "rules": rules}, {"name": "h", "rules": rules[-1:]}]]
    asked = [{"promql_expr_test": [{"expr": '{__name__=~"(user|model):c"} + b'}]}]
    (group,) = read_rules(files, asked)
    assert (group["name"], [rule["record"] for rule in group["rules"]]) == (
        "g",
        ["a", "b", "user:c"],
    )
    alert = {"alert": "A", "expr": "other:c > 1"}
    (group,) = read_rules([[{"name": "g", "rules": [*rules, alert]}]], [{}])
    assert [rule.get("record") for rule in group["rules"]] == ["other:c", None]
