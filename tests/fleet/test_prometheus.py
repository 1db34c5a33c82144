"""The client reads answers of the query API, and knows what each refusal means."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import yaml

from ofu_exporter.errors import ConfigError, QueryError
from ofu_exporter.fleet import prometheus as module
from ofu_exporter.fleet.credentials import NO_ACCESS, PrometheusAccess
from ofu_exporter.fleet.prometheus import PrometheusClient, collector_paused
from ofu_exporter.values.reasons import QueryReason
from tests.doubles.query_server import Question, ServerAnswer, error, query_server, vector
from tests.helpers.agent import SIMULATED, agent, until
from tests.helpers.certificates import Certificates
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import BEGIN, empty_victoria, put_into, stored_pages

TOO_MUCH: Sequence[tuple[str, ServerAnswer]] = (
    (
        "Prometheus, --query.max-samples",
        error(
            422,
            "execution",
            "query processing would load too many samples into memory in query execution",
        ),
    ),
    (
        "Prometheus, points",
        error(
            400,
            "bad_data",
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query "
            "resolution (?step=XX)",
        ),
    ),
    (
        "Prometheus, --query.timeout",
        error(503, "timeout", "query timed out in expression evaluation"),
    ),
    (
        "Mimir, chunks",
        error(
            422,
            "execution",
            "the query exceeded the maximum number of chunks (limit: 2000000 chunks) (err-mimir-max-chunks-per-query)",
        ),
    ),
    (
        "Mimir, length",
        error(
            400,
            "bad_data",
            "the query time range exceeds the limit (query length: 744h0m0s, limit: 720h0m0s)",
        ),
    ),
    (
        "VictoriaMetrics, samples",
        error(
            422,
            "422",
            "cannot select more than -search.maxSamplesPerQuery=1000000000 samples; possible solutions: ...",
        ),
    ),
    (
        "VictoriaMetrics, points",
        error(
            422,
            "422",
            "too many points for the given step=60000, start=1 and end=2: 43208; "
            "cannot exceed -search.maxPointsPerTimeseries=30000",
        ),
    ),
    (
        "VictoriaMetrics, points of a newer version",
        error(
            422,
            "422",
            "too many points for the given start=1, end=2 and step=1000: 200001; the maximum number of points "
            "is 30000; (see -search.maxPointsPerTimeseries command-line flag)",
        ),
    ),
    (
        "VictoriaMetrics, memory",
        error(
            422,
            "422",
            "not enough memory for processing m, which returns 3000300 data points across 300 time series with "
            "10001 points in each time series; total available memory for concurrent requests: 16000000 bytes; "
            "requested memory: 48304800 bytes; possible solutions are: reducing the number of matching time series",
        ),
    ),
    (
        "VictoriaMetrics, series",
        error(
            422,
            "422",
            "the response contains more than -search.maxResponseSeries=3 time series: 300 series; either increase "
            "-search.maxResponseSeries or change the query in order to return smaller number of series",
        ),
    ),
    ("a gateway that waits no longer", ServerAnswer(504, b"<html>Gateway Timeout</html>")),
)
OTHERS: Sequence[tuple[QueryReason, ServerAnswer]] = (
    (QueryReason.DENIED, ServerAnswer(401, b"Unauthorized\n")),
    (QueryReason.DENIED, ServerAnswer(403, b"<html>")),
    (QueryReason.DENIED, ServerAnswer(401, b"no org id")),
    (QueryReason.BUSY, ServerAnswer(503, b"upstream connect error")),
    (QueryReason.BUSY, error(429, "too_many_requests", "too many outstanding requests")),
    (
        QueryReason.BUSY,
        error(503, "503", "couldn't start executing the request, as -search.maxConcurrentRequests"),
    ),
    (QueryReason.REFUSED, error(400, "bad_data", 'parse error: unknown function "limit_x"')),
    (QueryReason.NOT_PROMETHEUS, ServerAnswer(404, b"404 page not found")),
    (QueryReason.NOT_PROMETHEUS, ServerAnswer(200, b"<!doctype html>")),
    (QueryReason.NOT_PROMETHEUS, ServerAnswer(200, b"[" * 100_000)),
    (QueryReason.NOT_PROMETHEUS, ServerAnswer(200, {"status": "success", "data": {"result": [1]}})),
    (QueryReason.NOT_PROMETHEUS, ServerAnswer(302, b"", {"Location": "https://login.example/"})),
)


OPENED: list[PrometheusClient] = []


@pytest.fixture(autouse=True)
def _all_are_closed() -> Iterator[None]:
    """A connection that is left open would be found by whichever test runs later."""
    yield
    while OPENED:
        OPENED.pop().close()


def client(url: str, access: PrometheusAccess = NO_ACCESS, **environ: str) -> PrometheusClient:
    return opened(PrometheusClient(url, access, environ, sleep=lambda _: None, timeout=20))


def opened(made: PrometheusClient) -> PrometheusClient:
    OPENED.append(made)
    return made


@pytest.mark.parametrize("told", [told for _, told in TOO_MUCH], ids=[name for name, _ in TOO_MUCH])
def test_a_query_that_is_too_large_is_known_as_such_and_not_asked_again(told: ServerAnswer) -> None:
    with query_server(lambda _: told) as server, pytest.raises(QueryError) as caught:
        client(server.url).instant("up")
    assert caught.value.reason is QueryReason.TOO_MUCH
    assert len(server.asked) == 1


@pytest.mark.parametrize(("reason", "told"), OTHERS)
def test_what_a_refusal_means(reason: QueryReason, told: ServerAnswer) -> None:
    with query_server(lambda _: told) as server, pytest.raises(QueryError) as caught:
        client(server.url).instant("up")
    assert caught.value.reason is reason
    assert reason.advice in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.asked) == (4 if reason is QueryReason.BUSY else 1)


def test_a_busy_server_is_asked_again_when_it_wants_to_be() -> None:
    waited: list[float] = []
    answers = iter(
        [error(429, "", "", retry_after="7"), ServerAnswer(503, b""), vector(({}, 5.0, "1"))]
    )
    with query_server(lambda _: next(answers)) as server:
        asked = opened(PrometheusClient(server.url, sleep=waited.append))
        assert asked.instant("up")[0].points == [(5.0, 1.0)]
    assert waited == [7.0, 2.0]


def test_a_server_that_refuses_unknown_parameters_is_asked_without() -> None:
    """https://github.com/GoogleCloudPlatform/prometheus-engine/issues/1054 has Google's answer."""

    def answer(question: Question) -> ServerAnswer:
        if other := [*question.form.keys() - {"query", "time", "start", "end", "step"}]:
            text = f'Invalid JSON payload received. Unknown name "{other[0]}": Cannot bind'
            return ServerAnswer(400, {"error": {"code": 400, "message": text}})
        return vector(({}, 5.0, "1"))

    with query_server(answer) as server:
        asked = client(server.url)
        assert [asked.instant("up")[0].points for _ in range(2)] == [[(5.0, 1.0)]] * 2
        asked.steps("up", 0.0, 60.0, 60.0)
    assert ["nocache" in each.form for each in server.asked] == [True, False, False, False]


def test_a_server_that_accepts_and_never_answers_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(QueryError, match="no answer within") as caught:
            opened(PrometheusClient(url, timeout=0.3)).instant("up")
    assert caught.value.reason is QueryReason.SILENT


def test_nobody_there_is_unreachable() -> None:
    with pytest.raises(QueryError, match="Check --prometheus") as caught:
        client("http://127.0.0.1:1").server_time()
    assert caught.value.reason is QueryReason.UNREACHABLE


@pytest.mark.slow
def test_the_address_of_an_agent_is_named_as_such() -> None:
    with agent(*SIMULATED) as running, pytest.raises(QueryError, match="is an agent") as caught:
        client(running.url).server_time()
    assert caught.value.reason is QueryReason.AN_AGENT
    assert "--hosts" in str(caught.value)


@pytest.mark.parametrize("path", ["/graph", "/query", "/prometheus/graph/"])
def test_the_address_of_a_page_is_named_as_such(path: str) -> None:
    with (
        query_server(lambda _: ServerAnswer(404, b"404 page not found")) as server,
        pytest.raises(QueryError, match="a page of Prometheus") as caught,
    ):
        client(server.url + path).server_time()
    assert caught.value.reason is QueryReason.A_PAGE


def test_what_is_neither_is_no_prometheus() -> None:
    page = ServerAnswer(200, b"<!doctype html>")
    with query_server(lambda _: page) as server, pytest.raises(QueryError) as caught:
        client(server.url).server_time()
    assert caught.value.reason is QueryReason.NOT_PROMETHEUS


@pytest.mark.parametrize("time_", ["NaN", "+Inf", "-1", "1e300"])
def test_a_server_whose_clock_shows_no_time_is_no_prometheus(time_: str) -> None:
    text = f'{{"status":"success","data":{{"resultType":"scalar","result":[5,"{time_}"]}}}}'
    answer = ServerAnswer(200, text.encode())
    refused = pytest.raises(QueryError, match="gives no time")
    with query_server(lambda _: answer) as server, refused as caught:
        client(server.url).server_time()
    assert caught.value.reason is QueryReason.NOT_PROMETHEUS


def test_an_answer_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    with (
        query_server(lambda _: ServerAnswer(200, b" " * (2 << 20))) as server,
        pytest.raises(QueryError, match="over 1 MiB") as caught,
    ):
        client(server.url).instant("up")
    assert caught.value.reason is QueryReason.TOO_MUCH


@pytest.mark.parametrize(
    ("fields", "why"),
    [  # https://thanos.io/tip/components/query.md/
        (
            {"warnings": ["No StoreAPIs matched for this query"]},
            "the server warns: No StoreAPIs matched for this query",
        ),
        # https://docs.victoriametrics.com/victoriametrics/cluster-victoriametrics/#cluster-availability
        ({"isPartial": True}, "the server marks its answer as partial"),
        ({"isPartial": False}, ""),
    ],
)
def test_an_answer_with_a_part_of_the_data_says_so_once(fields: dict[str, Any], why: str) -> None:
    with query_server(lambda _: ServerAnswer(200, {**vector().body, **fields})) as server:
        asked = client(server.url)
        asked.instant("x")
        assert (asked.take_partial_answer(), asked.take_partial_answer()) == (why, "")
    assert asked.cost.warnings == []


def test_what_a_server_warns_of_an_expression_is_kept_once_and_no_part_is_missing() -> None:
    """How Prometheus begins them: util/annotations/annotations.go, PromQLInfo and PromQLWarning."""
    text = 'PromQL info: metric might not be a counter, name does not end in _total: "x" (1:6)'
    with query_server(lambda _: ServerAnswer(200, {**vector().body, "warnings": [text]})) as server:
        asked = client(server.url)
        asked.instant("x")
        asked.instant("x")
    assert asked.cost.warnings == [text]
    assert asked.cost.queries == 2
    assert asked.take_partial_answer() == ""


def test_a_token_and_a_tenant_are_sent_with_every_question(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    token.chmod(0o600)
    access = PrometheusAccess(bearer_token_file=token, tenant="team-a")

    def answer(asked: Question) -> ServerAnswer:
        is_right = asked.headers.get("Authorization") == "Bearer s3cret"
        is_right = is_right and asked.headers.get("X-Scope-OrgID") == "team-a"
        return vector() if is_right else ServerAnswer(401, b"")

    with query_server(answer) as server:
        client(server.url, access).instant("x")
        with pytest.raises(QueryError, match="answers 401"):
            client(server.url).instant("x")
        client(
            server.url, PrometheusAccess(tenant="team-a"), OFU_EXPORTER_PROMETHEUS_TOKEN="s3cret"
        ).instant("x")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("prometheus:9090", r"not http\(s\)"),
        ("ftp://x", r"not http\(s\)"),
        ("http://", r"not http\(s\)"),
        ("http://u:hunter2@x:9090", "a password belongs into a file"),
        ("http://x:9090?a=b", r"not http\(s\)"),
        ("http://x:99999", r"not http\(s\)"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_and_shows_no_password(url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        PrometheusClient(url, environ={}).instant("x")
    assert "hunter2" not in str(caught.value)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Certificates]]:
    """A real Prometheus that lets nobody in without a certificate and a password."""
    folder = tmp_path_factory.mktemp("guarded")
    certificates = Certificates(folder / "certificates")
    password = bcrypt.hashpw(b"hunter2", bcrypt.gensalt(4)).decode()
    config = {
        "tls_server_config": {
            "cert_file": str(certificates.cert),
            "key_file": str(certificates.key),
            "client_auth_type": "RequireAndVerifyClientCert",
            "client_ca_file": str(certificates.ca),
        },
        "basic_auth_users": {"reader": password},
    }
    (folder / "web.yml").write_text(yaml.safe_dump(config))
    prometheus = Prometheus(folder, {}, [f"--web.config.file={folder / 'web.yml'}"])
    try:
        yield prometheus.url.replace("http:", "https:"), certificates
    finally:
        prometheus.stop()


@pytest.mark.slow
@pytest.mark.prometheus
@pytest.mark.filterwarnings("ignore:Exception ignored in. <ssl.SSLSocket")  # httpcore's
def test_a_real_prometheus_lets_in_who_has_certificate_and_password(
    guarded: tuple[str, Certificates], tmp_path: Path
) -> None:
    url, certificates = guarded
    secret = tmp_path / "password"
    secret.write_text("hunter2")
    secret.chmod(0o600)
    right = PrometheusAccess(
        user="reader", password_file=secret, ca=certificates.ca, client_cert=certificates.client
    )

    def answers() -> bool:
        try:
            return client(url, right).server_time() > 1e9
        except QueryError:
            return False

    until(answers, seconds=20)
    wrong = PrometheusAccess(user="reader", ca=certificates.ca, client_cert=certificates.client)
    with pytest.raises(QueryError, match="--password-file"):
        client(url, wrong, OFU_EXPORTER_PROMETHEUS_PASSWORD="other").server_time()
    for without in (PrometheusAccess(ca=certificates.ca), NO_ACCESS):
        with pytest.raises(QueryError, match=r"certificate.*--client-cert") as caught:
            client(url, without).server_time()
        assert caught.value.reason is QueryReason.DENIED
        del caught
        gc.collect()


@pytest.mark.slow
@pytest.mark.prometheus
def test_samples_at_both_ends_of_a_range_are_counted_once(tmp_path: Path) -> None:
    lines = [f"x {n} {BEGIN + 600 * n:.3f}" for n in range(13)]
    with stored_pages(tmp_path, "\n".join(["# TYPE x gauge", *lines, "# EOF", ""])) as prometheus:
        asked = client(prometheus.url)
        found = [
            value
            for hour in range(2)
            for one in asked.recorded("x", BEGIN + 3600 * hour, BEGIN + 3600 * (hour + 1))
            for _, value in one.points
        ]
    assert found == [*range(1, 13)]


@pytest.mark.slow
@pytest.mark.prometheus
def test_what_victoriametrics_has_since_the_end_of_a_range_at_midnight_is_in_it(
    tmp_path: Path,
) -> None:
    """It looks for series by the day, and vmalert records at the full hour: of a new job the last hour of a day."""
    midnight = BEGIN + 86400
    with empty_victoria(tmp_path) as server:
        put_into(server, [f"x 4 {1000 * midnight:.0f}", f"y 1 {1000 * BEGIN + 1000:.0f}"])
        asked = client(server.url)
        until(lambda: asked.instant("x", midnight + 1) != [])
        for answer in (
            asked.recorded("x", BEGIN, midnight),
            asked.steps("x", BEGIN, midnight, 3600),
        ):
            assert [one.points for one in answer] == [[(midnight, 4.0)]]
        assert asked.recorded("x", BEGIN, midnight - 1) == []
        assert asked.recorded("x", midnight, midnight + 60) == []


def test_the_collector_of_garbage_rests_within_the_block_and_goes_on_after_it() -> None:
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled(), "an inner block leaves it as it was"
    assert gc.isenabled()


def test_the_collector_of_garbage_goes_on_after_an_error() -> None:
    with pytest.raises(ValueError, match="seen"), collector_paused():
        raise ValueError("seen")
    assert gc.isenabled()
