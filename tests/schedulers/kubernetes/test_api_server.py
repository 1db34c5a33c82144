"""An API server that answers too late, too much, something else, or is not the cluster's, costs no claim."""

from __future__ import annotations

import socket
import threading
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from ofu_exporter.errors import SchedulerError
from ofu_exporter.schedulers.kubernetes import api_server as asking
from ofu_exporter.schedulers.kubernetes import driver
from tests.doubles import api_server as doubles
from tests.doubles.api_server import ApiServer
from tests.helpers.agent import SOON
from tests.helpers.kubernetes_bench import Bench, holding
from tests.helpers.quiet_server import QuietHandler


def waits(handler: QuietHandler, stopped: threading.Event) -> None:
    stopped.wait()


def drips_headers(handler: QuietHandler, stopped: threading.Event) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not stopped.wait(0.02):
        handler.wfile.write(b"x")


def drips_a_body(handler: QuietHandler, stopped: threading.Event) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    while not stopped.wait(0.02):
        handler.wfile.write(b" ")


def hangs_up(handler: QuietHandler, stopped: threading.Event) -> None:
    handler.close_connection = True


def speaks_html(handler: QuietHandler, stopped: threading.Event) -> None:
    doubles.send(handler, b"<html>")


def nests(handler: QuietHandler, stopped: threading.Event) -> None:
    doubles.send(handler, b"[" * 100_000)


def has_no_end(handler: QuietHandler, stopped: threading.Event) -> None:
    doubles.send(handler, b" " * 200_000)


@pytest.mark.parametrize(
    "answer",
    [waits, drips_headers, drips_a_body, hangs_up, speaks_html, nests, has_no_end],
    ids=lambda answer: answer.__name__,
)
def test_an_api_server_that_does_not_answer_costs_no_claim(
    bench: Bench, answer: doubles.Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MAX_ANSWER_BYTES", 150_000)
    bench.seconds = SOON if answer in (speaks_html, nests, has_no_end, hangs_up) else 0.3
    bench.make()
    bench.api.answer = answer
    bench.hold(holding("p", "GPU-a"))
    bench.claims()
    assert set(bench.claims(after=10.0)) == {"ns/p"}
    assert bench.rejected == {"unreadable": 2}


@pytest.mark.slow
def test_many_questions_together_have_no_more_time_than_one(bench: Bench) -> None:
    """What there was no time for is asked in the next round."""

    def hangs_at_every_third(handler: QuietHandler, stopped: threading.Event) -> None:
        if len(bench.api.seen) % 3 == 0:
            stopped.wait()
        doubles.send(handler, b'{"metadata": {"name": "p"}, "status": {}}')

    bench.api.answer = hangs_at_every_third
    bench.seconds = 1.0
    bench.make()
    bench.hold(*(holding(f"p{number}", f"GPU-{number}") for number in range(4)))
    for _ in range(20):
        if len(bench.answer(after=20.0)) == 1 and len(bench.api.seen) > 4:
            break
    assert bench.claims() == {"ns/p": ("GPU-0", "GPU-1", "GPU-2", "GPU-3")}


@pytest.mark.parametrize(
    "document", [[], "pod", {}, {"metadata": {}, "status": {}}, {"metadata": 5}, 7]
)
def test_what_is_no_pod_is_counted(bench: Bench, document: object) -> None:
    bench.api.objects[doubles.pod_path("p")] = document
    bench.hold(holding("p", "GPU-a"))
    bench.claims()
    assert set(bench.claims(after=10.0)) == {"ns/p"}
    assert bench.rejected == {"malformed": 2}


def test_an_api_server_that_is_not_the_clusters_is_not_believed(bench: Bench, folder: Path) -> None:
    other = ApiServer(folder / "other")
    try:
        other.add(doubles.pod("p", {"ray.io/cluster": "ray"}))
        server = asking.ApiServer(bench.account, other.environ, SOON)
        options = driver.Options(kubelet_socket=bench.kubelet.path)
        bench.scheduler = driver.Scheduler(options, server, bench.clock)
        bench.claims(holding("p", "GPU-a"))
        assert set(bench.claims(after=10.0)) == {"ns/p"}
        assert other.seen == []
    finally:
        other.stop()


def test_outside_of_a_cluster_it_is_said_which_variable_is_missing(tmp_path: Path) -> None:
    with (
        pytest.raises(SchedulerError, match="KUBERNETES_SERVICE_HOST is not set"),
        asking.ApiServer(tmp_path, {}, SOON).connected(),
    ):
        pass


def test_the_token_is_read_anew(bench: Bench) -> None:
    """Kubernetes replaces it about once an hour."""
    bench.api.add(doubles.pod("p", {"ray.io/cluster": "ray"}))
    bench.api.token = "next"
    (bench.account / "token").write_text("next")
    assert set(bench.claims(holding("p", "GPU-a"))) == {"ns/ray"}


def test_after_its_time_no_question_is_asked_anew() -> None:
    late = threading.Event()
    late.set()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        host, port = listener.getsockname()
        connection = HTTPSConnection(host, port, timeout=0.2)
        with pytest.raises(SchedulerError, match="no answer in time"):
            asking._ask(connection, {}, late, "/")
        with pytest.raises(BlockingIOError):
            listener.accept()
