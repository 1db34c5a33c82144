"""Makes unary gRPC calls over a Unix socket, without grpcio.

grpcio would cost the agent a quarter of its memory and a pool of threads, for one small call every few seconds. A unary
call is one HTTP/2 exchange, which h2 speaks: a message with a five-byte head each way, and the status in the trailers.
"""

from __future__ import annotations

import errno
import re
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from ofu_exporter.errors import SchedulerError
from ofu_exporter.values.reasons import SchedulerReason

if TYPE_CHECKING:
    from h2.connection import H2Connection
    from h2.events import Event

MAX_REPLY_BYTES = 64 << 20
"""Most bytes of a reply. gRPC's usual 4 MiB are too few for a kubelet with many pods."""
_WINDOW_BYTES = 1 << 20
"""Bytes that a server may send before it needs an acknowledgement. With HTTP/2's default of 64 KiB, each 64 KiB would
cost a round trip."""
_RECEIVE_BYTES = 1 << 18
_EMPTY_MESSAGE = bytes(5)
"""The head of a message that is not compressed and has no bytes."""
_REASONS = {
    errno.ENOENT: SchedulerReason.ABSENT,
    errno.ENOTDIR: SchedulerReason.ABSENT,
    errno.EACCES: SchedulerReason.NO_PERMISSION,
    errno.EPERM: SchedulerReason.NO_PERMISSION,
}


class GrpcReply(NamedTuple):
    status: int
    """gRPC's code; 0 is success."""
    text: str
    """The server's words on a status that is not 0."""
    message: bytes


class GrpcChannel:
    """A connection for a few calls, with `seconds` for all of them together.

    Every request makes a new channel. So a restart of the server does no harm, and nothing grows with the number of
    calls. Everything here raises SchedulerError.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._socket = self._connected()
        try:
            self._http = _http2()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> GrpcChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, method: str) -> GrpcReply:
        """Call a method that takes an empty message."""
        import h2.exceptions  # noqa: PLC0415 - as below

        try:
            return self._exchange(method)
        except TimeoutError as error:
            detail = f"{self._path}: no answer within {self._seconds:g}s"
            raise SchedulerError(SchedulerReason.UNREACHABLE, detail) from error
        except OSError as error:
            detail = f"{self._path}: {error.strerror or error}"
            raise SchedulerError(SchedulerReason.UNREACHABLE, detail) from error
        except h2.exceptions.H2Error as error:
            raise self._bad(f"not HTTP/2: {error}") from error

    def _connected(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            client.settimeout(self._seconds)
            client.connect(str(self._path))
        except OSError as error:
            client.close()
            reason = _REASONS.get(error.errno or 0, SchedulerReason.UNREACHABLE)
            raise SchedulerError(reason, f"{self._path}: {error.strerror or error}") from error
        return client

    def _exchange(self, method: str) -> GrpcReply:
        stream = self._http.get_next_available_stream_id()
        self._http.send_headers(
            stream,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", method),
                (":authority", "localhost"),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
            ],
        )
        self._http.send_data(stream, _EMPTY_MESSAGE, end_stream=True)
        headers: dict[str, str] = {}
        body = bytearray()
        ended = False
        while not ended:
            ended = self._add_events(self._received(), headers, body)
        return self._reply(headers, bytes(body))

    def _received(self) -> Iterable[Event]:
        """Send what is waiting, and wait for the server's next events."""
        self._socket.settimeout(max(1e-3, self._deadline - time.monotonic()))
        self._socket.sendall(self._http.data_to_send())
        data = self._socket.recv(_RECEIVE_BYTES)
        if time.monotonic() > self._deadline:
            raise TimeoutError
        if not data:
            raise ConnectionError(errno.ECONNRESET, "the server closed the connection")
        return self._http.receive_data(data)

    def _add_events(
        self, events: Iterable[Event], headers: dict[str, str], body: bytearray
    ) -> bool:
        """Add events to the headers and the body; whether the reply is complete."""
        from h2 import events as h2  # noqa: PLC0415 - as below

        for event in events:
            if isinstance(event, (h2.ResponseReceived, h2.TrailersReceived)):
                headers.update((_text(name), _text(value)) for name, value in event.headers or ())
            elif isinstance(event, h2.DataReceived):
                body += event.data or b""
                if len(body) > MAX_REPLY_BYTES:
                    detail = f"{self._path}: more than {MAX_REPLY_BYTES} bytes"
                    raise SchedulerError(SchedulerReason.TOO_LARGE, detail)
                if event.stream_ended is None:
                    size = event.flow_controlled_length or 0
                    self._http.acknowledge_received_data(size, event.stream_id or 0)
            elif isinstance(event, h2.StreamEnded):
                return True
            elif isinstance(event, (h2.StreamReset, h2.ConnectionTerminated)):
                raise ConnectionError(errno.ECONNRESET, f"the server broke off: {event}")
        return False

    def _reply(self, headers: dict[str, str], body: bytes) -> GrpcReply:
        if headers.get(":status") != "200":
            raise self._bad(f"HTTP status {headers.get(':status')}")
        status = headers.get("grpc-status", "")
        if re.fullmatch("[0-9]{1,3}", status) is None:
            raise self._bad("no gRPC status")
        if int(status) != 0:
            return GrpcReply(int(status), unquote(headers.get("grpc-message", "")), b"")
        if len(body) < 5 or body[0] != 0 or int.from_bytes(body[1:5], "big") != len(body) - 5:
            raise self._bad("not one plain message")
        return GrpcReply(0, "", body[5:])

    def _bad(self, what: str) -> SchedulerError:
        return SchedulerError(SchedulerReason.BAD_ANSWER, f"{self._path}: {what}"[:500])


def _http2() -> H2Connection:
    try:
        # Imported late because most nodes have no kubelet, and the library is an extra.
        from h2.config import H2Configuration  # noqa: PLC0415
        from h2.connection import H2Connection  # noqa: PLC0415
        from h2.settings import SettingCodes, Settings  # noqa: PLC0415
    except ImportError as error:
        raise SchedulerError(SchedulerReason.NO_LIBRARY, f"h2 cannot be loaded: {error}") from error
    http = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    wanted = {SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW_BYTES}
    http.local_settings = Settings(client=True, initial_values=wanted)
    http.initiate_connection()
    http.increment_flow_control_window(_WINDOW_BYTES)
    return http


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
