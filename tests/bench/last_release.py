"""Finds the last release in git, and lays its code beside today's in folders where both can run.

The last release is the newest tag v* of a commit before this one. While there is none, it is the commit that
last_release.yaml names.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("ofu_exporter", "tests")
"""The package, and the tests' helpers that know how to call it."""
PROGRAM = """import sys
sys.meta_path[:] = [each for each in sys.meta_path if "__editable__" not in str(each.__module__)]
import ofu_exporter
assert ofu_exporter.__file__.startswith(sys.path[0]), ofu_exporter.__file__
if sys.argv[1].endswith(".py"):
    import runpy
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
else:
    from ofu_exporter.__main__ import main
    main()
"""
"""What `python FOLDER` runs: the command, or a program that imports the code, of that folder and no other.

Where the package is installed as editable, what a folder lacks would come from the working tree.
"""


class NoReleaseError(Exception):
    """There is no code to compare with, and why."""


def git(root: Path, *words: str) -> bytes:
    """What git prints."""
    try:
        return subprocess.run(
            ("git", "-C", str(root), *words), capture_output=True, check=True
        ).stdout
    except FileNotFoundError as error:
        raise NoReleaseError("git is not installed") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip() or f"git {words[0]} failed"
        raise NoReleaseError(said.splitlines()[0]) from error


def last_release(root: Path, commit: str | None) -> str:
    """The newest tag before this commit, or the commit that is named."""
    if git(root, "rev-parse", "--show-prefix").strip():
        raise NoReleaseError(f"{root} is a part of another repository")
    newest_first = ("-c", "versionsort.suffix=-", "tag", "--sort=-version:refname")
    before = ("--list", "v[0-9]*", "--merged", "HEAD", "--no-contains", "HEAD")
    tags = git(root, *newest_first, *before).decode().split()
    if tags:
        return tags[0]
    if commit is None:
        raise NoReleaseError("no tag v* before this commit")
    try:
        git(root, "cat-file", "-e", f"{commit}^{{commit}}")
    except NoReleaseError as error:
        raise NoReleaseError(f"no tag v* and no commit {commit} in this clone") from error
    return commit


def lay_out_release(root: Path, release: str, folder: Path) -> None:
    """The code of a tag or commit."""
    archive = git(root, "archive", "--format=zip", release, *PARTS)
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        packed.extractall(folder)
    make_runnable(folder)


def lay_out_today(root: Path, folder: Path) -> None:
    """The code of the working tree, with what is not committed."""
    for part in PARTS:
        shutil.copytree(root / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    make_runnable(folder)


def make_runnable(folder: Path) -> None:
    (folder / "__main__.py").write_text(PROGRAM)
