"""Renders the Helm chart with every Helm that is here, as the tests need it."""

from __future__ import annotations

import os
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
        timeout=60,
        check=False,
    )


def template(helm: str, values: Object, chart: Path = CHART) -> subprocess.CompletedProcess[str]:
    text = yaml.safe_dump(values)
    return run(
        helm, "template", "ofu", chart, "--namespace", "monitoring", "--values", "-", text=text
    )


def render(helm: str, values: Object, chart: Path = CHART) -> list[Object]:
    """The objects that a release has with these values."""
    text = _rendered(helm, yaml.safe_dump(values)) if chart == CHART else _text(helm, values, chart)
    return [loaded for loaded in yaml.load_all(text, Loader=LOADER) if loaded]


@cache
def _rendered(helm: str, values: str) -> str:
    """What a Helm makes of the chart, once for all tests."""
    return _text(helm, yaml.safe_load(values), CHART)


def _text(helm: str, values: Object, chart: Path) -> str:
    done = template(helm, values, chart)
    assert done.returncode == 0, done.stderr
    return done.stdout


def only(objects: list[Object], kind: str) -> Object:
    (found,) = (each for each in objects if each["kind"] == kind)
    return found


def kinds(objects: list[Object]) -> list[str]:
    return sorted(each["kind"] for each in objects)


def pod_of(each: Object) -> Object | None:
    """The pod that an object is or makes: metadata and spec."""
    if each["kind"] == "Pod":
        return each
    pod: Object | None = each.get("spec", {}).get("template")
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
