"""What a process of its own takes: descriptors up to its limit, and one heap for all threads without large blocks."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from ofu_exporter.agent.process import MOST_DESCRIPTORS, keep_heap_small

PROGRAM = """
import sys, threading
from ofu_exporter.agent.process import keep_heap_small
if sys.argv[1] == "one":
    assert keep_heap_small()
all_there = threading.Barrier(9)
def work():
    kept = [bytes(100_000) for _ in range(10)]
    all_there.wait(20)
    all_there.wait(20)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
all_there.wait(20)
# A heap of a thread is mapped with 64 MiB of addresses, at a multiple of that (glibc, HEAP_MAX_SIZE).
starts = [int(line.split("-")[0], 16) for line in open("/proc/self/maps")]
print(sum(start % (64 << 20) == 0 for start in starts))
all_there.wait(20)
"""


def printed(program: str, how: str) -> float:
    """The number that a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, how],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return float(done.stdout)


def heaps(how: str) -> float:
    return printed(PROGRAM, how)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_threads_have_no_heaps_of_their_own() -> None:
    assert heaps("one") < heaps("many")


def test_without_such_a_setting_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert not keep_heap_small()


HOLES = """
import sys
from pathlib import Path
from ofu_exporter.agent.process import keep_heap_small
if sys.argv[1] == "settings":
    assert keep_heap_small()
def mib(): return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20
bytes(1 << 20)  # freed at once: from now on glibc itself takes blocks of this size from the heap
before = mib()
large, small = [], []
for _ in range(200):
    large.append(b"x" * 250_000)
    small.append(b"x" * 20_000)  # stays above it in the heap: all of them are more than lies free there
del large
print(mib() - before)
"""


def left(how: str) -> float:
    """MiB that large blocks leave behind where a small one lies above each, with the 4 MiB of these."""
    return printed(HOLES, how)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_large_blocks_leave_no_holes_behind() -> None:
    assert left("settings") < 10
    assert left("none") > 20


SHOW = (
    "import resource; from ofu_exporter.agent.process import raise_descriptor_limit as go; "
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
