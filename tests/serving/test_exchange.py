"""An exchange says of every byte what h11 says, whether it asks h11 or not."""

from __future__ import annotations

from typing import NamedTuple

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter.serving import exchange
from ofu_exporter.serving.connection_limit import READ_BYTES
from ofu_exporter.serving.exchange import JOINED_BYTES, Exchange
from ofu_exporter.serving.guard import Receive, Scope, Send
from ofu_exporter.serving.listeners import Listeners
from ofu_exporter.serving.plain_head import plain_head
from tests.helpers.odd_requests import ODD_REQUESTS, PLAIN, mutated
from tests.helpers.server import Client, serving

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /v1/mfu HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
BOTH = {b"content-length", b"transfer-encoding"}


def answer(*headers: tuple[str, str], status: int = 200) -> h11.Response:
    return h11.Response(status_code=status, headers=[*headers], reason=b"Fine")


class Said(NamedTuple):
    """How a request is answered: as soon as its head is there, or at its end."""

    response: h11.Response
    body: bytes = b""
    early: bool = False


ANSWERS = (
    Said(answer(("content-length", "2"), ("date", "now")), b"{}"),
    Said(answer(("Content-Length", "0"))),
    Said(answer(("x", "y")), b"{}"),
    Said(answer(("transfer-encoding", "chunked")), b"{}"),
    Said(answer(("content-length", "2"), ("connection", "close")), b"{}"),
    Said(answer(("content-length", "2"), ("connection", "keep-alive")), b"{}"),
    Said(answer(("content-length", "2")), b"{}", early=True),
    Said(answer(), b"{}", early=True),
    Said(answer(("connection", "close")), b"{}", early=True),
    Said(answer(status=204)),
    Said(answer(("content-length", "2"), status=204)),
    Said(answer(("content-length", "2"), status=304)),
    Said(answer(("content-length", "70000")), b"#" * 70_000),
)
SPOKEN = st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=4)
CUTS = st.lists(st.integers(0, 400), max_size=4).map(sorted)


class Talk:
    """What comes of the bytes that a client sends, as the server works on them."""

    def __init__(self, spoken: h11.Connection | Exchange, answers: list[Said]) -> None:
        self.spoken = spoken
        self.requests: list[tuple[bytes, bytes, list[tuple[bytes, bytes]]]] = []
        self.bodies: list[bytes] = []
        self.whole: list[bool] = []
        self.sent = b""
        self.states: list[tuple[object, object]] = []
        """Theirs and ours, after each piece."""
        self.fault = ""
        self._answers = answers
        self._pending: Said | None = None

    def hear(self, piece: bytes) -> None:
        if self.fault:
            return
        self.spoken.receive_data(piece)
        try:
            while self._take(self.spoken.next_event()):
                pass
        except (h11.RemoteProtocolError, h11.LocalProtocolError) as error:
            self.fault = type(error).__name__
        self.states.append((self.spoken.their_state, self.spoken.our_state))

    def _take(self, event: object) -> bool:
        """Whether more may have come in."""
        if isinstance(event, h11.Request):
            # Both ends in one request: h11 alone would not mind.
            if {name for name, _ in event.headers} >= BOTH:
                raise h11.RemoteProtocolError("two ends")
            self.requests.append((event.method, bytes(event.target), [*event.headers]))
            self.bodies.append(b"")
            self.whole.append(False)
            said = self._answers[len(self.requests) % len(self._answers)]
            self._pending = said
            if said.early:
                self._answer()
        elif isinstance(event, h11.Data):
            self.bodies[-1] += event.data
        elif isinstance(event, h11.EndOfMessage):
            self.whole[-1] = True
            self._answer()
            if (self.spoken.their_state, self.spoken.our_state) != (h11.DONE, h11.DONE):
                return False
            self.spoken.start_next_cycle()
        else:
            return False
        return True

    def _answer(self) -> None:
        said, self._pending = self._pending, None
        if said is None:
            return
        body = b"" if self.requests[-1][0] == b"HEAD" else said.body
        for event in (said.response, h11.Data(data=body), h11.EndOfMessage()):
            self.sent += self.spoken.send(event) or b""


def talks(data: bytes, cuts: list[int], answers: list[Said]) -> tuple[Talk, Talk]:
    """The same bytes, in the same pieces, to an exchange and to h11."""
    found = Talk(Exchange(READ_BYTES), answers), Talk(h11.Connection(h11.SERVER), answers)
    for talk in found:
        for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            if data[begin:end]:
                talk.hear(data[begin:end])
    return found


def assert_alike(ours: Talk, theirs: Talk) -> None:
    assert ours.requests == theirs.requests
    assert ours.bodies == theirs.bodies
    assert ours.whole == theirs.whole
    assert ours.sent == theirs.sent
    assert ours.fault == theirs.fault
    if not ours.fault:  # with one, an exchange stays where it was, and the connection is closed
        assert ours.states == theirs.states
        assert ours.spoken.trailing_data == theirs.spoken.trailing_data


@pytest.mark.parametrize("name", ODD_REQUESTS)
def test_an_odd_request_is_what_h11_says(name: str) -> None:
    for said in ANSWERS:
        assert_alike(*talks(ODD_REQUESTS[name] + PLAIN, [], [said]))


@given(mutated(), CUTS, SPOKEN)
def test_whatever_comes_in_whatever_pieces_is_what_h11_says(
    data: bytes, cuts: list[int], answers: list[Said]
) -> None:
    assert_alike(*talks(GET + POST + b"12345" + data, cuts, answers))


def begun(sent: bytes = POST + b"12345") -> Exchange:
    """An exchange that has read a request."""
    made = Exchange(READ_BYTES)
    made.receive_data(sent)
    while made.their_state is not h11.DONE:
        made.next_event()
    return made


def test_the_head_of_an_answer_goes_with_the_body() -> None:
    made = begun()
    assert made.send(answer(("content-length", "2"))) == b""
    assert made.send(h11.Data(data=b"{}")) == b"HTTP/1.1 200 Fine\r\ncontent-length: 2\r\n\r\n{}"
    assert made.send(h11.EndOfMessage()) == b""


def test_the_head_of_a_large_answer_goes_first() -> None:
    made = begun()
    head = made.send(answer(("content-length", str(JOINED_BYTES + 1))))
    assert head is not None
    assert head.startswith(b"HTTP/1.1 200 Fine\r\n")


@pytest.mark.parametrize("body", [b"", b"1", b"123"])
def test_an_answer_of_another_length_than_it_says_is_an_error_of_ours(body: bytes) -> None:
    made = begun()
    made.send(answer(("content-length", "2")))
    with pytest.raises(h11.LocalProtocolError, match="length"):  # noqa: PT012 - it may be either
        made.send(h11.Data(data=body))
        made.send(h11.EndOfMessage())
    assert made.our_state is h11.ERROR
    with pytest.raises(h11.LocalProtocolError):
        made.send(h11.ConnectionClosed())


def test_an_answer_cannot_be_given_twice() -> None:
    made = begun()
    for event in (answer(("content-length", "0")), h11.EndOfMessage()):
        made.send(event)
    with pytest.raises(h11.LocalProtocolError):
        made.send(answer(("content-length", "0")))


def test_no_answer_begins_inside_another() -> None:
    made = begun()
    made.send(answer(("content-length", "2")))
    with pytest.raises(h11.LocalProtocolError):
        made.send(answer(("content-length", "2")))


def test_the_next_request_waits_for_the_end_of_this_answer() -> None:
    made = begun()
    made.send(answer(("content-length", "2")))
    with pytest.raises(h11.LocalProtocolError):
        made.start_next_cycle()


@pytest.mark.parametrize("request_", [b"", GET, POST])
def test_a_connection_that_is_closed_between_requests_is_closed(request_: bytes) -> None:
    made = Exchange(READ_BYTES)
    if request_ == GET:
        made = begun(GET)
        for event in (answer(("content-length", "0")), h11.EndOfMessage()):
            made.send(event)
    elif request_:
        made.receive_data(request_)
        made.next_event()
        with pytest.raises(h11.LocalProtocolError):
            made.send(h11.ConnectionClosed())
        return
    for _ in range(2):
        made.send(h11.ConnectionClosed())
        assert (made.their_state, made.our_state) == (h11.MUST_CLOSE, h11.CLOSED)


class Witness:
    """An application that tells of every request that reaches it as a whole."""

    def __init__(self) -> None:
        self.seen: dict[int, list[tuple[bytes, bytes, list[tuple[bytes, bytes]], bytes]]] = {}
        """By the client's port."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        target = (
            scope["raw_path"] + (b"?" if scope["query_string"] else b"") + scope["query_string"]
        )
        seen = self.seen.setdefault(scope["client"][1], [])
        seen.append((scope["method"].encode(), target, scope["headers"], body))
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


LAST = b"/last"


def outcome(listeners: Listeners, witness: Witness, data: bytes) -> object:
    """What a client gets and the application sees, until the plain request at the end or the end of the connection."""
    with Client(listeners) as client:
        port = client.socket.getsockname()[1]
        try:
            client.send(data)
            got = b""
            while witness.seen.get(port, [(b"", b"", [], b"")])[-1][1] != LAST:
                piece = client.socket.recv(65536)
                if not piece:
                    break
                got += piece
        except ConnectionError:
            pass
        return witness.seen.get(port, [])


def waits(data: bytes) -> bool:
    """Whether h11 waits for more, so that no end of any kind comes."""
    talk = Talk(Exchange(READ_BYTES), [ANSWERS[0]])
    talk.hear(data)
    return not talk.fault and not all(talk.whole)


def test_over_a_socket_the_application_sees_the_same_requests_with_and_without_h11(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[dict[str, object]] = []
    sent = {name: data + PLAIN for name, data in ODD_REQUESTS.items()}
    ending = {name: data for name, data in sent.items() if not waits(data)}
    assert len(ending) > len(sent) - 10
    for read in (plain_head, lambda _: None):
        monkeypatch.setattr(exchange, "plain_head", read)
        witness = Witness()
        with serving(witness) as listeners:
            found.append({name: outcome(listeners, witness, data) for name, data in ending.items()})
    with_it, without_it = found
    assert with_it == without_it
    assert all(isinstance(each, list) for each in with_it.values())
    assert with_it["length and chunked"] == []
