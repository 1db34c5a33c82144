"""Which route answers a request, where it runs, and how answers and refusals are sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from ofu_exporter.serving.guard import App
from ofu_exporter.serving.routes import (
    TEXT,
    HttpAnswer,
    Request,
    Route,
    RouteError,
    Routes,
    json_answer,
    json_list,
)
from tests.helpers.server import Client, serving


class Sum(BaseModel):
    """What a route of this test answers."""

    value: float | None


def beside(_: Request) -> HttpAnswer:
    return json_answer(Sum(value=float(threading.current_thread() is threading.main_thread())))


def below(request: Request) -> HttpAnswer:
    if request.rest == "none":
        raise RouteError(404, "no 'none' here")
    return HttpAnswer(f'["{request.rest}", "{request.header(b"accept")}"]'.encode())


async def takes(request: Request) -> HttpAnswer:
    return HttpAnswer(b"%d" % len(await request.body()), TEXT, 201, ((b"x-more", b"yes"),))


@pytest.fixture
def client() -> Iterator[Client]:
    async def thread_name(_: Request) -> HttpAnswer:
        return HttpAnswer(f'"{threading.current_thread().name}"'.encode())

    app: App = Routes(
        [
            Route("/sum", beside),
            Route("/sums", lambda _: json_list([Sum(value=1), Sum(value=None)])),
            Route("/loop", thread_name),
            Route("/beside", lambda _: HttpAnswer(f'"{threading.current_thread().name}"'.encode())),
            Route("/jobs/{job_id}", below),
            Route("/take", takes, method="POST"),
        ]
    )
    with serving(app) as listeners, Client(listeners) as connected:
        yield connected


def get(client: Client, path: str, *headers: str) -> tuple[int, dict[str, str], Any]:
    lines = "".join(f"{line}\r\n" for line in (f"GET {path} HTTP/1.1", "Host: x", *headers))
    client.send(lines.encode() + b"\r\n")
    return client.answer()


def test_models_are_answered_as_json(client: Client) -> None:
    status, headers, body = get(client, "/sum")
    assert (status, headers["content-type"], body) == (200, "application/json", {"value": 0.0})
    assert get(client, "/sums")[2] == [{"value": 1.0}, {"value": None}]


def test_a_plain_function_runs_beside_the_loop_and_a_coroutine_on_it(client: Client) -> None:
    assert get(client, "/beside")[2] == "ofu-worker"
    assert get(client, "/loop")[2] != "ofu-worker"


@pytest.mark.parametrize("job_id", ["7", "a/b", "", "%20%C3%A9"])
def test_a_part_in_braces_stands_for_the_rest_of_the_path(client: Client, job_id: str) -> None:
    decoded = {"%20%C3%A9": " é"}.get(job_id, job_id)
    status, _, body = get(client, f"/jobs/{job_id}", "Accept: a", "Accept: b")
    assert (status, body) == (200, [decoded, "a"])


def test_what_a_route_refuses_says_why(client: Client) -> None:
    status, headers, body = get(client, "/jobs/none")
    assert (status, body) == (404, {"detail": "no 'none' here"})
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/nope", "/", "/jobs", "/sum/", "/sum/x", "/summ"])
def test_a_path_without_a_route(client: Client, path: str) -> None:
    assert get(client, path)[::2] == (404, {"detail": "Not Found"})


def test_another_method_is_refused_with_the_one_there_is(client: Client) -> None:
    status, headers, _ = get(client, "/take")
    assert (status, headers["allow"]) == (405, "POST")


def test_a_body_is_read_whole_and_headers_are_added(client: Client) -> None:
    client.send(
        b"POST /take HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    )
    status, headers, body = client.answer()
    assert (status, headers["x-more"], headers["content-type"], body) == (201, "yes", TEXT, 5)
