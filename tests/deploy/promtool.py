"""Runs rule tests with promtool: the files of this folder as they are, or tests that are made on the way."""

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


def said(path: Path) -> str:
    """What promtool says about a file of tests: SUCCESS, or what it got instead."""
    done = subprocess.run(
        ["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False
    )
    return "SUCCESS" if done.returncode == 0 else done.stdout + done.stderr


def run(tests: list[dict[str, Any]], folder: Path, alert: Path | None = None) -> str:
    """The same about tests that stand in no file, over all rules and one alert."""
    wanted = {
        "rule_files": [str(path) for path in (*RULES, *([alert] if alert else []))],
        "evaluation_interval": "1m",
        "group_eval_order": ORDER,
        "tests": [{"interval": "1m", **test} for test in tests],
    }
    path = folder / "test.yaml"
    path.write_text(json.dumps(wanted))  # JSON is YAML
    return said(path)
