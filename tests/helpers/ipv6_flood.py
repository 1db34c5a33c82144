"""Floods an agent from one /64 of IPv6 while a client from another keeps a connection: prints what that is answered.

Run as root in a network of its own: `unshare --net python -m tests.helpers.ipv6_flood`.
"""

from __future__ import annotations

import http.client
import resource
import select
import socket
import subprocess

from tests.helpers.agent import Agent

SERVER, CLIENT = "2001:db8::1", "2001:db8:0:9::1"
FLOOD = [f"2001:db8:0:5::{number:x}" for number in range(1, 41)]
DESCRIPTORS = 64
"""Half of them may be connections of the agent, so that the flood takes less time than its client may be silent."""
IPV6_FREEBIND = 78
"""linux/in6.h; an address of a local route need not be added one by one."""


def connected(source: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6)
    made.settimeout(20)
    made.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
    made.bind((source, 0))
    made.connect((SERVER, port))
    return made


def status(client: socket.socket) -> int:
    """The status of an answer on a connection that stays open."""
    connection = http.client.HTTPConnection(f"[{SERVER}]")
    connection.sock = client
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    answer.read()
    return answer.status


def main() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    for change in (
        "link set lo up",
        f"addr add {SERVER}/128 dev lo nodad",
        "-6 route add local 2001:db8::/32 dev lo",
    ):
        subprocess.run(["ip", *change.split()], check=True)
    running = Agent(["run", "--source", "simulate", "--listen", f"[{SERVER}]:0"])
    try:
        port = int(running.url.rpartition(":")[2])
        client = connected(CLIENT, port)
        assert status(client) == 200
        flood = [connected(source, port) for source in FLOOD]
        select.select([client, *flood], [], [])  # until one was closed
        print(status(client))
        for each in (client, *flood):
            each.close()
    finally:
        running.stop()


if __name__ == "__main__":
    main()
