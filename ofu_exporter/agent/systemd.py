"""Tells systemd the state of the agent, over the socket that it gives a unit of Type=notify.

The protocol is that of sd_notify(3): one datagram of KEY=VALUE lines for each message.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping

log = logging.getLogger(__name__)


class Notifier:
    """Sends messages to systemd; sends nothing if systemd did not start this process."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self.watchdog_seconds = _watchdog_seconds(environ) if self._address else None
        """Seconds without a message after which systemd kills the agent; None = systemd does not watch this process."""

    def ready(self, status: str) -> None:
        """Say that the agent serves. This also ends a reload, successful or not."""
        self._send(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Say that the settings are being reloaded. `ready` must follow."""
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={microseconds}")

    def alive(self) -> None:
        """Say that the agent still works, which the watchdog waits for."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        """Send a message. A message that cannot be sent is lost: acting on that is the watchdog's task."""
        if not self._address:
            return
        # A leading @ stands for the zero byte of an abstract socket name.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(1.0)
                sender.sendto(message.encode(), address)
        except OSError as error:
            log.warning("systemd cannot be told %r: %s", message.partition("\n")[0], error)


def _watchdog_seconds(environ: Mapping[str, str]) -> float | None:
    """Seconds that systemd's watchdog waits; None if there is none, or if it watches another process."""
    microseconds = environ.get("WATCHDOG_USEC", "")
    meant_for = environ.get("WATCHDOG_PID", "") or str(os.getpid())
    if not microseconds.isdigit() or meant_for != str(os.getpid()):
        return None
    return int(microseconds) / 1e6 or None
