"""Runs rule tests with promtool: the files of this folder as they are, or tests that are made on the way."""

from __future__ import annotations

import functools
import glob
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import promql_parser
import yaml

from tests.deploy.chart import LOADER

ROOT = Path(__file__).parents[2]
FILES = ROOT / "helm" / "ofu-exporter" / "files"
ALERTS = sorted((FILES / "alerts").glob("*.yaml"))
RULES = sorted((FILES / "rules").glob("*.yaml"))
ORDER = [
    *("ofu-target", "ofu-gpus", "ofu-models", "ofu-jobs", "ofu-job-gpus", "ofu-serving"),
    *("ofu-owners", "ofu-baselines", "ofu-clocks", "ofu-activity", "ofu-gpu-half-hours"),
    "ofu-hours",
]
"""Groups as they build on each other, which tests are run in: promtool evaluates them in no order of its own."""


def read_yaml(path: Path) -> Any:
    return yaml.load(path.read_text(), Loader=LOADER)


def groups(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_yaml(path)["groups"]
    return found


def the_alert(path: Path) -> dict[str, Any]:
    """The one alert of an alert file."""
    ((rule,),) = (group["rules"] for group in groups(path))
    assert isinstance(rule, dict)
    return rule


def selected(expression: str) -> set[str]:
    """Every metric name that an expression reads, where patterns are lists of names."""
    return {name for pattern in patterns(expression) for name in pattern.split("|")}


def patterns(expression: str) -> set[str]:
    """The names and patterns by which an expression chooses metrics."""
    found: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            if node.name:
                found.add(node.name)
            for matcher in node.matchers.matchers:
                if matcher.name == "__name__":
                    found.add(matcher.value)
        for part in ("expr", "lhs", "rhs", "vs", "vector_selector", "args", "param"):
            inner = getattr(node, part, None)
            for one in inner if isinstance(inner, list) else [inner]:
                if one is not None:
                    walk(one)

    walk(promql_parser.parse(expression))
    return found


def said(path: Path) -> str:
    """What promtool says about a file of tests: SUCCESS, or what it got instead.

    Rules that nothing in the tests reads are left out: promtool would evaluate each of them every minute. `<<a|b>>` is
    `a` before Prometheus 3 and `b` since, whose ranges leave out a sample at their begin.
    """
    whole = read_yaml(path)
    fed = [each["values"] for test in whole["tests"] for each in test["input_series"]]
    assert all(isinstance(each, str) for each in fed), "YAML reads 0x60 as 96: quote it"
    files = [file for name in whole["rule_files"] for file in glob.glob(str(path.parent / name))]
    kept = read_rules([groups(Path(file)) for file in sorted(files)], whole["tests"])
    with tempfile.TemporaryDirectory() as folder:
        rules, tests = Path(folder, "rules.yaml"), Path(folder, "test.yaml")
        rules.write_text(json.dumps({"groups": kept}))  # JSON is YAML
        ordered = {"group_eval_order": ORDER, **whole, "rule_files": [str(rules)]}
        tests.write_text(
            re.sub(r'"?<<(.*?)\|(.*?)>>"?', rf"\{1 + is_newer()}", json.dumps(ordered))
        )
        done = subprocess.run(
            ["promtool", "test", "rules", str(tests)], capture_output=True, text=True, check=False
        )
    return "SUCCESS" if done.returncode == 0 else done.stdout + done.stderr


@functools.cache
def is_newer() -> bool:
    """Whether promtool is Prometheus 3's."""
    version = subprocess.run(["promtool", "--version"], capture_output=True, text=True, check=True)
    return "version 2." not in version.stdout


def read_rules(
    files: list[list[dict[str, Any]]], tests: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The groups with the rules that the alerts in them and the expressions of the tests read, directly or not."""
    every = [group for file in files for group in file]
    rules = [rule for group in every for rule in group["rules"]]
    asked = [rule["expr"] for rule in rules if "alert" in rule]
    asked += [check["expr"] for test in tests for check in test.get("promql_expr_test", ())]
    names: set[str] = set()
    while asked:
        wanted = re.compile("|".join(set().union(*map(patterns, asked))))
        new = [
            rule
            for rule in rules
            if (name := rule.get("record")) and name not in names and wanted.fullmatch(name)
        ]
        names |= {rule["record"] for rule in new}
        asked = [rule["expr"] for rule in new]
    kept = [
        {
            **group,
            "rules": [rule for rule in group["rules"] if rule.get("record") in {None, *names}],
        }
        for group in every
    ]
    return [group for group in kept if group["rules"]]


def run(tests: list[dict[str, Any]], folder: Path, alert: Path | None = None) -> str:
    """The same about tests that stand in no file, over all rules and one alert."""
    wanted = {
        "rule_files": [str(path) for path in (*RULES, *([alert] if alert else []))],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", **test} for test in tests],
    }
    path = folder / "test.yaml"
    path.write_text(json.dumps(wanted))  # JSON is YAML
    return said(path)
