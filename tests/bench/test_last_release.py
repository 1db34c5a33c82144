"""The last release is found in real repositories, and its code runs in a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.last_release import NoReleaseError, last_release, lay_out_release, lay_out_today

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
MAIN = "from ofu_exporter import __version__\ndef main() -> None:\n    print(__version__)\n"


class Repository:
    """A repository with a program of one line."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for part in ("ofu_exporter", "tests"):
            (root / part).mkdir(parents=True)
        (root / "tests" / "__init__.py").touch()
        (root / "ofu_exporter" / "__main__.py").write_text(MAIN)
        self.git("init", "--quiet")

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=n@example.com")
        command = ("git", "-C", str(self.root), *identity, *words)
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, version: str, tag: str | None = None) -> str:
        (self.root / "ofu_exporter" / "__init__.py").write_text(f"__version__ = {version!r}\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", version)
        if tag:
            self.git("tag", tag)
        return self.git("rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of git's but its own."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_the_newest_tag_wins_over_the_commit_that_is_named(repository: Repository) -> None:
    named = repository.commit("1")
    repository.commit("2", "v0.2.0")
    repository.commit("3", "v0.10.0")
    repository.commit("4")
    assert last_release(repository.root, named) == "v0.10.0"


def test_a_release_is_compared_with_the_one_before(repository: Repository) -> None:
    repository.commit("1", "v1.0.0")
    repository.commit("2", "v1.1.0")
    assert last_release(repository.root, None) == "v1.0.0"


def test_a_release_is_newer_than_its_candidate(repository: Repository) -> None:
    repository.commit("1", "v1.0.0-rc1")
    repository.commit("2", "v1.0.0")
    repository.commit("3")
    assert last_release(repository.root, None) == "v1.0.0"


def test_a_tag_of_another_branch_and_a_tag_that_is_no_version_are_none(
    repository: Repository,
) -> None:
    named = repository.commit("1", "vendor")
    repository.git("checkout", "--quiet", "-b", "other")
    repository.commit("2", "v9.0.0")
    repository.git("checkout", "--quiet", named)
    repository.commit("3")
    assert last_release(repository.root, named) == named


def test_without_a_tag_and_a_commit_there_is_none(repository: Repository) -> None:
    repository.commit("1")
    with pytest.raises(NoReleaseError, match="no tag"):
        last_release(repository.root, None)


def test_a_commit_that_is_not_in_a_shallow_clone_is_none(
    repository: Repository, tmp_path: Path
) -> None:
    named = repository.commit("1", "v1.0.0")
    repository.commit("2")
    shallow = tmp_path / "shallow"
    url = f"file://{repository.root}"
    repository.git("clone", "--quiet", "--depth", "1", url, str(shallow))
    with pytest.raises(NoReleaseError, match=f"no tag v.* and no commit {named} in this clone"):
        last_release(shallow, named)


def test_what_is_no_repository_has_none(tmp_path: Path) -> None:
    with pytest.raises(NoReleaseError, match="not a git repository"):
        last_release(tmp_path, "HEAD")


def test_tags_of_a_repository_around_it_are_none_of_its(repository: Repository) -> None:
    repository.commit("1", "v1.0.0")
    repository.commit("2")
    inner = repository.root / "unpacked"
    inner.mkdir()
    with pytest.raises(NoReleaseError, match="part of another repository"):
        last_release(inner, None)


def test_without_git_there_is_none(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoReleaseError, match="git is not installed"):
        last_release(repository.root, None)


def test_each_folder_runs_its_own_code(repository: Repository, tmp_path: Path) -> None:
    repository.commit("released", "v1.0.0")
    repository.commit("committed")
    (repository.root / "ofu_exporter" / "__init__.py").write_text("__version__ = 'edited'\n")
    before, today = tmp_path / "before", tmp_path / "today"
    before.mkdir()
    lay_out_release(repository.root, "v1.0.0", before)
    lay_out_today(repository.root, today)
    assert [ran(before), ran(today)] == ["released", "edited"]


def test_a_folder_without_code_runs_no_other(tmp_path: Path, repository: Repository) -> None:
    """The package is installed here, and is not what a folder stands for."""
    repository.commit("released")
    lay_out_today(repository.root, tmp_path / "today")
    shutil.rmtree(tmp_path / "today" / "ofu_exporter")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        ran(tmp_path / "today")
    assert re.search(
        "No module named 'ofu_exporter'|AssertionError: .*ofu_exporter", caught.value.stderr
    )


def test_a_release_that_is_not_there_is_none(repository: Repository, tmp_path: Path) -> None:
    repository.commit("1")
    with pytest.raises(NoReleaseError, match="v7"):
        lay_out_release(repository.root, "v7", tmp_path)


def ran(folder: Path) -> str:
    command = (sys.executable, str(folder), "--version")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
