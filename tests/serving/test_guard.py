"""What writes over HTTP is small, quick, JSON and not too often, or is told why it is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from ofu_exporter.reports.work import ADDRESS, AT_ONCE_SECONDS, WorkBudget
from ofu_exporter.serving.access import Access
from ofu_exporter.serving.guard import (
    LARGE_BODY_BYTES,
    MOST_BODY_BYTES,
    MOST_BYTES_AT_ONCE,
    PER_SECOND,
    SECONDS_PER_BYTE,
    Guard,
)
from ofu_exporter.serving.listeners import Listeners
from ofu_exporter.values.reasons import ReportRejection
from tests.helpers.agent import until
from tests.helpers.server import Client, behind, post, serving, tell
from tests.helpers.values import FakeClock


@pytest.fixture
def refused() -> Counter[ReportRejection]:
    """What the guard counted."""
    return Counter()


@pytest.fixture
def listeners(refused: Counter[ReportRejection]) -> Iterator[Listeners]:
    guard = Guard(Access(), lambda reason: refused.update((reason,)))
    with serving(behind(guard.check, tell)) as listeners:
        yield listeners


@pytest.fixture
def client(listeners: Listeners) -> Iterator[Client]:
    with Client(listeners) as client:
        yield client


def test_a_report_arrives_whole_and_its_connection_stays(client: Client) -> None:
    for _ in range(3):
        client.send(post(4), b"{", b"  ", b"}")
        assert client.answer()[::2] == (200, {"pieces": [4], "way": "local"})
    client.send(post(), b"1\r\n{\r\n", b"1\r\n}\r\n", b"0\r\n\r\n")
    assert client.answer()[2]["pieces"] == [2]


def test_the_largest_body_is_taken(client: Client) -> None:
    client.send(post(MOST_BODY_BYTES), b" " * MOST_BODY_BYTES)
    assert client.answer()[2]["pieces"] == [MOST_BODY_BYTES]


def test_a_body_that_says_it_is_too_large_is_refused_unread(
    client: Client, refused: Counter[ReportRejection]
) -> None:
    client.send(post(MOST_BODY_BYTES + 1, "Expect: 100-continue"))
    status, headers, body = client.answer()
    assert (status, headers["connection"]) == (413, "close")
    assert body == {
        "detail": [
            {
                "loc": ["body"],
                "msg": "the body is larger than 256 KiB. Send one report per request, 256 KiB at most.",
                "type": "too_large",
            }
        ]
    }
    assert refused == {ReportRejection.TOO_LARGE: 1}


@pytest.mark.slow
@pytest.mark.parametrize("chunked", [True, False])
def test_whoever_sends_100_mb_all_the_same_still_reads_why(
    listeners: Listeners, chunked: bool
) -> None:
    piece = b" " * (1 << 20)
    with Client(listeners) as client:
        client.send(post(None if chunked else 100 << 20))
        with suppress(ConnectionError):
            for _ in range(100):
                client.send(*([b"100000\r\n", piece, b"\r\n"] if chunked else [piece]))
        assert client.answer()[0] == 413


@pytest.mark.parametrize("length", ["-1", "1e3", "9" * 19])
def test_a_length_that_is_none_is_no_way_around(listeners: Listeners, length: str) -> None:
    with Client(listeners) as client:
        head = post(0).replace(b"Content-Length: 0", f"Content-Length: {length}".encode())
        client.send(head)
        assert client._until(b"\r\n").split()[1] in (b"400", b"413")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"]
)
def test_only_json_is_taken(client: Client, kind: str, refused: Counter[ReportRejection]) -> None:
    client.send(post(2).replace(b"application/json", kind.encode()), b"{}")
    status, _, body = client.answer()
    assert (status, body["detail"][0]["loc"]) == (415, ["header", "content-type"])
    assert refused == {ReportRejection.NOT_JSON: 1}


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [("application/json", "text/plain", 200), ("text/plain", "application/json", 415)],
)
def test_the_first_of_two_content_types_counts(
    client: Client, first: str, second: str, status: int
) -> None:
    both = f"Content-Type: {first}\r\nContent-Type: {second}"
    client.send(post(2).replace(b"Content-Type: application/json", both.encode()), b"{}")
    assert client.answer()[0] == status


def test_a_character_set_is_no_harm(client: Client) -> None:
    kind = b"Application/JSON; charset=utf-8"
    client.send(post(2).replace(b"application/json", kind), b"{}")
    assert client.answer()[0] == 200


@pytest.mark.slow
def test_a_body_that_takes_too_long_is_refused(refused: Counter[ReportRejection]) -> None:
    guard = Guard(Access(), lambda reason: refused.update((reason,)), body_seconds=0.1)
    with serving(behind(guard.check, tell)) as listeners, Client(listeners) as client:
        client.send(post(10), b"{")
        status, _, body = client.answer()
        assert (status, body["detail"][0]["type"]) == (408, "too_slow")
        assert client.is_closed()
    assert refused == {ReportRejection.TOO_SLOW: 1}


def test_who_may_not_write_is_told_before_anything_is_read(
    refused: Counter[ReportRejection],
) -> None:
    guard = Guard(Access(job_tokens=True), lambda reason: refused.update((reason,)))
    with serving(behind(guard.check, tell)) as listeners, Client(listeners) as client:
        client.send(post(100))
        status, headers, body = client.answer()
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert body["detail"][0]["loc"] == ["header", "authorization"]
    assert refused == {ReportRejection.NO_TOKEN: 1}


@pytest.mark.slow
def test_a_refused_body_that_never_ends_is_not_waited_for(
    listeners: Listeners, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(listeners) as client:
        client.send(post(100, "Via: proxy"), b"{")
        assert client.answer()[0] == 403
        assert client.is_closed()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("path", ["/v1/nothing", "/metrics", "//v1/mfu", "/v1/../v1/mfu"])
def test_every_path_is_guarded(client: Client, path: str) -> None:
    client.send(post(2, "Via: proxy", path=path), b"{}")
    assert client.answer()[0] == 403


@pytest.mark.parametrize("method", [b"PUT", b"PATCH", b"DELETE", b"FROB"])
def test_every_method_that_may_write_is_guarded(client: Client, method: bytes) -> None:
    client.send(post(2, "Via: proxy").replace(b"POST", method), b"{}")
    assert client.answer()[0] == 403


def test_reading_passes(client: Client, refused: Counter[ReportRejection]) -> None:
    for _ in range(3):
        client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\nVia: proxy\r\n\r\n")
        assert client.answer()[::2] == (200, {"pieces": [0], "way": None})
    assert not refused


@pytest.mark.slow
def test_too_many_requests_wait() -> None:
    guard = Guard(Access(), clock=FakeClock(0.0))
    with serving(behind(guard.check, tell)) as listeners, Client(listeners) as client:
        for _ in range(int(PER_SECOND)):
            client.send(post(2), b"{}")
            assert client.answer()[0] == 200
        client.send(post(2), b"{}")
        status, headers, body = client.answer()
        assert (status, headers["retry-after"]) == (429, "1")
        assert body["detail"][0]["type"] == "too_many"


def test_many_large_bodies_at_once_are_not_all_kept(refused: Counter[ReportRejection]) -> None:
    guard = Guard(Access(), lambda reason: refused.update((reason,)))
    many = MOST_BYTES_AT_ONCE // (MOST_BODY_BYTES - 1) + 8
    with serving(behind(guard.check, tell)) as listeners:
        with ExitStack() as stack:
            clients = [stack.enter_context(Client(listeners)) for _ in range(many)]
            for client in clients:
                client.send(post(MOST_BODY_BYTES), b" " * (MOST_BODY_BYTES - 1))
            until(lambda: refused[ReportRejection.TOO_MANY] > 0)
        until(lambda: guard._bytes == 0)
        with Client(listeners) as client:
            client.send(post(2), b"{}")
            assert client.answer()[0] == 200, "what has gone makes room"


def test_a_refused_body_gives_its_bytes_back_at_once() -> None:
    """Its client may go on to send: for what it has left to say, others need not wait."""
    counted: list[tuple[ReportRejection, int]] = []
    guard = Guard(Access(), lambda reason: counted.append((reason, guard._bytes)))
    with serving(behind(guard.check, tell)) as listeners, Client(listeners) as client:
        size = MOST_BODY_BYTES + 1
        client.send(post(), f"{size:x}\r\n".encode(), b" " * size)
        until(lambda: counted)
    assert counted == [(ReportRejection.TOO_LARGE, 0)]


def test_large_bodies_cost_their_address_time_and_are_refused_unread_when_it_is_used_up(
    refused: Counter[ReportRejection],
) -> None:
    work = WorkBudget(FakeClock(0.0))
    guard = Guard(Access(), lambda reason: refused.update((reason,)), work=work)
    large = LARGE_BODY_BYTES + 1
    with serving(behind(guard.check, tell)) as listeners, Client(listeners) as client:
        client.send(post(large), b" " * large)
        assert client.answer()[0] == 200
        work.check(address="127.0.0.1")
        work.spend(AT_ONCE_SECONDS[ADDRESS] - large * SECONDS_PER_BYTE, address="127.0.0.1")
        for size in (2, LARGE_BODY_BYTES):
            client.send(post(size), b" " * size)
            assert client.answer()[0] == 200, "a small body is none of the work"
        client.send(post(large, "Expect: 100-continue"))
        status, headers, body = client.answer()
        assert (status, headers["retry-after"]) == (429, "1")
        assert body["detail"][0]["type"] == "too_many"
    with serving(behind(guard.check, tell)) as listeners, Client(listeners) as client:
        client.send(post())
        assert client.answer()[0] == 429, "chunks do not say how large they are"
