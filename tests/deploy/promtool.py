"""Runs rule tests in promtool's format, filled up with what would be the same in each of them.

A test file names neither rule files nor intervals, and of an alert neither its name, nor its severity, nor its
description: they are the rules' own, and only how they came about is tested.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILES = ROOT / "helm" / "ofu-exporter" / "files"
ALERTS = sorted((FILES / "alerts").glob("*.yaml"))
RULES = sorted((FILES / "rules").glob("*.yaml"))
ORDER = [
    *("ofu-target", "ofu-gpus", "ofu-models", "ofu-jobs", "ofu-job-gpus", "ofu-owners"),
    *("ofu-baselines", "ofu-clocks", "ofu-activity", "ofu-gpu-half-hours"),
    "ofu-hours",
]
"""Groups as they build on each other; promtool evaluates them in no order of its own."""


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def groups(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_yaml(path)["groups"]
    return found


def the_alert(path: Path) -> dict[str, Any]:
    """The one alert of an alert file."""
    ((rule,),) = (group["rules"] for group in groups(path))
    assert isinstance(rule, dict)
    return rule


def filled(test: dict[str, Any], alert: dict[str, Any] | None) -> dict[str, Any]:
    """A test with what goes without saying."""
    checks = [expectation(check, alert) for check in test.get("alert_rule_test", []) if alert]
    values = [rounded(check) for check in test.get("promql_expr_test", [])]
    return {"interval": "1m", **test, "alert_rule_test": checks, "promql_expr_test": values}


def rounded(check: dict[str, Any]) -> dict[str, Any]:
    """promtool compares to the last bit: ask for millionths."""
    samples = [{**one, "value": round(1e6 * one["value"])} for one in check["exp_samples"]]
    return {**check, "expr": f"round(1e6 * ({check['expr']}))", "exp_samples": samples}


def expectation(check: dict[str, Any], alert: dict[str, Any]) -> dict[str, Any]:
    expected = [
        {
            "exp_labels": {**one["exp_labels"], **alert["labels"]},
            "exp_annotations": {**alert["annotations"], "summary": one["summary"]},
        }
        for one in check["exp_alerts"]
    ]
    return {"eval_time": check["eval_time"], "alertname": alert["alert"], "exp_alerts": expected}


def run(tests: list[dict[str, Any]], folder: Path, alert: Path | None = None) -> str:
    """What promtool says about the tests: SUCCESS, or what it got instead."""
    rule = the_alert(alert) if alert else None
    files = [*RULES, alert] if alert else RULES
    wanted = {
        "rule_files": [str(path) for path in files],
        "evaluation_interval": "1m",
        "group_eval_order": ORDER,
        "tests": [filled(test, rule) for test in tests],
    }
    path = folder / "test.yaml"
    path.write_text(json.dumps(wanted))  # JSON is YAML
    done = subprocess.run(
        ["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False
    )
    return "SUCCESS" if done.returncode == 0 else done.stdout + done.stderr
