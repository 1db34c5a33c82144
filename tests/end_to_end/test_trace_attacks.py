"""Processes that mean harm to traces on demand: what they send, and what they put where a file is to be."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.process import cpu_seconds, resident_mib
from tests.end_to_end.test_trace import EXAMPLE, JOB, NO_ADA, Process, ask, flags, traced
from tests.helpers.agent import agent, until
from tests.traces.test_daemon_messages import question, registration

pytestmark = NO_ADA

SECRET = "root:x:0:0"
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be two users")


@contextlib.contextmanager
def as_stranger(folder: Path, program: str, message: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """A program of another user, which sends a message."""
    sockets = folder / "s"
    said = (str(sockets / "dynoconfigclientx"), message.hex(), str(sockets / "dynolog"))
    command = ["setpriv", "--reuid", "65534", "--clear-groups", "/usr/bin/python3", "-c", program]
    with subprocess.Popen([*command, *said], stdout=subprocess.PIPE) as stranger:
        try:
            yield stranger
        finally:
            stranger.kill()


def bomb(path: Path) -> None:
    """A few hundred kilobytes that are a name of a quarter of a gigabyte."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"traceEvents": [{"name": "')
        for _ in range(256):
            file.write(b"x" * (1 << 20))


def four_gigabytes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(4 << 30)


def swapped(path: Path) -> None:
    """A trace that is a link by the time that it is read."""
    path.write_bytes(EXAMPLE.read_bytes())
    path.unlink()
    path.symlink_to("/etc/passwd")


HARM = {
    swapped: "symbolic links",
    os.mkfifo: "it is no regular file",
    four_gigabytes: "bytes, more than a node reads",
    bomb: "one value is longer than",
    lambda path: path.write_bytes(b'{"traceEvents": [' + b"[" * 1_000_000): "nested too deeply",
    lambda path: path.mkdir(): "it is no regular file",
}


def test_files_that_mean_harm_cost_a_sentence_each_and_the_job_nothing(tmp_path: Path) -> None:
    with traced(tmp_path) as running:
        some = [Process(tmp_path, pid=5000 + n, write=write) for n, write in enumerate(HARM)]
        time.sleep(1.0)
        before = resident_mib(running.process.pid)
        done = ask(tmp_path, "--format", "json")
        answer = json.loads(done.stdout)
        assert answer["trace"]["findings"][0]["finding"] == "data_loader"
        reasons = {name.split("_")[1]: why for name, why in answer["unread"].items()}
        for number, said in enumerate(HARM.values()):
            assert said in reasons[f"{5000 + number}.json"]
        assert SECRET not in done.stdout
        left = sorted((tmp_path / "t").iterdir())
        assert all(each.is_dir() or str(each) in answer["files"] for each in left)
        assert not any(each.is_symlink() or each.is_fifo() for each in left)
        assert resident_mib(running.process.pid) < before + 10
        for each in some:
            each.ends = True


FLOOD = """import socket, sys, time
some, message = [], bytes.fromhex(sys.argv[2])
for number in range(400):
    some.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    some[-1].bind(sys.argv[1] + str(number))
    some[-1].connect(sys.argv[3])
    some[-1].send(message)
    some[-1].send(b"x" * 4000)
    some[-1].setblocking(False)
end = time.monotonic() + 5
while time.monotonic() < end:
    for each in some:
        try:
            each.send(message)
            each.send(b"x" * 4000)
        except BlockingIOError:
            time.sleep(0.001)
print("flooded", flush=True)
time.sleep(600)"""
"""Registers four hundred sockets again and again, and reads no answer."""


@needs_root
def test_a_flood_of_registrations_costs_little_and_takes_no_room_from_others(
    open_folder: Path,
) -> None:
    with traced(open_folder) as running:
        before, began = cpu_seconds(running.process.pid), time.monotonic()
        with as_stranger(open_folder, FLOOD, registration(0, 1, int(JOB))) as flood:
            assert flood.stdout
            assert flood.stdout.readline() == b"flooded\n"
            spent = cpu_seconds(running.process.pid) - before
            assert spent < 0.5 * (time.monotonic() - began)
            assert json.loads(ask(open_folder, "--format", "json").stdout)["trace"]
        assert running.value("ofu_exporter_traces_total", outcome="too_many")
        assert running.value("ofu_exporter_traces_total", outcome="malformed")


@needs_root
def test_only_a_socket_of_its_sender_where_pytorch_makes_it_is_answered(tmp_path: Path) -> None:
    """A name may be anybody's by the time that an answer goes there."""
    with agent(*flags(tmp_path)) as running, contextlib.ExitStack() as stack:
        until(lambda: running.values("ofu_job_info", job_id=JOB))
        client, name = tmp_path / "s" / "dynoconfigclient", "ofu_exporter_traces_total"
        paths = [tmp_path / client.name, client.with_name("other"), client, Path(f"{client}2")]
        senders = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in paths]
        for sender, path in zip(senders, paths, strict=True):
            stack.enter_context(sender).bind(str(path))
        os.chown(paths[2], 65534, 65534)
        paths[3].unlink()
        for sender in senders:
            sender.sendto(registration(0, 1, int(JOB)), str(tmp_path / "s" / "dynolog"))
        until(lambda: running.value(name, outcome="stranger") == len(senders))
        for sender in senders:
            with pytest.raises(BlockingIOError):
                sender.recv(1, socket.MSG_DONTWAIT)


@pytest.mark.parametrize("pid", [0, -5, -(2**31)])
def test_a_forged_pid_names_no_file(pid: int, tmp_path: Path) -> None:
    with traced(tmp_path, processes=0):
        made = Process(tmp_path, pid=pid)
        time.sleep(1.0)
        assert "no process has asked again" in ask(tmp_path).stderr
        made.ends = True
        assert list((tmp_path / "t").iterdir()) == []


ASKS = """import socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
while True:
    s.sendto(bytes.fromhex(sys.argv[2]), sys.argv[3])
    time.sleep(0.2)"""


@needs_root
def test_a_stranger_who_only_says_that_he_is_of_a_job_is_not_traced_for_it(
    open_folder: Path,
) -> None:
    with agent(*flags(open_folder)) as running:
        until(lambda: running.values("ofu_job_info", job_id=JOB))
        with as_stranger(open_folder, ASKS, question(int(JOB), 4711)):
            said = until(lambda: "only say that" in (done := ask(open_folder)).stderr and done)
        assert "no control group of Slurm or of a pod shows it" in said
        assert "CgroupJobIdPaths=yes" in said  # github.com/SchedMD/slurm, 26.05, cgroup.conf(5)
        assert running.value("ofu_exporter_traces_total", outcome="unproven")
