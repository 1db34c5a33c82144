"""Programs that tests run and a machine may lack: a test of one that is not there is skipped, and the end says so."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

PROGRAMS = {
    **dict.fromkeys(("prometheus", "promtool"), "prometheus"),
    **dict.fromkeys(("prometheus-alertmanager", "amtool"), "prometheus-alertmanager"),
    **dict.fromkeys(("victoria-metrics", "vmalert"), "victoria-metrics"),
    "cc": "gcc",
    "git": "git",
    "chromium": "chromium",
    "groff": "groff-base",
    "shellcheck": "shellcheck",
    **dict.fromkeys(("systemd-analyze", "systemd-socket-activate"), "systemd"),
    "tmux": "tmux",
}
"""Debian's package of each; tests/run installs them where it may."""

OLDEST = {"prometheus": (2, 42), "victoria-metrics": (1, 79)}
"""Of the packages that tests marked `prometheus` need, the oldest that docs/releases.md promises to run with."""


@functools.cache
def outdated() -> str:
    """Why tests marked `prometheus` need not pass here: a package is older than promised; "" where none is.

    Ubuntu 22.04 has such ones: that Prometheus reads no shards, and that VictoriaMetrics refuses ranges of some rules.
    """
    if "CI" in os.environ or shutil.which("dpkg-query") is None:
        return ""
    command = ["dpkg-query", "--show", "--showformat=${Package} ${Version}\n", *OLDEST]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for package, major, minor in re.findall(r"^(\S+) (\d+)\.(\d+)", done.stdout, re.MULTILINE):
        if (int(major), int(minor)) < OLDEST[package]:
            oldest = ".".join(map(str, OLDEST[package]))
            return f"{package} is {major}.{minor} here, and {oldest} the oldest to run with"
    return ""


def absent(error: BaseException | None) -> str | None:
    """Why a test cannot run here, if it failed because one of these programs is not installed.

    Where CI is set they all have to be there, so that a build which lacks one fails.
    """
    if "CI" in os.environ:
        return None
    for each in _chain(error):
        name = os.path.basename(str(each.filename or ""))
        if name in PROGRAMS and shutil.which(name) is None:
            return f"{name} is not installed (Debian: {PROGRAMS[name]})"
    return None


def has_flag(program: str, flag: str) -> bool:
    """Whether the version that is installed lists this flag."""
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    return flag in done.stdout + done.stderr


def _chain(error: BaseException | None) -> Iterator[FileNotFoundError]:
    """An error, what it came from, and what a group of them holds."""
    while error is not None:
        if isinstance(error, FileNotFoundError):
            yield error
        for each in getattr(error, "exceptions", ()):
            yield from _chain(each)
        error = error.__cause__ or error.__context__


def skipped_by_reason(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """A line for each reason why tests were skipped, with their number, the most frequent first."""
    reasons = (each.longrepr[2] for each in reports if isinstance(each.longrepr, tuple))
    counted = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    return [f"{number:6} skipped: {reason}" for reason, number in counted.most_common()]
