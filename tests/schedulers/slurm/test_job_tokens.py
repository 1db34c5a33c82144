"""Jobs' tokens: made by the prolog for the job's user alone, gone with the job."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.slurm import hooks, job_files, job_tokens
from ofu_exporter.schedulers.slurm.hooks import Node

ENVIRON = {"SLURM_JOB_GPUS": "0", "SLURM_JOB_UID": str(os.geteuid()), "SLURM_JOB_START_TIME": "5"}
LATER = 2 * job_files.STALE_SECONDS

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "jobs", tmp_path / "tokens", tmp_path / "driver")


def start(node: Node, job_id: str = "7", **environ: str) -> None:
    hooks.start(node, job_id, {**ENVIRON, **environ}, lambda _: None, time.time())


def token(node: Node, job_id: str = "7") -> Path:
    assert node.tokens is not None
    return node.tokens / job_id


def digest(node: Node, job_id: str = "7") -> str:
    """As the agent has it."""
    files = job_files.read(node.directory)
    assert not files.refused
    return files.values[f"{job_id}.json"].claim.job.token_sha256


def test_the_file_holds_what_the_agent_knows_the_digest_of(node: Node) -> None:
    start(node)
    text = token(node).read_text().strip()
    assert len(text) == 64
    assert digest(node) == hashlib.sha256(text.encode()).hexdigest()
    assert text not in (node.directory / "7.json").read_text()


@needs_root
def test_it_is_the_users_alone(node: Node) -> None:
    before = os.umask(0o077)
    try:
        start(node, SLURM_JOB_UID="4242")
    finally:
        os.umask(before)
    status = token(node).lstat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (4242, 0o400)
    assert stat.S_IMODE(token(node).parent.stat().st_mode) == 0o711


@needs_root
def test_the_user_reads_his_own_and_sees_no_others(tmp_path: Path, open_folder: Path) -> None:
    node = Node(open_folder / "jobs", open_folder / "tokens", tmp_path)
    assert _what_a_user_may(node) == ["yes", "no", "no"]


def _what_a_user_may(node: Node) -> list[str]:
    """Read his own token, read another's, list them."""
    start(node, "7", SLURM_JOB_UID="4242")
    start(node, "8", SLURM_JOB_UID="4243")
    code = (
        "import os, sys\nos.setgid(4242); os.setuid(4242)\n"
        "for do in (lambda: open(sys.argv[1]).read(), lambda: open(sys.argv[2]).read(),"
        " lambda: os.listdir(sys.argv[3])):\n"
        "    try:\n        do(); print('yes')\n    except PermissionError:\n        print('no')\n"
    )
    paths = [str(token(node, "7")), str(token(node, "8")), str(node.tokens)]
    told = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True
    )
    return told.stdout.split()


def test_a_requeued_job_gets_a_new_one(node: Node) -> None:
    start(node)
    before = digest(node)
    start(node)
    assert digest(node) != before
    assert digest(node) == hashlib.sha256(token(node).read_bytes().strip()).hexdigest()


@pytest.mark.parametrize("user_id", ["", "root", "-1", "²"])
def test_without_a_known_user_there_is_none(node: Node, user_id: str) -> None:
    start(node, SLURM_JOB_UID=user_id)
    assert digest(node) == ""
    assert not token(node).exists()


def test_a_job_without_a_gpu_has_none(node: Node) -> None:
    start(node, SLURM_JOB_GPUS="")
    assert not token(node).exists()


def test_it_goes_with_the_job(node: Node) -> None:
    start(node)
    hooks.stop(node, "7", lambda _: None, time.time())
    assert not token(node).exists()


def test_that_of_the_next_run_stays_with_its_file(node: Node) -> None:
    start(node)
    assert not hooks.stop(node, "7", lambda _: None, time.time(), is_aside=True)
    assert token(node).exists()
    assert digest(node)


def test_orphans_go_with_the_next_hook_and_new_ones_stay(node: Node) -> None:
    start(node, "7")
    start(node, "8", SLURM_JOB_GPUS="1")
    job_files.remove(node.directory, "7")
    token(node, "note").touch()
    hooks.stop(node, "9", lambda _: None, time.time())
    assert token(node, "7").exists(), "its own prolog may be at work"
    hooks.stop(node, "9", lambda _: None, time.time() + LATER)
    assert not token(node, "7").exists()
    assert token(node, "8").exists()
    assert token(node, "note").exists(), "what is none of ours is left alone"


def test_an_untrusted_directory_costs_the_token_not_the_job(node: Node) -> None:
    assert node.tokens is not None
    node.tokens.mkdir()
    node.tokens.chmod(0o777)
    with pytest.raises(SchedulerError, match="mode 777"):
        start(node)
    assert digest(node) == ""
    assert not token(node).exists()


def test_a_link_in_its_place_is_replaced_and_not_followed(node: Node, tmp_path: Path) -> None:
    start(node)
    precious = tmp_path / "precious"
    precious.write_text("data")
    token(node).unlink()
    token(node).symlink_to(precious)
    start(node)
    assert precious.read_text() == "data"
    assert not token(node).is_symlink()


def test_a_directory_that_is_a_link_is_refused(node: Node, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    token(node).parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SchedulerError):
        start(node)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("value", ["0" * 63, "0" * 65, "X" * 64, 7, None])
def test_a_digest_that_is_none_is_refused(node: Node, value: object) -> None:
    start(node)
    path = node.directory / "7.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "token_sha256": value}))
    assert [refusal.detail for refusal in job_files.read(node.directory).refused] == [
        "token_sha256 is no SHA-256"
    ]


def test_a_file_of_an_earlier_version_has_none(node: Node) -> None:
    start(node)
    path = node.directory / "7.json"
    digest_line = f', "token_sha256": "{digest(node)}"'
    path.write_text(path.read_text().replace(digest_line, ""))
    assert digest(node) == ""


def test_where_they_are_is_beside_the_job_files() -> None:
    assert job_tokens.beside(job_files.DIRECTORY) == Path("/run/ofu-exporter/tokens")
