"""The HTTP face: everything from memory, and true about readiness."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi.testclient import TestClient
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from ofu_exporter.jobs.lookup import JobBook
from ofu_exporter.reports.book import ReportBook
from ofu_exporter.reports.messages import MfuReport
from ofu_exporter.serving.access import Access
from ofu_exporter.serving.app import LONGEST_BODY, create_app, refuse_two_ends
from ofu_exporter.serving.connections import READ_BYTES
from ofu_exporter.serving.guard import Guard
from ofu_exporter.serving.page import Page
from ofu_exporter.serving.read_access import ReadAccess
from ofu_exporter.serving.read_routes import unready
from ofu_exporter.settings import Settings
from ofu_exporter.values.reasons import Reason
from ofu_exporter.values.snapshot import Snapshot, SourceHealth
from tests.helpers.agent import PATIENCE
from tests.helpers.node import snapshot_of
from tests.helpers.odd_requests import HIDDEN, ODD_REQUESTS, PLAIN
from tests.helpers.sampled import SOON
from tests.helpers.server import Client, behind, serving, tell
from tests.helpers.values import FakeClock, fault, gpu, health, reading


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(5.0)


@pytest.fixture
def page(clock: FakeClock) -> Page:
    return Page(clock)


@pytest.fixture
def client(page: Page) -> Iterator[httpx.Client]:
    """A client of the application as uvicorn really serves it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            create_app(
                page,
                JobBook(page.snapshot, "node1"),
                ReportBook(page.snapshot),
                Guard(Access()),
                ReadAccess(),
            ),
            log_config=None,
            lifespan="off",
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with httpx.Client(base_url=url, timeout=SOON, verify=False) as serving:
            yield serving
        server.should_exit = True
        thread.join()


def test_metrics_are_text_unless_openmetrics_is_asked_for(page: Page, client: httpx.Client) -> None:
    page.publish(snapshot_of(reading()))
    plain = client.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    om = client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert om.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert om.text.endswith("# EOF\n")


def test_metrics_are_packed_for_who_can_unpack(page: Page, client: httpx.Client) -> None:
    page.publish(snapshot_of(reading()))
    assert client.get("/metrics").headers["content-encoding"] == "gzip"
    assert "ofu_gpu_utilization_ratio" in client.get("/metrics").text
    bare = client.get("/metrics", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in bare.headers


def test_alive_whatever_the_gpus_do(client: httpx.Client) -> None:
    assert (client.get("/healthz").status_code, client.get("/healthz").text) == (200, "ok\n")


def test_ready_with_a_fresh_sample_not_with_an_old_one(
    page: Page, client: httpx.Client, clock: FakeClock
) -> None:
    assert client.get("/readyz").status_code == 503
    page.publish(snapshot_of(reading()))
    assert client.get("/readyz").status_code == 200
    clock.now += 60
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.text.startswith("stale: ")


def test_readiness_says_what_to_do() -> None:
    down = SourceHealth("nvml", reason=Reason.NO_LIBRARY, detail="libnvidia-ml.so.1 not found")
    problem = unready(Snapshot(0.0, (), down))
    assert problem is not None
    assert "no_library (libnvidia-ml.so.1 not found)" in problem
    assert "Install the NVIDIA driver" in problem


def test_activity_and_clock_without_an_ofu_are_a_fresh_sample() -> None:
    assert unready(snapshot_of(reading(device=gpu(name="NVIDIA Z999")))) is None


def test_a_gpu_without_a_row_shows_all_but_its_ofu_and_the_row_to_write(
    page: Page, client: httpx.Client
) -> None:
    page.publish(snapshot_of(reading(hz=[1000e6] * 4, device=gpu(name="NVIDIA Z999"))))
    (shown,) = client.get("/v1/gpus").json()
    assert shown["unavailable"] == "unknown_model"
    assert 'gpus: [{name: "NVIDIA Z999", tensor_clock_hz: HZ}]' in shown["detail"]
    assert shown["window"]["tensor_active_ratio"] == 0.5
    assert shown["window"]["sm_clock_hz"] == 1000e6
    assert shown["window"]["utilization_ratio"] is None
    start = client.get("/").text
    assert "Tensor pipes active 50.0%. unknown model" in start
    assert "1000 MHz" in start


def test_one_measured_gpu_is_enough_to_be_ready() -> None:
    assert unready(snapshot_of(reading(), fault(5, device=gpu(1)))) is None


def test_health_and_readiness_have_the_names_of_other_programs_too(
    page: Page, client: httpx.Client
) -> None:
    assert client.get("/-/healthy").text == "ok\n"
    assert client.get("/-/ready").status_code == 503
    page.publish(snapshot_of(reading()))
    assert client.get("/-/ready").text == "ok\n"
    requests = client.get("/metrics").text
    assert 'ofu_exporter_http_requests_total{code="503",path="/-/ready"} 1.0' in requests


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    ["/", "/metrics", "/healthz", "/readyz", "/-/healthy", "/docs", "/openapi.json", "/v1/gpus"],
)
def test_head_has_the_head_of_get_and_no_body(page: Page, client: httpx.Client, path: str) -> None:
    page.publish(snapshot_of(reading()))
    client.headers["accept-encoding"] = "identity"
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == got.headers["content-type"]
    if path != "/metrics":  # its counts go on
        assert head.headers["content-length"] == str(len(got.content))
    assert client.get("/healthz").text == "ok\n", "the connection goes on"


def test_head_of_what_is_not_there_and_of_what_only_writes(client: httpx.Client) -> None:
    assert client.head("/wp-admin").status_code == 404
    assert client.head("/v1/mfu").status_code == 405


def test_gpus_say_whether_they_are_simulated(page: Page, client: httpx.Client) -> None:
    page.publish(snapshot_of(reading()))
    assert [each["simulated"] for each in client.get("/v1/gpus").json()] == [False]
    page.publish(snapshot_of(reading(), source=health("simulate", simulated=True)))
    assert [each["simulated"] for each in client.get("/v1/gpus").json()] == [True]
    two = replace(snapshot_of(reading()), other_sources=(health("replay", simulated=True),))
    page.publish(replace(two, gpus=tuple(view._replace(source="replay") for view in two.gpus)))
    assert [each["simulated"] for each in client.get("/v1/gpus").json()] == [True]


def test_requests_are_counted_and_a_scan_adds_no_series(client: httpx.Client) -> None:
    for path in ("/wp-admin", "/etc/passwd", "/metrics/../x", "/metrics/"):
        client.get(path)
    text = client.get("/metrics").text
    assert 'ofu_exporter_http_requests_total{code="404",path="other"} 4.0' in text
    assert "wp-admin" not in text


def test_every_route_is_counted_is_no_path_for_metrics_and_is_asked_by_a_test(
    page: Page, client: httpx.Client
) -> None:
    tests = "".join(each.read_text() for each in Path(__file__).parents[1].rglob("test_*.py"))
    paths = {"/docs", "/openapi.json", *client.get("/openapi.json").json()["paths"]}
    for path in paths:
        client.head(path.format(job_id="7"))
        asked = re.sub(r"\\{.*?\\}", r"[^ \"?]+", re.escape(path)) + r"[\"?/]"
        assert re.search(f'"{asked}', tests), f"no test asks {path}"
        with pytest.raises(ValidationError):
            Settings(telemetry_path=path)
    counted = client.get("/metrics").text
    jobs = {path for path in paths if "{" in path}
    assert [each for each in paths - jobs if f'path="{each}"' not in counted] == []
    assert 'path="/v1/jobs/{job_id}"' in counted
    assert "other" not in re.findall('requests_total{.*path="(.*)"}', counted)


def test_openapi_describes_the_reading_side(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/healthz", "/readyz"} <= set(paths)


def test_each_request_its_parameters_and_its_answers_are_described(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    operations = {f"{how} {path}": each for path in paths for how, each in paths[path].items()}
    wordless = [
        f"{name}: {part.get('name', code)}"
        for name, each in operations.items()
        for code, part in [*enumerate(each.get("parameters", ())), *each["responses"].items()]
        if not part.get("description")
    ]
    assert wordless == ["get /v1/jobs/{job_id}: job_id"]  # its name says it
    assert [name for name, each in operations.items() if not each.get("summary")] == []


PLAIN_NAMES = """
node gpu uuid gpu_instance name driver source sources gpus jobs scheduler job_id job_name user account partition
namespace window seconds tensor_active_ratio sm_clock_hz up simulated detail gpu_step_seconds job_step_seconds
end mfu verdict cause expected_ratio misfit evidence warnings
"""
"""Of fields that need no more words than their names."""


def test_all_other_fields_of_answers_are_described(client: httpx.Client) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    of_nodes = ("NodeJson", "NodeGpu", "NodeJob", "GpuJson", "WindowJson", "SourceJson")
    of_hours, of_reports = ("HistoryJson", "GpuHour", "JobHour"), ("MfuReport", "MfuAnswer")
    bare = {
        name
        for each in (*of_nodes, *of_hours, *of_reports, "Comparison", "LikelyCause")
        for name, field in schemas[each]["properties"].items()
        if "description" not in field
    }
    assert bare == {*PLAIN_NAMES.split()}


@pytest.fixture(scope="module")
def text() -> str:
    page = Page(FakeClock())
    book, reports = JobBook(page.snapshot, "node1"), ReportBook(page.snapshot)
    app = create_app(page, book, reports, Guard(Access()), ReadAccess())
    return TestClient(app).get("/docs").text


@pytest.mark.parametrize(
    "request_", ["/metrics", "/v1/gpus", "/v1/jobs/{job_id}", "/v1/history", "/readyz"]
)
def test_it_names_every_route(text: str, request_: str) -> None:
    assert f"<code>GET {request_}</code>" in text
    assert "<code>POST /v1/mfu</code>" in text


def test_it_explains_every_field_of_a_report(text: str) -> None:
    assert "<h2>The JSON body of POST /v1/mfu</h2>" in text
    for name, field in MfuReport.model_fields.items():
        assert f"<code>{name}</code>" in text
        assert field.description or name == "framework"
    assert re.search(r"<code>job_id</code></th>\n<td>.*? Needed[.]</td>", text)
    assert text.count(" Needed.") == 1


def test_a_browser_without_a_way_out_shows_all_of_it(text: str) -> None:
    """A page of Swagger would load its scripts from another host, and be empty on most nodes."""
    assert " src=" not in text
    assert set(re.findall(r'href="([^"]+)"', text)) == {"/openapi.json", "/"}


GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize("length", [LONGEST_BODY + 1, 1 << 32, 1 << 63, 1 << 64])
def test_a_length_that_a_proxy_may_not_hold_is_refused_at_once(length: int) -> None:
    with serving(behind(refuse_two_ends, tell)) as listeners, Client(listeners) as client:
        client.send(GET + b"Content-Length: %d\r\n\r\n" % length + HIDDEN)
        status, headers, body = client.answer()
        assert (status, headers["connection"]) == (413, "close")
        assert body == {"detail": "this length is more than anything here takes"}
        assert client.is_closed()


def test_both_a_length_and_chunks_are_refused_and_nothing_behind_them_is_read() -> None:
    with serving(behind(refuse_two_ends, tell)) as listeners, Client(listeners) as client:
        body = b"%x\r\n" % len(HIDDEN) + HIDDEN + b"\r\n0\r\n\r\n"
        client.send(GET + CHUNKED + b"Content-Length: 4\r\n\r\n" + body + HIDDEN)
        status, headers, answer = client.answer()
        assert (status, headers["connection"]) == (400, "close")
        assert answer == {"detail": "both a length and chunks"}
        assert client.is_closed()


@pytest.mark.parametrize("end", [b"", b"Content-Length: 0\r\n"])
def test_one_end_is_one_end(end: bytes) -> None:
    with serving(behind(refuse_two_ends, tell)) as listeners, Client(listeners) as client:
        for _ in range(2):
            client.send(GET + end + b"\r\n")
            assert client.answer()[0] == 200


Seen = tuple[bytes, bytes, tuple[tuple[bytes, bytes], ...], bytes]
"""Method, target, headers and body of a request that has reached the application as a whole."""
REFUSED = {
    "length and chunked",
    "chunked and length",
    "length hides what chunks show",
    "length above 64 bits",
    *("endless target", "endless value", "endless headers", "endless extension", "endless trailer"),
}
"""What uvicorn alone gives to an application: two ends, lengths that proxies cannot hold, endless heads at once."""


class Witness:
    """An application that tells of every request."""

    def __init__(self) -> None:
        self.seen: dict[int, list[Seen]] = {}
        """By the client's port."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        target = scope["raw_path"] + b"?" * bool(scope["query_string"]) + scope["query_string"]
        seen = (scope["method"].encode(), target, tuple(scope["headers"]), body)
        self.seen.setdefault(scope["client"][1], []).append(seen)
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


@contextlib.contextmanager
def ours(app: ASGIApp) -> Iterator[tuple[str, int]]:
    with serving(behind(refuse_two_ends, app)) as listeners:
        yield listeners.address.getsockname()[:2]


@contextlib.contextmanager
def uvicorns(app: ASGIApp) -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            app,
            http="h11",
            h11_max_incomplete_event_size=READ_BYTES,
            ws="none",
            lifespan="off",
            log_config=None,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield listening.getsockname()[:2]
        server.should_exit = True
        thread.join()


def read_by(address: tuple[str, int], witness: Witness, data: bytes, pause: float) -> list[Seen]:
    """What the application sees of what a client sends that says after a pause that it will say no more."""
    with socket.create_connection(address, PATIENCE) as client:
        port = client.getsockname()[1]
        with contextlib.suppress(ConnectionError):
            client.sendall(data)
            time.sleep(pause)
            with contextlib.suppress(OSError):  # it may have been closed by then
                client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
    return witness.seen.pop(port, [])


PAUSES = (0.0, 0.2, 1.0, 5.0)
"""Neither reads a request whose end has come before it was looked at, as on a busy machine."""


@pytest.mark.slow
def test_every_odd_request_is_read_as_by_uvicorn_alone_or_refused() -> None:
    differ = set()
    of_us, of_uvicorn = Witness(), Witness()
    with ours(of_us) as our_address, uvicorns(of_uvicorn) as address:
        for name, odd in ODD_REQUESTS.items():
            for pause in PAUSES:
                by_us = read_by(our_address, of_us, odd + PLAIN, pause)
                by_uvicorn = read_by(address, of_uvicorn, odd + PLAIN, pause)
                if by_us == ([] if name in REFUSED else by_uvicorn):
                    break
            else:
                differ.add(name)
    assert differ == set()
