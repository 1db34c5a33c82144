"""`pause` names each agent of this machine that the same file stops."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from ofu_exporter.cli import local_agents
from tests.helpers.agent import Agent, agent, call
from tests.helpers.passwords import hashed, web_file

pytestmark = pytest.mark.slow


def test_what_ends_meanwhile_and_a_kernel_without_ipv6_hide_no_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process, or a descriptor, that is gone since its folder was listed."""
    monkeypatch.setattr(local_agents, "PROC", tmp_path)
    for folder in ("7", "8/fd", "net"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "8/cmdline").write_bytes(b"/usr/bin/python\0/usr/bin/ofu-exporter\0run\0")
    (tmp_path / "8/fd/3").touch()
    (tmp_path / "net/tcp").write_text("  sl  local_address ...\n")
    (said,) = local_agents.other_agents(tmp_path / "pause", "http://127.0.0.1:9846")
    assert said.startswith("perhaps process 8,")


def running(file: Path, *flags: str) -> AbstractContextManager[Agent]:
    """An agent whose process has the words that a real one has."""
    of_file = ("run", "--source", "simulate", "--scheduler", "none", "--pause-file", str(file))
    return agent(*of_file, *flags, command=(sys.executable, "-m", "ofu_exporter"))


def test_a_pause_names_every_agent_that_it_stops_and_no_other(tmp_path: Path) -> None:
    file, other = tmp_path / "pause", tmp_path / "other"
    with running(file) as one, running(file) as two:
        with running(other) as third:
            done = call("pause", "--agent", one.url)
            assert (done.returncode, done.stderr) == (0, "")
            (paused, *others) = done.stdout.splitlines()
            assert paused.startswith(f"Paused: the agent at {one.url} on ")
            (named,) = [line for line in others if str(file) in line and "perhaps" not in line]
            assert two.url in named
            assert third.url not in done.stdout
            third.stop()
        two.stop()
        one.stop()


def test_an_agent_that_does_not_say_which_file_it_looks_for_is_named_as_a_process(
    tmp_path: Path,
) -> None:
    web = web_file(tmp_path / "web.yml", basic_auth_users={"ada": hashed("s3cret")})
    file, closing = tmp_path / "pause", ("--web.config.file", str(web))
    with running(file) as one, running(file, *closing) as closed:
        done = call("pause", "--agent", one.url)
        assert f"perhaps process {closed.process.pid}, which does not say" in done.stdout
        closed.stop()
        one.stop()
