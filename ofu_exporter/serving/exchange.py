"""The requests and answers of one connection: plain ones are read and written here, and all others by h11."""

from __future__ import annotations

import h11

from ofu_exporter.serving.plain_head import plain_head

JOINED_BYTES = 64 << 10
"""The head of an answer that is no longer than this is sent with the body, and not by itself."""
_BODILESS = frozenset({204, 304})
_NOT_PLAIN = frozenset({b"connection", b"transfer-encoding"})
_REQUEST = b"%b / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
State = type[object]
Event = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


class Exchange:
    """Takes the place of the `h11.Connection` of a server, with its methods, events and states.

    What `plain_head` does not know, and any answer that has no length or ends the connection, is left to h11, until
    the next request begins. So h11 alone judges whatever could be read in two ways. But a request with two ends is
    refused here.
    """

    def __init__(self, most_incomplete_bytes: int) -> None:
        """h11 refuses a head that is longer than this and not whole."""
        self._most = most_incomplete_bytes
        self._received = b""
        self._begin()

    def _begin(self) -> None:
        self._h11: h11.Connection | None = None
        self._their_state: State = h11.IDLE
        self._our_state: State = h11.IDLE
        self._method = b""
        self._to_read = self._to_send = 0
        self._head = b""

    @property
    def their_state(self) -> State:
        return self._their_state if self._h11 is None else self._h11.their_state

    @property
    def our_state(self) -> State:
        return self._our_state if self._h11 is None else self._h11.our_state

    @property
    def they_are_waiting_for_100_continue(self) -> bool:
        return self._h11 is not None and self._h11.they_are_waiting_for_100_continue

    @property
    def trailing_data(self) -> tuple[bytes, bool]:
        return (self._received, False) if self._h11 is None else self._h11.trailing_data

    def receive_data(self, data: bytes) -> None:
        if self._h11 is None:
            self._received += data
        else:
            self._h11.receive_data(data)

    def next_event(self) -> Event:
        if self._h11 is not None:
            return _with_one_end(self._h11.next_event())
        if self._their_state is h11.IDLE:
            return self._request() if self._received else h11.NEED_DATA
        if self._their_state is h11.SEND_BODY:
            return self._body()
        return h11.PAUSED if self._received else h11.NEED_DATA

    def _request(self) -> Event:
        head = plain_head(self._received)
        if head is None:
            return _with_one_end(self._handed_over().next_event())
        self._received = self._received[head.size :]
        self._method, self._to_read = head.request.method, head.body_bytes
        self._their_state, self._our_state = h11.SEND_BODY, h11.SEND_RESPONSE
        return head.request

    def _body(self) -> Event:
        if not self._to_read:
            self._their_state = h11.DONE
            return h11.EndOfMessage()
        if not self._received:
            return h11.NEED_DATA
        piece, self._received = self._received[: self._to_read], self._received[self._to_read :]
        self._to_read -= len(piece)
        return h11.Data(data=piece)

    def _handed_over(self) -> h11.Connection:
        """A connection of h11 that goes on from here; nothing of an answer has been sent."""
        known = self._h11 = h11.Connection(h11.SERVER, self._most)
        if self._their_state is not h11.IDLE:
            known.receive_data(_REQUEST % (self._method, self._to_read))
            known.next_event()
        if self._their_state is h11.DONE:
            known.next_event()
        if self._received:
            known.receive_data(self._received)
            self._received = b""
        return known

    def send(self, event: h11.Event) -> bytes | None:
        if self._h11 is not None:
            return self._h11.send(event)
        if self._our_state is h11.SEND_BODY:
            return self._answer(event)
        if self._our_state is h11.SEND_RESPONSE and isinstance(event, h11.Response):
            length = self._plain_length(event)
            if length is not None:
                return self._answer_head(event, length)
        if self._our_state in (h11.IDLE, h11.SEND_RESPONSE):
            return self._handed_over().send(event)
        self._close(event)
        return None

    def _plain_length(self, answer: h11.Response) -> int | None:
        """The bytes of its body; None where h11 has to find the end of the answer."""
        told = dict(answer.headers)
        if b"content-length" not in told or not _NOT_PLAIN.isdisjoint(told):
            return None
        without = self._method == b"HEAD" or answer.status_code in _BODILESS
        return 0 if without else int(told[b"content-length"])

    def _answer_head(self, answer: h11.Response, length: int) -> bytes:
        self._our_state, self._to_send = h11.SEND_BODY, length
        lines = [b"%b: %b\r\n" % each for each in answer.headers.raw_items()]
        head = b"HTTP/1.1 %d %b\r\n%b\r\n" % (answer.status_code, answer.reason, b"".join(lines))
        if length > JOINED_BYTES:
            return head
        self._head = head
        return b""

    def _answer(self, event: h11.Event) -> bytes:
        """A piece of the answer's body, or the end, with the head before the first."""
        head, self._head = self._head, b""
        if isinstance(event, h11.Data):
            self._to_send -= len(event.data)
            if self._to_send >= 0:
                return head + event.data
        elif isinstance(event, h11.EndOfMessage) and not self._to_send:
            self._our_state = h11.DONE
            return head
        self._our_state = h11.ERROR
        raise h11.LocalProtocolError("the answer has not the length that it says")

    def _close(self, event: h11.Event) -> None:
        if not isinstance(event, h11.ConnectionClosed) or self._our_state is h11.ERROR:
            self._our_state = h11.ERROR
            raise h11.LocalProtocolError("the answer was complete")
        self._our_state = h11.CLOSED
        self._their_state = h11.MUST_CLOSE

    def start_next_cycle(self) -> None:
        """Begin with the next request, when both have said all of the last one."""
        if self._h11 is not None:
            self._h11.start_next_cycle()
            self._received = self._h11.trailing_data[0]
        elif (self._their_state, self._our_state) != (h11.DONE, h11.DONE):
            raise h11.LocalProtocolError("a request or its answer is not complete")
        self._begin()


def _with_one_end(event: Event) -> Event:
    """The event. Raises RemoteProtocolError for a request that says its end in two ways.

    h11 goes by the chunks and keeps the connection, which is to be closed then (RFC 9112, 6.1): a proxy may have gone
    by the length, and takes what follows for another request.
    """
    if isinstance(event, h11.Request):
        names = {name for name, _ in event.headers}
        if {b"content-length", b"transfer-encoding"} <= names:
            raise h11.RemoteProtocolError("both a length and chunks")
    return event
