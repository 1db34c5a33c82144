"""An answer is of its shape, or there is one sentence on why there is none."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from ofu_exporter.support.json_answer import MOST_BYTES, NoAnswerError, ask
from tests.helpers.passwords import basic


class Fruit(BaseModel):
    """What the server is asked for."""

    name: str


class Basket(BaseModel):
    """The same with numbers."""

    weights: list[int | float]


@contextlib.contextmanager
def server(status: int, body: bytes) -> Iterator[tuple[str, list[str]]]:
    """Answers each request alike; gives its address and the Authorization headers that it was sent."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            self.send_response(status)
            self.end_headers()
            with contextlib.suppress(OSError):  # who asks may have had enough
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"127.0.0.1:{running.server_port}", seen
        finally:
            running.shutdown()


def test_an_answer_of_its_shape_is_given() -> None:
    with server(200, b'{"name": "pear"}') as (where, seen):
        assert ask(f"http://{where}", "/x", Fruit).name == "pear"
    assert seen == [""]


def test_numbers_of_any_form_are_read() -> None:
    with server(200, b'{"name": "pear", "weights": [1, -2.5, 1e3, 1E-9, 0]}') as (where, _):
        assert ask(f"http://{where}", "/x", Basket).weights == [1, -2.5, 1000.0, 1e-9, 0]


def test_user_and_password_of_the_url_are_sent() -> None:
    with server(200, b'{"name": "pear"}') as (where, seen):
        ask(f"http://ada:a%3Ab%40c@{where}", "/x", Fruit)
    assert seen == [basic("ada", "a:b@c")]


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b"", "answers 401: reading is closed"),
        (404, b"", "an older one"),
        (503, b"", "answers 503"),
        (200, b"[]", "something other than /x"),
        (200, b'{"name": 3}', "something other than /x"),
        (200, b"\xff{", "something other than /x"),
        (200, b'{"name": "pear", "weight": 1e999}', "something other than /x"),
        (200, b'{"name": "pear", "weight": NaN}', "something other than /x"),
        (200, b'{"name": "pear", "weight": -Infinity}', "something other than /x"),
        (200, b'{"name": "pear", "weight": ' + b"9" * 9999 + b"}", "something other than /x"),
        (200, b"[" * 100_000, "something other than /x"),
        (200, b'"' + b"x" * MOST_BYTES, "with over 8 MiB"),
    ],
)
def test_anything_else_is_one_sentence(status: int, body: bytes, words: str) -> None:
    with server(status, body) as (where, _), pytest.raises(NoAnswerError, match=words):
        ask(f"http://{where}", "/x", Fruit)


def test_nobody_there_is_one_sentence() -> None:
    with pytest.raises(NoAnswerError, match="does not answer: Connection refused"):
        ask("http://127.0.0.1:1", "/x", Fruit)
    with pytest.raises(NoAnswerError, match="not an http://") as raised:
        ask("ftp://ada:secret@x", "/x", Fruit)
    assert "secret" not in str(raised.value)
