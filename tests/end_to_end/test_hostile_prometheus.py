"""A Prometheus that answers as none does - labels left out, times of another world, values without end - costs no
command its head: each ends with an answer, or with one line."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.doubles.query_server import Question, ServerAnswer, query_server
from tests.helpers.in_process import call
from tests.helpers.prometheus_server import Prometheus
from tests.helpers.stored_fleet import ScheduledJob, StoredNode, pages, stored_pages

pytestmark = [pytest.mark.slow, pytest.mark.prometheus]

NODES = [StoredNode("c", f"n{number}:9846", "NVIDIA H100 80GB HBM3", 4) for number in (1, 2)]
AWAY = StoredNode("c", "n3:9846", "NVIDIA H100 80GB HBM3", 4, away=(1.2, 2.1))
JOB = ScheduledJob("7", "alice", (*NODES, AWAY), 1, 3, 0.3, 0.6, verdict="mfu_above_ofu", cause="x")
TIME = ("--since", "4h", "--until", "2026-01-05T04:00Z")
FROM_DCGM = ("report", "--from", "dcgm-exporter", "--format", "json")
COMMANDS = (
    FROM_DCGM,
    ("report", "--by", "user"),
    ("report", "--by", "job", "--format", "html"),
    ("report", "--by", "model", "--format", "json"),
    ("job", "7"),
    ("job", "7", "--format", "html"),
    ("changes",),
    ("digest",),
)
LABELS = ("cluster", "instance", "job_id", "uuid", "gpu", "model", "of", "user", "job_name", "le")
DCGM = {
    **{"gpu": "0", "UUID": "GPU-a", "modelName": "NVIDIA H100 80GB HBM3", "pod": "p", "job": "d"},
    **{"namespace": "ml", "Hostname": "a", "instance": "a:9400", "device": "nvidia0"},
}
Change = Callable[[dict[str, Any]], None]


def without(name: str) -> Change:
    return lambda row: row["metric"].pop(name, None)


def labelled(text: str) -> Change:
    return lambda row: row["metric"].update(dict.fromkeys(row["metric"], text))


def at(time: object) -> Change:
    """The last sample at this time."""

    def change(row: dict[str, Any]) -> None:
        points = row["values"] if "values" in row else [row["value"]]
        points[-1][0] = time

    return change


def worth(value: str) -> Change:
    def change(row: dict[str, Any]) -> None:
        for point in row["values"] if "values" in row else [row["value"]]:
            point[1] = value

    return change


CHANGES: dict[str, Change] = {
    **{f"without {name}": without(name) for name in (*LABELS, *DCGM)},
    **{f"at {time}": at(time) for time in (1e300, -1e18, 0, -1, 1e12, 4e9)},
    **{f"worth {value}": worth(value) for value in ("1e300", "-1e18", "1.7e308", "NaN", "-0.0")},
    "half a pair": labelled("\ud800"),
    "no label at all": lambda row: row["metric"].clear(),
}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with stored_pages(
        tmp_path_factory.mktemp("stored"), pages([*NODES, AWAY], [JOB], 4)
    ) as running:
        yield running


@pytest.fixture(scope="module")
def asked(prometheus: Prometheus) -> Callable[[Question], bytes]:
    """What the server says: once to each question, since what it holds and the times that are asked for stay."""
    answers: dict[tuple[str, bytes], bytes] = {}

    def ask(question: Question) -> bytes:
        key = question.path, urllib.parse.urlencode(question.form).encode()
        if key not in answers:
            url = f"{prometheus.url}{question.path}"
            with urllib.request.urlopen(url, key[1], timeout=60) as answer:
                answers[key] = answer.read()
        return answers[key]

    return ask


def passed_on(
    asked: Callable[[Question], bytes], question: Question, change: Change
) -> ServerAnswer:
    """What the server says, changed. It knows nothing of dcgm-exporter, so of that an answer is made."""
    if "DCGM" in question.form.get("query", ""):
        question.form["query"] = "vector(0.4)"
    told = json.loads(asked(question))
    if told["data"]["resultType"] in ("vector", "matrix"):
        for row in told["data"]["result"]:
            row["metric"] = row["metric"] or dict(DCGM)
            change(row)
    return ServerAnswer(200, told)


@pytest.mark.parametrize("name", CHANGES)
def test_no_answer_of_a_server_ends_in_a_traceback(
    name: str, asked: Callable[[Question], bytes]
) -> None:
    is_theirs = name.removeprefix("without ") in DCGM.keys() - {*LABELS}
    with query_server(lambda question: passed_on(asked, question, CHANGES[name])) as server:
        for command in (FROM_DCGM,) if is_theirs else COMMANDS:
            done = call(
                "fleet", *command, "--prometheus", server.url, *TIME
            )  # raises what a user would see
            assert done.returncode in (0, 2, 3, 4), done.stderr
            assert done.returncode in (0, 4) or done.stderr.startswith("ofu-exporter: ")


@pytest.mark.parametrize("until", ["0001-01-01T00:00:00Z", "0001-01-01T00:00+23:59", "1970-01-01"])
def test_a_time_before_all_times_is_refused(until: str, prometheus: Prometheus) -> None:
    for command in ("report", "changes", "digest", "job"):
        more = ("7",) if command == "job" else ()
        done = call("fleet", command, *more, "--prometheus", prometheus.url, "--until", until)
        assert (done.returncode, done.stderr.startswith("ofu-exporter: --until")) == (2, True)
