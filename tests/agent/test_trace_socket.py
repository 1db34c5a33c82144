"""The socket at which processes ask for work: whoever has come before, each user is answered."""

from __future__ import annotations

import math
import os
import socket
import struct
from pathlib import Path

import pytest

from ofu_exporter.agent.trace_desk import TraceDesk
from ofu_exporter.agent.trace_socket import NAME, TraceSocket
from ofu_exporter.traces.registry import MOST_USERS
from tests.helpers.node import snapshot_of
from tests.helpers.values import reading
from tests.traces.test_daemon_messages import registration


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be many users")
def test_each_of_more_users_than_are_kept_is_answered_and_the_first_again(tmp_path: Path) -> None:
    desk = TraceDesk(tmp_path / "t", lambda: snapshot_of(reading()), lambda *_: None)
    TraceSocket(tmp_path / "s", desk).start()
    for uid in [*range(1, MOST_USERS + 2), 1, 2, MOST_USERS]:
        desk.registry.of("", math.inf)  # the users before are forgotten, as after a minute
        assert answer_to(uid, tmp_path / "s")


def answer_to(uid: int, folder: Path) -> bytes:
    """The answer to a registration that a user sends from a socket of his own."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        path = folder / f"dynoconfigclient{uid}"
        client.bind(str(path))
        client.settimeout(60.0)
        os.chown(path, uid, uid)
        credentials = struct.pack("=iii", os.getpid(), uid, uid)  # root may say so
        who = (socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials)
        client.sendmsg([registration(0, 1, 7)], [who], 0, str(folder / NAME))
        try:
            return client.recv(4096)
        finally:
            path.unlink()
