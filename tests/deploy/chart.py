"""Renders the Helm chart with every Helm that is here, as the tests need it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "ofu-exporter"
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
Object = dict[str, Any]
LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C, where it is: the rules are long."""
DUMPER: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def tool(name: str) -> str | None:
    """A program beside the interpreter, where tests/run puts them, or on the PATH."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return shutil.which(name, path=os.pathsep.join(folders))


def need(name: str) -> str:
    """The same; skips the test where it is not."""
    found = tool(name)
    if found is None:
        pytest.skip(f"needs {name}, which tests/run installs")
    return found


_HELMS = [path for path in map(tool, ("helm", "helm3", "helm4")) if path]
_MISSING = pytest.mark.skip(reason="needs helm, which tests/run installs")
HELMS = [
    *(pytest.param(path, id=Path(path).name) for path in _HELMS),
    *([] if _HELMS else [pytest.param("helm", marks=_MISSING)]),
]


def helms() -> list[str]:
    """All of them; skips the test where there is none."""
    return _HELMS or [need("helm")]


def any_helm() -> str:
    """One of them; skips the test where there is none."""
    return helms()[0]


def run(*command: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "GOGC": "off"},  # Helm ends before it needs memory back
    )


def template(helm: str, values: Object) -> subprocess.CompletedProcess[str]:
    return _template(helm, yaml.dump(values, Dumper=DUMPER), CHART)


def _template(helm: str, text: str, chart: Path) -> subprocess.CompletedProcess[str]:
    return run(
        helm, "template", "ofu", chart, "--namespace", "monitoring", "--values", "-", text=text
    )


def refused(helm: str, values: Object) -> set[tuple[str, str]]:
    """What a Helm says of values that the chart's schema does not allow, by their places: each place, and why."""
    places = {re.sub(r"\.(\d)", r"[\1]", place): json.dumps(values[place]) for place in values}
    given = (word for place in places for word in ("--set-json", f"{place}={places[place]}"))
    done = run(helm, "template", "ofu", CHART, *given)
    assert done.returncode != 0
    said = re.findall(r"^ *- (?:at ')?(.*?)'?: (.*)$", done.stderr, re.M)
    return {(re.sub(r"\(root\)|^/", "", place).replace("/", "."), why) for place, why in said}


def render(helm: str, values: Object, chart: Path = CHART) -> list[Object]:
    """The objects that a release has with these values, for reading only: other tests have the same."""
    return _rendered(helm, yaml.dump(values, Dumper=DUMPER), chart)


@cache
def _rendered(helm: str, text: str, chart: Path) -> list[Object]:
    done = _template(helm, text, chart)
    assert done.returncode == 0, done.stderr
    return [loaded for loaded in yaml.load_all(done.stdout, Loader=LOADER) if loaded]


def only(objects: list[Object], kind: str) -> Object:
    (found,) = (each for each in objects if each["kind"] == kind)
    return found


def kinds(objects: list[Object]) -> list[str]:
    return sorted(each["kind"] for each in objects)


def pod_of(each: Object) -> Object | None:
    """The pod that an object is or makes: metadata and spec."""
    if each["kind"] == "Pod":
        return each
    spec = each.get("spec", {})
    if each["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    pod: Object | None = spec.get("template")
    return pod


def pods(objects: list[Object]) -> list[Object]:
    return [pod for pod in map(pod_of, objects) if pod is not None]


def container(objects: list[Object]) -> Object:
    """The exporter's own."""
    found: Object = pod_spec(objects)["containers"][0]
    assert found["name"] == "ofu-exporter"
    return found


def pod_spec(objects: list[Object]) -> Object:
    """What the exporter's pods are."""
    spec: Object = only(objects, "DaemonSet")["spec"]["template"]["spec"]
    return spec


def node_terms(spec: Object) -> list[Object]:
    """One of these terms a node must fit."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms: list[Object] = spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    return terms
