"""Finds the agents of this machine, by their processes and the ports on which these listen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ofu_exporter.errors import ConfigError
from ofu_exporter.serving.node_reader import read_node
from ofu_exporter.support.bounded_get import NoAnswerError

PROC = Path("/proc")
_NAMES = {b"ofu-exporter", b"ofu_exporter"}
_COMMANDS = {b"run", b"demo"}
_LISTENS = "0A"


def other_agents(pause_file: Path, url: str) -> Iterator[str]:
    """Each agent of this machine, but the one at the URL, that looks or may look for this file."""
    ports = _listening()
    for process in sorted(PROC.glob("[0-9]*"), key=lambda path: int(path.name)):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            names = {os.path.basename(word) for word in words[:6]}
            if names & _NAMES and names & _COMMANDS:
                yield from _told(process, [*_ports(process, ports)], pause_file, url)


def _told(process: Path, ports: list[str], pause_file: Path, url: str) -> Iterator[str]:
    """What is to be said of an agent's process; one that does not answer may look for any file."""
    if any(url.rstrip("/").endswith(f":{port}") for port in ports):
        return
    for port in ports:
        here = f"http://127.0.0.1:{port}"
        with suppress(NoAnswerError, ConfigError):
            node = read_node(here)
            if node.pause_file == str(pause_file):
                yield f"{here} on {node.node}"
            return
    yield f"perhaps process {process.name}, which does not say what it looks for"


def _ports(process: Path, ports: dict[str, str]) -> Iterator[str]:
    """The ports on which a process listens. Raises OSError where another user's process is not to be seen."""
    for descriptor in (process / "fd").iterdir():
        with suppress(OSError):
            if port := ports.get(os.readlink(descriptor)):
                yield port


def _listening() -> dict[str, str]:
    """The ports of the machine's listening sockets, by how a descriptor names them (proc(5))."""
    ports = {}
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (PROC / "net" / table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS:
                    ports[f"socket:[{fields[9]}]"] = str(int(fields[1].rpartition(":")[2], 16))
    return ports
