"""The limit on descriptors is raised as far as it may be, in a process whose limits are given."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ofu_exporter.support.descriptors import MOST_DESCRIPTORS

SHOW = (
    "import resource; from ofu_exporter.support.descriptors import raise_descriptor_limit as go; "
    "resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard})); "
    "print(go(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
)


@pytest.mark.parametrize(
    ("soft", "hard", "wanted"),
    [(64, 64, 64), (256, 1000, 1000), (1024, 5000, MOST_DESCRIPTORS), (5000, 5000, 5000)],
)
def test_the_soft_limit_goes_up_to_the_hard_one_and_not_beyond_what_is_needed(
    soft: int, hard: int, wanted: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW.format(soft=soft, hard=hard)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(wanted), str(wanted), str(hard)]
