"""A fresh checkout and Python alone: `./demo` serves the recording, or writes the report of a made-up month as the
README's second command does, and `tests/run` says what it could not run."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.helpers.agent import bare_environment

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
COPIED = ("demo", "pyproject.toml", "README.md", "LICENSE", "ofu_exporter", "helm", "deploy")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a user has: no virtual environment, and no git."""
    folder = tmp_path_factory.mktemp("fresh") / "with a space"
    folder.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc"))
        else:
            shutil.copy2(ROOT / name, folder / name)
    return folder


def served(process: subprocess.Popen[str]) -> str:
    """The address that stands last, once all is said."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Page: "):
            return line.split()[1]
    raise AssertionError(process.stderr.read() if process.stderr else "it ended")


def demo(checkout: Path, *args: str, cwd: Path = Path("/")) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [checkout / "demo", *args],
        cwd=cwd,
        env={**bare_environment(), "PYTHONUNBUFFERED": "1", "PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("visit", ["first", "again"])
def test_the_demo_serves_from_a_checkout_alone(checkout: Path, visit: str) -> None:
    with demo(checkout, "--port", "0") as process:
        try:
            address = served(process)
            with urllib.request.urlopen(f"{address}healthz", timeout=60) as answer:
                assert answer.status == 200
        finally:
            process.terminate()
        _, said = process.communicate(timeout=60)
    assert ("Installing into" in said) == (visit == "first")
    assert process.returncode == 0


def test_the_second_command_of_the_readme_writes_a_fleets_report(
    checkout: Path, tmp_path: Path
) -> None:
    command = re.findall(r"^    (\./demo.*?)(?:  +#.*)?$", README.read_text(), re.MULTILINE)[1]
    words = shlex.split(command)
    with demo(checkout, *words[1:], cwd=tmp_path) as process:
        said, complaints = process.communicate(timeout=120)
    assert process.returncode == 0, complaints
    file = tmp_path / words[words.index("--output") + 1]
    assert str(file.name) in said
    assert "SIMULATED, no GPU was measured" in file.read_text()
    assert "notebook of marie" in file.read_text()


@pytest.mark.parametrize(
    ("python", "said"),
    [
        ("no-such-python", "there is no no-such-python"),
        ("old", "Python 3.6.8 is too old"),
        ("bare", "python3-venv"),
    ],
)
def test_the_demo_names_what_it_lacks(
    checkout: Path, tmp_path: Path, python: str, said: str
) -> None:
    """Stand-ins for an old Python, and for Debian's without the package python3-venv."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    shutil.copy2(checkout / "demo", folder)
    old, bare = tmp_path / "old", tmp_path / "bare"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.6.8\nexit 1\n')
    bare.write_text(f'#!/bin/sh\n[ "$1" != -m ] || exit 1\nexec {sys.executable} "$@"\n')
    for path in (old, bare):
        path.chmod(0o755)
    done = subprocess.run(
        [folder / "demo"],
        env={
            **bare_environment(),
            "PYTHON": {"old": str(old), "bare": str(bare)}.get(python, python),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / ".venv").exists()


def outcome(folder: Path, *names: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Tests that need Prometheus, run where the PATH leads to the programs that are named alone."""
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or name)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/deploy/test_examples.py",
        ],
        cwd=ROOT,
        env={**bare_environment(env), "PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_a_machine_lacks_is_skipped_and_listed_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    done = outcome(tmp_path, "sh", env={})
    assert done.returncode == 0, done.stdout
    assert "skipped: promtool is not installed (Debian: prometheus)" in done.stdout


def test_a_prometheus_older_than_the_page_of_releases_promises_is_skipped_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    packages = tmp_path / "dpkg-query"
    packages.write_text("#!/bin/sh\necho prometheus 2.41.9+ds\necho victoria-metrics 1.79.5\n")
    packages.chmod(0o755)
    done = outcome(tmp_path, "sh", env={})
    assert "skipped: prometheus is 2.41 here, and 2.42 the oldest to run with" in done.stdout
    packages.write_text("#!/bin/sh\necho prometheus 2.42.0+ds\necho victoria-metrics 1.79.5\n")
    assert "skipped: promtool is not installed" in outcome(tmp_path, env={}).stdout
    promised = (ROOT / "docs" / "releases.md").read_text()
    assert "; Prometheus 2.42 to " in promised
    assert "; VictoriaMetrics 1.79 to " in promised


def test_where_ci_is_set_what_is_lacking_fails(tmp_path: Path) -> None:
    done = outcome(tmp_path, "sh", env={"CI": "true"})
    assert done.returncode == 1
    assert "No such file or directory: 'promtool'" in done.stdout
