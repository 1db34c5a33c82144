"""What pip makes of a checkout: what is there now, with its data and its licence, whatever was built before."""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest

from ofu_exporter.cli.files import PLACES
from tests.deploy.chart import ROOT

pytestmark = pytest.mark.slow

PACKAGE = "ofu_exporter"
PIP = [sys.executable, "-m", "pip", "--quiet"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it lies here, and what its build reads beside it."""
    copy = tmp_path_factory.mktemp("package") / "checkout"
    shutil.copytree(ROOT / PACKAGE, copy / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    for place in PLACES.values():
        shutil.copytree(ROOT / place, copy / place)
    return copy


@pytest.fixture(scope="module")
def wheels(checkout: Path) -> tuple[zipfile.Path, zipfile.Path]:
    """A wheel with a module more, and one that is made in the same place when that module is gone."""
    (backend,) = re.findall(r'^requires = \["(.*)"\]$', (ROOT / "pyproject.toml").read_text(), re.M)
    subprocess.run([*PIP, "install", "--target", checkout.parent / "backend", backend], check=True)
    gone = checkout / PACKAGE / "gone.py"
    gone.touch()
    before = built(checkout, checkout.parent / "before")
    gone.unlink()
    return before, built(checkout, checkout.parent / "after")


def built(checkout: Path, target: Path) -> zipfile.Path:
    """Without isolation, for which pip would install the backend anew each time."""
    environment = {**os.environ, "PYTHONPATH": str(checkout.parent / "backend")}
    words = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(target), str(checkout)]
    subprocess.run(words, env=environment, check=True)
    return zipfile.Path(next(target.glob("*.whl")))


def names(wheel: zipfile.Path) -> set[str]:
    files = (name for name in wheel.root.namelist() if not name.endswith("/"))
    return {name for name in files if name.startswith(f"{PACKAGE}/")}


def test_a_module_that_was_deleted_is_not_in_the_next_wheel(
    wheels: tuple[zipfile.Path, zipfile.Path],
) -> None:
    before, after = wheels
    assert names(before) - names(after) == {f"{PACKAGE}/gone.py"}


def test_a_wheel_has_the_package_with_its_data_and_nothing_else(
    checkout: Path, wheels: tuple[zipfile.Path, zipfile.Path]
) -> None:
    files = {path for path in (checkout / PACKAGE).rglob("*") if path.is_file()}
    beside = {
        f"{PACKAGE}/files/{name}/{path.relative_to(ROOT / place)}"
        for name, place in PLACES.items()
        for path in (ROOT / place).rglob("*")
        if path.is_file()
    }
    assert names(wheels[1]) == {str(path.relative_to(checkout)) for path in files} | beside
    assert {f"{PACKAGE}/py.typed", f"{PACKAGE}/fleet/specs/small.yaml"} <= names(wheels[1])
    others = {name.partition("/")[0] for name in wheels[1].root.namelist()} - {PACKAGE}
    assert [name.endswith(".dist-info") for name in others] == [True]


def test_files_are_written_by_an_installed_wheel_as_they_lie_here(
    wheels: tuple[zipfile.Path, zipfile.Path], tmp_path: Path
) -> None:
    """Unpacked as pip does, far from any checkout."""
    site, target = tmp_path / "site", tmp_path / "made"
    wheel = str(wheels[1].root.filename)
    subprocess.run([*PIP, "install", "--no-deps", "--target", site, wheel], check=True)
    subprocess.run(
        [sys.executable, "-m", PACKAGE, "files", str(target)],
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=tmp_path,
        check=True,
    )
    for name, place in PLACES.items():
        compared = filecmp.dircmp(target / name, ROOT / place)
        assert (compared.left_only, compared.right_only, compared.diff_files) == ([], [], [])
    assert os.access(target / "slurm" / "prolog.sh", os.X_OK)


def test_a_wheel_says_its_licence_and_has_its_text(
    wheels: tuple[zipfile.Path, zipfile.Path],
) -> None:
    (info,) = (each for each in wheels[1].iterdir() if each.name.endswith(".dist-info"))
    metadata: Message = HeaderParser().parsestr((info / "METADATA").read_text())
    assert (metadata["License-Expression"], metadata["License-File"]) == ("Apache-2.0", "LICENSE")
    text = (info / "licenses" / "LICENSE").read_text()
    assert text == (ROOT / "LICENSE").read_text()
