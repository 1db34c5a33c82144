"""What is said of a Prometheus that does not answer as wanted, golden: each answer is given here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from ofu_exporter.errors import ConfigError, QueryError
from ofu_exporter.fleet.credentials import PrometheusAccess
from ofu_exporter.fleet.prometheus import PrometheusClient
from tests.doubles.query_server import ServerAnswer, error, query_server
from tests.fleet.test_prometheus import OTHERS, TOO_MUCH

STATUSES = (200, 204, 400, 404, 407, 413, 418, 422, 429, 500, 502, 503, 504)
KINDS = ("", "timeout", "bad_data", "execution", "422")
TEXTS = (
    "",
    "parse error: too many samples",
    "query would load too many samples",
    "exceeded maximum resolution",
    "the limit is 5",
    "Too Many Requests",
    "maxConcurrentRequests",
)
URLS = (
    *(
        "http://127.0.0.1:65536",
        "https://",
        "http://[::1",
        "http://a b",
        "http://a?b",
        "http://a#b",
    ),
    *("http://u:secret@a", "a:9090", "http://a/graph", "http://a/prometheus/alerts/", "http://a:"),
)


def answers() -> Iterator[tuple[str, ServerAnswer]]:
    yield from (
        (f"{status} {kind} {text}", error(status, kind, text))
        for status, kind, text in product(STATUSES, KINDS, TEXTS)
    )
    yield from TOO_MUCH
    for reason, answer in OTHERS:
        yield reason.value, answer
    for wait in ("0", "9999", "99999", "soon", "-1"):
        yield f"wait {wait}", ServerAnswer(429, b"no", {"Retry-After": wait})


def said(url: str, access: PrometheusAccess | None = None) -> str:
    try:
        client = PrometheusClient(
            url, access or PrometheusAccess(), {}, sleep=lambda _: None, timeout=5
        )
    except ConfigError as problem:
        return str(problem)
    try:
        return f"answered {client.instant('up')}"
    except ConfigError as problem:
        return str(problem)
    except QueryError as problem:
        return f"{problem.reason.value} {problem.retry_after} {problem}"
    finally:
        client.close()


def test_an_answer_is_told_in_the_words_that_it_was(golden: Callable[[str, str], None]) -> None:
    told = {"now": ServerAnswer(200, b"")}
    lines: dict[str, list[str]] = {}
    with query_server(lambda _: told["now"]) as server:
        for name, answer in answers():
            told["now"] = answer
            text = said(server.url).replace(server.url, "URL")
            lines.setdefault(text, []).append(name)
    both = PrometheusAccess(user="ada", bearer_token_file=None)
    lines[said("http://127.0.0.1:1", both)] = ["a user without a password"]
    urls = [f"{url}: {said(url)}" for url in URLS if "/" not in url.partition("://")[2]]
    text = "\n".join([*(f"{' | '.join(names)}: {said}" for said, names in lines.items()), *urls])
    golden("words/prometheus.txt", f"{text}\n")
