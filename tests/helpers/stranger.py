"""Another user of this machine, who listens where the agent should: a real process with a user of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

UID = 65533

_PROGRAM = """
import os, socket, sys
uid, host, answers = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "answers"
os.setgroups([]); os.setgid(uid); os.setuid(uid)
family = socket.AF_INET6 if ":" in host else socket.AF_INET
listening = socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::")
print(listening.getsockname()[1], flush=True)
if not answers:
    sys.stdin.read()
kept = []
while True:
    connection, _ = listening.accept()
    kept.append(connection)
    print(connection.recv(65536), flush=True)
    body = b'{"ended": 1.0, "note": "\\x1b[2Jforged"}'
    connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
    connection.close()
"""


class Stranger:
    """A listener of another user's, and what it was sent."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        self.port = int(process.stdout.readline())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def heard(self) -> str:
        """Everything that it was sent, once it has been ended."""
        self._process.kill()
        return self._process.communicate()[0]


@contextlib.contextmanager
def stranger(host: str = "127.0.0.1", uid: int = UID, answers: bool = True) -> Iterator[Stranger]:
    """Needs root, since only root can become another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    arguments = [sys.executable, "-c", _PROGRAM, str(uid), host, "answers" if answers else "waits"]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Stranger(process)
        finally:
            process.kill()
