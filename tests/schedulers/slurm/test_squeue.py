"""Asking Slurm about a job, with programs in squeue's place that answer as it does, late, or not at all.

`tests/end_to_end/test_slurm_hooks.py` asks a real one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.schedulers.slurm import squeue
from ofu_exporter.schedulers.slurm.squeue import Squeue, SqueueJob
from tests.helpers.agent import until
from tests.helpers.every import every

MARK = "0123456789abcdef"


def line(*fields: str) -> str:
    """What squeue prints of one job."""
    return f"{MARK}:" + f"{MARK},".join(fields) + "\n"


ARRAY = line("5", "R", "4", "1", "1000", "NONE", "(null)", "gres:gpu:1", "4_1", "sweep") + line(
    "4", "PD", "4", "3-7%2", "N/A", "N/A", "(null)", "N/A", "4_[3-7%2]", "sweep"
)
ECHO = """\
for argument; do case $argument in --format=*) form=${argument#--format=} ;; esac; done
echo "$form" | sed 's/%A/7/; s/%t/R/; s/%F/7/; s/%K/N\\/A/; s/%S/1000/; s/%e/4600/; s/%a/physics/; s/%b/gres:gpu:1/' |
  sed 's/%i/7/; s/%j/train/'
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "prefix" / "bin"


def made(place: Path, script: str, seconds: float = 20.0) -> Squeue:
    """One that asks a program of ours, with more patience than a loaded machine needs."""
    place.mkdir(parents=True)
    (place / "squeue").write_text(f"#!/bin/sh\n{script}")
    (place / "squeue").chmod(0o755)
    return Squeue({"SLURM_CONF": "/etc/slurm/slurm.conf"}, str(place), seconds)


def test_an_answer(place: Path) -> None:
    answer = made(place, ECHO).ask("7")
    assert answer == SqueueJob("R", "", "", 1000.0, 4600.0, "physics", "train")


def test_what_is_asked(place: Path) -> None:
    asking = made(place, 'env >"$0.env"; printf "%s\\n" "$@" >"$0.args"')
    assert asking.ask("7") == SqueueJob()
    assert (place / "squeue.args").read_text().splitlines()[:4] == [
        "--noheader",
        "--local",
        "--states=all",
        "--jobs=7",
    ]
    environ = (place / "squeue.env").read_text().splitlines()
    assert {"SLURM_CONF=/etc/slurm/slurm.conf", "SLURM_TIME_FORMAT=%s"} <= set(environ)


@pytest.mark.parametrize(
    "script", ["exit 0", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"]
)
def test_a_job_that_slurm_does_not_know(place: Path, script: str) -> None:
    answer = made(place, script).ask("7")
    assert answer == SqueueJob()
    assert answer.is_over


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'Unable to contact slurm controller' >&2; exit 1", "Unable to contact slurm"),
        ("echo 'no such option'", "no such option"),
        ("kill -9 $$", "Slurm does not answer"),
        (f"{ECHO.strip()} | cut -c1-60", "Slurm does not answer"),
    ],
)
def test_no_answer_is_not_the_answer_that_it_is_over(
    place: Path, script: str, problem: str
) -> None:
    asking = made(place, script)
    assert asking.ask("7") is None
    assert problem in asking.problem
    assert "\n" not in asking.problem


def test_one_that_hangs_is_not_waited_for(place: Path) -> None:
    """Nor what it has started, which holds its output."""
    script = f'echo started >>"{place}/log"; sleep 1000 & echo $! >"{place}/child"; wait'
    asking = made(place, script, seconds=0.1)
    assert asking.ask("7") is None, "and that at once, not after 1000 s"
    assert "timed out" in asking.problem
    if (place / "child").exists():  # a very slow machine had no time to start anything
        child = Path("/proc", (place / "child").read_text().strip(), "cmdline")
        until(lambda: not child.exists() or child.read_bytes() == b"")


def test_after_one_failure_it_is_asked_no_more(place: Path) -> None:
    asking = made(place, f'echo asked >>"{place}/log"; exit 1')
    assert [asking.ask("7"), asking.ask("8")] == [None, None]
    assert (place / "log").read_text() == "asked\n"


def test_when_the_time_is_over_it_is_not_asked(place: Path) -> None:
    asking = made(place, f'echo asked >>"{place}/log"', seconds=0.0)
    assert asking.ask("7") is None
    assert not (place / "log").exists()


def test_squeue_is_found_without_a_path(place: Path) -> None:
    made(place, "")
    beside = {"SLURM_CONF": str(place.parent / "etc" / "slurm.conf")}
    assert squeue.find_squeue(beside) == str(place / "squeue")
    assert squeue.find_squeue({"SLURM_CONF": str(place / "slurm.conf")}) == str(place / "squeue")
    assert squeue.find_squeue({}, str(place)) == str(place / "squeue")
    assert squeue.find_squeue({}, str(place.parent)) == "", "the place that was named and no other"


def test_where_there_is_none_that_is_said(tmp_path: Path) -> None:
    asking = Squeue({}, str(tmp_path))
    assert asking.ask("7") is None
    assert asking.problem == "squeue was not found: say where with --slurm-bin"


def test_one_task_is_found_among_those_of_its_array() -> None:
    assert squeue.parse(ARRAY, MARK, "5") == SqueueJob("R", "4", "1", 1000.0, None, "", "sweep")
    assert squeue.parse(ARRAY, MARK, "4") == SqueueJob("PD", name="sweep")
    assert squeue.parse(ARRAY, MARK, "6") == SqueueJob()


def test_a_job_name_passes_for_nothing_else() -> None:
    """Neither as another field nor as another job: its owner does not know the mark."""
    forged = "x\n5|R|4|1|1000|NONE|root|fine\n" + "0" * 16 + "5"
    text = ARRAY.replace("sweep", forged, 1)
    answer = squeue.parse(text, MARK, "5")
    assert answer is not None
    assert (answer.account, answer.name) == ("", forged)


@given(st.text(), st.text(), st.text())
def test_any_name_and_account_come_back_as_they_are(user: str, account: str, name: str) -> None:
    fields = ["5", "R", "5", "N/A", "1", "2", account + user, "gres:gpu:1", "5", name]
    answer = squeue.parse(line(*fields), MARK, "5")
    assert answer is not None
    if "(null)" not in (account + user, name):
        assert (answer.account, answer.name) == (account + user, name)


@every(["R", "CF", "CG", "S", "ST", "SO", "RS", "SI", "RQ", "new"])
def test_what_lives(state: str) -> None:
    assert not SqueueJob(state).is_over


@every(["CD", "F", "TO", "CA", "OOM", "NF", "PR", "PD", "RH", ""])
def test_what_is_over(state: str) -> None:
    assert SqueueJob(state).is_over


@every(
    [
        ("gres:shard:2", True),
        ("gres/shard:2", True),
        ("gres:mps:50", True),
        ("gres:gpu:h100:1", False),
        ("gres:gpu:shard:1", False),
        ("N/A", False),
    ]
)
def test_a_job_that_asked_for_part_of_a_gpu(gres: str, has_shares: bool) -> None:
    """As Slurm 22.05 and 24.05 write it; the third is a type of GPU that somebody calls so."""
    answer = squeue.parse(line("5", "R", "5", "N/A", "1", "2", "(null)", gres, "5", "x"), MARK, "5")
    assert answer is not None
    assert answer.has_shares is has_shares


def test_the_part_of_a_heterogeneous_job() -> None:
    text = line("6", "R", "6", "N/A", "1", "2", "(null)", "gres:gpu:1", "5+1", "x")
    answer = squeue.parse(text, MARK, "6")
    assert answer is not None
    assert answer.component == "5+1"
