"""One heap for all threads: seen in the map of a process whose threads allocate."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from ofu_exporter.support.malloc_arenas import share_one_heap

PROGRAM = """
import sys, threading
from ofu_exporter.support.malloc_arenas import share_one_heap
if sys.argv[1] == "one":
    assert share_one_heap()
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


def heaps(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=60, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_threads_have_no_heaps_of_their_own() -> None:
    assert heaps("one") < heaps("many")


def test_without_such_a_setting_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert not share_one_heap()
