"""The workflows are right in form, give no right that is not needed, and run nothing that can be changed unseen."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.chart import ROOT, run

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS: dict[str, Any] = {
    path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yml"))
}
JOBS = [
    (name, job, WORKFLOWS[name]["jobs"][job])
    for name in WORKFLOWS
    for job in WORKFLOWS[name]["jobs"]
]
WRITES = {
    ("release", "index"): {"id-token"},
    ("release", "registry"): {"packages", "id-token", "attestations"},
    ("release", "files"): {"contents", "id-token", "attestations"},
}
"""What jobs may do beside reading the repository."""


def program(name: str) -> str:
    beside = Path(sys.executable).parent / name
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def test_actionlint_has_nothing_to_say() -> None:
    done = run(program("actionlint"), "-shellcheck=", "-pyflakes=", *FOLDER.glob("*.yml"))
    assert (done.returncode, done.stdout) == (0, "")


def test_zizmor_has_nothing_to_say() -> None:
    done = run(program("zizmor"), "--offline", "--no-config", ROOT / ".github")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("tool", ["actionlint", "zizmor"])
def test_a_mistake_would_be_seen(tool: str, tmp_path: Path) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    text = (FOLDER / "tests.yml").read_text()
    wrong = text.replace("persist-credentials: false", "persist-credentials: ${{ matrix.no }}")
    (folder / "tests.yml").write_text(re.sub(r"@[0-9a-f]{40} # \S+", "@v1", wrong))
    words: dict[str, list[str | Path]] = {
        "actionlint": ["-shellcheck=", "-pyflakes=", folder / "tests.yml"],
        "zizmor": ["--offline", "--no-config", tmp_path / ".github"],
    }
    assert run(program(tool), *words[tool]).returncode != 0


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_action_is_pinned_by_its_commit_with_the_version_beside_it(name: str) -> None:
    text = (FOLDER / f"{name}.yml").read_text()
    used = re.findall(r"uses: (.+)", text)
    assert used
    for each in used:
        assert each.startswith("./.github/workflows/") or re.fullmatch(
            r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each
        ), each


def test_an_action_is_pinned_at_one_version_everywhere() -> None:
    pins: dict[str, set[str]] = {}
    for path in FOLDER.glob("*.yml"):
        for action, pin in re.findall(r"uses: ([\w-]+/[\w-]+)@(.+)", path.read_text()):
            pins.setdefault(action, set()).add(pin)
    assert {action: found for action, found in pins.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_has_no_right_by_itself(name: str) -> None:
    assert WORKFLOWS[name]["permissions"] == {}


@pytest.mark.parametrize(
    ("name", "job", "body"), JOBS, ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_job_may_write_only_what_it_publishes(name: str, job: str, body: Any) -> None:
    writes = {right for right, how in body["permissions"].items() if how != "read"}
    assert writes == WRITES.get((name, job), set())


def test_every_python_that_is_supported_is_tested() -> None:
    tested = WORKFLOWS["tests"]["jobs"]["everything"]["strategy"]["matrix"]["python"]
    assert tested == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    (oldest,) = re.findall(
        r'^requires-python = ">=(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M
    )
    assert tested[0] == oldest


def test_nothing_is_built_before_the_checks_nor_published_before_all_is_built() -> None:
    needs = {job: body.get("needs", []) for _, job, body in JOBS if _ == "release"}
    assert needs == {
        "check": [],
        "tests": "check",
        "build": "tests",
        "index": "build",
        "registry": "build",
        "files": ["index", "registry"],
    }
    (first, second) = [
        step["run"] for step in WORKFLOWS["release"]["jobs"]["check"]["steps"] if "name" in step
    ]
    assert first == "python -m deploy.project"
    assert second.startswith("python -m deploy.release ")
