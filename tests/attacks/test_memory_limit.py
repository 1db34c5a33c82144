"""The group of the attacks ends what takes more than its limit, and says so."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from tests.attacks.memory_limit import MemoryLimit, memory_limit

pytestmark = pytest.mark.slow


@pytest.fixture
def group() -> Iterator[MemoryLimit]:
    limit = memory_limit(64, f"ofu-test-{uuid.uuid4().hex}")
    try:
        made = limit.__enter__()
    except OSError as error:
        pytest.skip(f"no group can be made here: {error}")
    yield made
    limit.__exit__(None, None, None)


def taking(group: MemoryLimit, mib: int) -> int:
    command = group.command([sys.executable, "-c", f"bytearray({mib} << 20)"])
    return subprocess.run(command, check=False, timeout=300).returncode


def test_what_stays_below_the_limit_lives_and_is_counted(group: MemoryLimit) -> None:
    assert taking(group, 30) == 0
    assert 30 < group.peak_mib() <= 64
    assert group.oom_kills() == 0


def test_what_goes_beyond_the_limit_is_killed_and_counted(group: MemoryLimit) -> None:
    assert taking(group, 200) == -signal.SIGKILL
    assert group.peak_mib() == pytest.approx(64, abs=1)
    assert group.oom_kills() == 1
