"""A TLS client that says each part of its handshake when it is told to."""

from __future__ import annotations

import contextlib
import socket
import ssl

from tests.helpers.agent import SOON


class SlowTls:
    """One connection with a handshake that is made by hand."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext) -> None:
        self.socket = socket.create_connection(address, SOON)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._into, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._into, self._out, server_hostname="127.0.0.1")

    def __enter__(self) -> SlowTls:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def hello(self) -> bytes:
        """What a client says first, which is not sent yet."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._out.read()

    def heard(self) -> int:
        """Wait for something that the server says; how many bytes that were."""
        self._into.write(got := self.socket.recv(1 << 16))
        return len(got)

    def shake_hands(self) -> None:
        """Make the rest of the handshake. Raises ConnectionError where the server has closed the connection."""
        while True:
            try:
                self._tls.do_handshake()
                self.socket.sendall(self._out.read())
                return
            except ssl.SSLWantReadError:
                self.socket.sendall(self._out.read())
                self._hear()

    def asked(self, request: bytes) -> bytes:
        """Make what is left of the handshake; the first bytes of the answer. Raises ConnectionError without one."""
        self.shake_hands()
        self._tls.write(request)
        self.socket.sendall(self._out.read())
        while True:
            try:
                return self._tls.read(1 << 16)
            except ssl.SSLWantReadError:
                self._hear()

    def _hear(self) -> None:
        if not self.heard():
            raise ConnectionAbortedError
