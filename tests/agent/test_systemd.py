"""systemd is told what it waits for: over a real datagram socket, by the real agent."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter.agent.systemd import Notifier
from tests.doubles.slow_disk import slow_disk
from tests.helpers.agent import SOON, agent, until
from tests.helpers.every import every

WATCHDOG_SECONDS = 0.8


class Listener:
    """The socket that systemd would listen on."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)

    def next(self, seconds: float = SOON) -> dict[str, str]:
        """The next message. Raises TimeoutError."""
        self._socket.settimeout(seconds)
        lines = self._socket.recv(4096).decode().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Listener]:
    listener = Listener(str(tmp_path / "notify"))
    yield listener
    listener.close()


def environment(listener: Listener, watchdog: bool = False) -> dict[str, str]:
    usec = {"WATCHDOG_USEC": str(int(WATCHDOG_SECONDS * 1e6))} if watchdog else {}
    return {"NOTIFY_SOCKET": listener.address, **usec}


@pytest.mark.slow
def test_a_start_a_reload_and_a_stop_are_told_in_order(systemd: Listener) -> None:
    with agent("run", "--source", "simulate", env=environment(systemd)) as running:
        ready = systemd.next()
        assert ready == {"READY": "1", "STATUS": f"serving on {running.url}"}
        running.process.send_signal(signal.SIGHUP)
        reloading = systemd.next()
        assert reloading["RELOADING"] == "1"
        assert int(reloading["MONOTONIC_USEC"]) > 0
        assert systemd.next() == ready
        assert running.stop() == 0
        assert systemd.next() == {"STOPPING": "1"}


@pytest.mark.slow
def test_a_reload_that_fails_ends_as_well(systemd: Listener, tmp_path: Path) -> None:
    file = tmp_path / "ofu.yaml"
    file.write_text("source: simulate\n")
    with agent("run", "--config", str(file), env=environment(systemd)) as running:
        assert systemd.next()["READY"] == "1"
        file.write_text("sauce: simulate\n")
        running.process.send_signal(signal.SIGHUP)
        assert systemd.next()["RELOADING"] == "1"
        assert systemd.next()["READY"] == "1"
        assert running.value("ofu_exporter_config_reloads_total", outcome="failed") == 1


def hanging_at(pipe: Path) -> str:
    """Python that lets the sampler of its process hang while the pipe is there and nobody opens its other end.

    The sampler calls nothing that hangs by itself: sources, schedulers and files have threads of their own.
    """
    return f"""
import os
from ofu_exporter.agent import sampler
step = sampler.step
def hangs(state, tick):
    if os.path.exists({str(pipe)!r}):
        open({str(pipe)!r}).close()
    return step(state, tick)
sampler.step = hangs
"""


@pytest.mark.slow
def test_the_watchdog_hears_nothing_while_the_sampler_hangs(
    systemd: Listener, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    (tmp_path / "sitecustomize.py").write_text(hanging_at(pipe))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    told = {**environment(systemd, watchdog=True), "PYTHONPATH": path}
    with agent("run", "--source", "simulate", "--interval", "200ms", env=told) as running:
        assert systemd.next()["READY"] == "1"
        assert [systemd.next() for _ in range(3)] == [{"WATCHDOG": "1"}] * 3
        os.mkfifo(pipe)
        with pytest.raises(TimeoutError):  # some pings may be under way already
            [systemd.next(3 * WATCHDOG_SECONDS) for _ in range(5)]
        assert running.get("/healthz")[0] == 200
        pipe.rename(tmp_path / "opened").write_text("")
        assert systemd.next() == {"WATCHDOG": "1"}, "it turns again"


@pytest.mark.slow
def test_a_source_that_hangs_is_told_and_stops_no_pings(systemd: Listener, tmp_path: Path) -> None:
    """The recording is on a disk that hangs: opening it never returns."""
    path = tmp_path / "hangs" / "recording.jsonl"
    path.parent.mkdir()
    path.touch()
    flags = ("--source", "replay", "--path", str(path), "--interval", "200ms")
    env = {**environment(systemd, watchdog=True), **slow_disk(path.parent, seconds=1000)}
    with agent("run", *flags, env=env) as running:
        assert systemd.next()["READY"] == "1"
        assert [systemd.next() for _ in range(3)] == [{"WATCHDOG": "1"}] * 3
        until(lambda: running.values("ofu_exporter_source_unavailable", reason="hung"))


@pytest.mark.slow
def test_without_a_watchdog_there_are_no_pings(systemd: Listener) -> None:
    quick = ("--interval", "0.1s", "--clock-interval", "0.1s")
    with agent("run", "--source", "simulate", *quick, env=environment(systemd)) as running:
        until(lambda: running.value("ofu_gpu_up", gpu="0"))
        assert running.stop() == 0
        assert [next(iter(systemd.next())) for _ in range(2)] == ["READY", "STOPPING"]


def test_a_name_that_is_no_file_is_spoken_to() -> None:
    listener = Listener(f"@ofu-exporter-test-{os.getpid()}")
    Notifier({"NOTIFY_SOCKET": listener.address}).ready("here")
    assert listener.next() == {"READY": "1", "STATUS": "here"}
    listener.close()


def test_nobody_listening_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).stopping()
    assert "systemd cannot be told 'STOPPING=1'" in caplog.text


@every(
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
    ]
)
def test_the_watchdog_is_told_by_the_environment(
    environ: dict[str, str], seconds: float | None
) -> None:
    assert Notifier({"NOTIFY_SOCKET": "/run/notify", **environ}).watchdog_seconds == seconds


def test_a_watchdog_without_a_socket_is_nobodys() -> None:
    assert Notifier({"WATCHDOG_USEC": "30000000"}).watchdog_seconds is None
