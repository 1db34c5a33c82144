"""The file that tells a job's next run, on other nodes, how far its steps had come."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ofu_exporter.client import Reporter
from ofu_exporter.client.identity import LONGEST_RUN
from ofu_exporter.client.steps_file import MOST_RUNS, StepsFile
from tests.doubles.report_agent import report_agent
from tests.doubles.slow_disk import slow_disk
from tests.helpers.agent import until


def test_the_next_run_tells_the_highest_step_whatever_became_of_the_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFU_EXPORTER_STEPS_FILE", str(tmp_path / "steps"))
    with Reporter(7, "http://127.0.0.1:1", every=0.02, run="llama") as first:
        for step in (90, 100):
            first.report(step=step)
    with report_agent() as node, Reporter(7, node.url, every=0.02, run="llama") as then:
        then.report(step=61)
        until(lambda: then.counts["accepted"] > 0)
        then.stage("rl")
        then.report(step=1)
    told = [(each["step"], each.get("reached")) for each in node.reports]
    assert told == [(61, 100), (1, None)]
    assert StepsFile(str(tmp_path / "steps")).reached("llama")["reached"] == 100


def test_a_run_with_the_longest_name_is_kept_too(tmp_path: Path) -> None:
    file = StepsFile(str(tmp_path / "steps"))
    file.keep("a" * LONGEST_RUN, 5)
    assert StepsFile(str(tmp_path / "steps")).reached("a" * LONGEST_RUN)["reached"] == 5


@pytest.mark.parametrize(
    "content",
    [
        *(b"[", b"[]", b"[" * 60_000, b'{"": -1}', b'{"": "9"}', b'{"": [9, 1e12]}', b"\xff"),
        *(b'{"": [1, NaN]}', b'{"": [1e308, 1.0]}', b'{"": [9007199254740992, 1.0]}', b"7" * 9000),
        *(
            b'{"": [-1, 1.0]}',
            b'{"model": "llama", "": [9, 1.0]}',
            b'{"%s": [9, 1.0]}' % (b"a" * 257),
        ),
        b"\0" * (1 << 20),
    ],
)
def test_what_is_none_of_ours_tells_nothing_and_is_never_replaced(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "steps"
    path.write_bytes(content)
    file = StepsFile(str(path))
    assert file.reached("") == {}
    with pytest.raises(OSError, match="stays as it is"):
        file.keep("", 5)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["steps"]
    path.write_bytes(b'{"": [9, 1.0]}')
    assert file.reached("") == {}, "it was not there when this run began"


def test_an_empty_file_is_written_and_tells_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "steps"
    path.touch()
    file = StepsFile(str(path))
    file.keep("", 5)
    file.keep("a" * 257, 5)  # an id that no agent takes
    assert file.reached("") == {}, "it was not there when this run began"
    assert StepsFile(str(path)).reached("")["reached"] == 5


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_holds_nobody_up_and_stays(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "steps"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    before = path.lstat()[:3]
    assert StepsFile(str(path)).reached("") == {}
    with pytest.raises(OSError, match=r"stays as it is|directory"):
        StepsFile(str(path)).keep("", 5)
    assert path.lstat()[:3] == before
    assert os.listdir(tmp_path) == ["steps"]


def test_a_full_disk_leaves_what_was_kept_and_nothing_beside_it(tmp_path: Path) -> None:
    """A limit on the size of files stands for it: a write fails in the same way, of any user."""
    StepsFile(str(tmp_path / "steps")).keep("", 5)
    before = (tmp_path / "steps").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            StepsFile(str(tmp_path / "steps")).keep("", 6)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "steps").read_bytes() == before
    assert os.listdir(tmp_path) == ["steps"]


KILLED = """
import os, signal, sys
from ofu_exporter.client.steps_file import StepsFile
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
StepsFile(sys.argv[1]).keep("", 5)
"""


def test_what_a_killed_run_left_is_gone_after_a_day(tmp_path: Path) -> None:
    steps = tmp_path / "a [0] run" / "steps"
    steps.parent.mkdir()
    assert subprocess.run([sys.executable, "-c", KILLED, str(steps)], check=False).returncode == -9
    (left,) = steps.parent.iterdir()
    other = steps.with_name("steps.of-somebody")
    other.touch()
    now = time.time()
    os.utime(left, (now - 80_000, now - 80_000))
    StepsFile(str(steps)).keep("", 6)
    assert left.exists(), "a slow disk may still be writing it"
    for each in (left, other):
        os.utime(each, (now - 90_000, now - 90_000))
    StepsFile(str(steps)).keep("", 7)
    assert sorted(os.listdir(steps.parent)) == ["steps", "steps.of-somebody"]


@pytest.mark.slow
def test_threads_that_write_at_once_never_leave_half_a_file(tmp_path: Path) -> None:
    def write(run: str) -> None:
        for step in range(200):
            StepsFile(str(tmp_path / "steps")).keep(run, step)

    with ThreadPoolExecutor() as pool:
        [*pool.map(write, "abcd")]
    reached = [StepsFile(str(tmp_path / "steps")).reached(run).get("reached") for run in "abcd"]
    assert 199 in reached, reached
    assert os.listdir(tmp_path) == ["steps"]


def test_what_another_node_of_the_same_run_writes_is_none_of_an_earlier_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFU_EXPORTER_STEPS_FILE", str(tmp_path / "steps"))
    StepsFile().keep("7", 70)
    with report_agent() as node, Reporter(7, node.url, every=0.02) as reporter:
        until(lambda: reporter._sender is not None and reporter._sender._steps._before is not None)
        StepsFile().keep("7", 100)
        reporter.report(step=0)
        until(lambda: reporter.counts["accepted"] > 0)
    assert [each.get("reached") for each in node.reports] == [70], "of a first step 0 too"


def test_a_folder_that_is_away_costs_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OFU_EXPORTER_STEPS_FILE", str(tmp_path / "none" / "steps"))
    with report_agent() as node, Reporter(7, node.url, every=0.02) as reporter:
        reporter.report(step=1)
        until(lambda: reporter.counts["accepted"] > 0)
    assert sum("OFU_EXPORTER_STEPS_FILE is not written" in line for line in caplog.messages) == 1


@pytest.mark.parametrize(("then", "reached"), [("7", 9), ("8", None)])
def test_without_the_id_of_a_run_only_the_same_job_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str, reached: int | None
) -> None:
    """Jobs of one script have one file, maybe, and an array's tasks."""
    monkeypatch.setenv("OFU_EXPORTER_STEPS_FILE", str(tmp_path / "steps"))
    with report_agent() as node:
        for job, step in (("7", 9), (then, 1)):
            with Reporter(job, node.url, every=0.02) as reporter:
                reporter.report(step=step)
                until(lambda: reporter.counts["accepted"] > 0)
    assert [each.get("reached") for each in node.reports] == [None, reached]


def test_a_step_that_was_far_too_high_by_mistake_tells_the_next_run_nothing(tmp_path: Path) -> None:
    file, other = (StepsFile(str(tmp_path / "steps")) for _ in "ab")
    for step in (10**12, 60, 110, 10**12):
        file.keep("", step)
    other.keep("", 120)
    assert StepsFile(str(tmp_path / "steps")).reached("")["reached"] == 10**12
    for step in (120, 130, 61):  # back from 130: a restart
        file.keep("", step)
    assert StepsFile(str(tmp_path / "steps")).reached("")["reached"] == 130


def test_of_many_runs_the_last_are_kept(tmp_path: Path) -> None:
    for number in range(MOST_RUNS + 3):
        StepsFile(str(tmp_path / "steps")).keep(str(number), number)
    file = StepsFile(str(tmp_path / "steps"))
    assert [file.reached(str(number)).get("reached") for number in (2, 3, MOST_RUNS + 2)] == [
        None,
        3,
        MOST_RUNS + 2,
    ]
    assert len(os.listdir(tmp_path)) == 1


def test_a_disk_that_hangs_costs_the_steps_and_no_report(tmp_path: Path) -> None:
    code = """if True:
        import sys, time
        from ofu_exporter.client import Reporter
        with Reporter(7, sys.argv[1], every=0.02) as job:
            for step in range(1, 4):
                job.report(step=step)
                while job.counts["accepted"] < step:
                    time.sleep(0.01)
    """
    names = (f"OFU_EXPORTER_{name}_FILE" for name in ("STEPS", "TOKEN", "CA"))
    env = {**dict.fromkeys(names, str(tmp_path / "file")), **slow_disk(tmp_path, seconds=1000)}
    with report_agent() as node:
        words = [sys.executable, "-c", code, node.url]
        done = subprocess.run(
            words, env=os.environ | env, capture_output=True, timeout=300, check=True
        )
    assert [each["step"] for each in node.reports] == [1, 2, 3]
    assert b"OFU_EXPORTER_STEPS_FILE is not written: the disk does not answer" in done.stderr
