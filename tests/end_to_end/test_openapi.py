"""No request that the OpenAPI description allows, and none that it forbids, makes the running agent fail."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ofu_exporter.reports.messages import MfuAnswer, MfuReport
from ofu_exporter.serving.report_routes import PATH, Problems
from tests.flops.counting import config
from tests.helpers.agent import agent, until
from tests.helpers.job_node import Node, seconds
from tests.helpers.schema_values import ANYTHING, spoilt, valid

BOUNDED = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
JOBS = ("7", "8", "head", "no such")
MODELS = (
    "llama-3-8b",
    "deepseek-v3",
    "nemotron-h-8b",
    "wan2.2-t2v-a14b",
    "qwen2.5-vl-7b",
    "vit-l-16",
)
SCHEMA = MfuReport.model_json_schema()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Of an agent that measures two jobs and keeps the reports of others; it must not have failed at the end."""
    node = Node(tmp_path_factory.mktemp("node"))
    node.start("7", "0", "1")
    node.start("8", "2")
    with agent(*node.flags(), "--unowned-reports") as running:
        until(lambda: seconds(running) > 1.0)
        with httpx.Client(base_url=running.url, timeout=300) as serving:
            yield serving
        assert not running.logged("Traceback"), "\n".join(running.log[-40:])


@cache
def described(client: httpx.Client) -> Any:
    return client.get("/openapi.json").json()


def post(client: httpx.Client, body: bytes) -> httpx.Response:
    """The answer, which must be one of those that are described, in their shape."""
    answer = client.post(PATH, content=body, headers={"content-type": "application/json"})
    responses = described(client)["paths"][PATH]["post"]["responses"]
    assert str(answer.status_code) in responses, (answer.status_code, answer.text)
    if answer.status_code == 200:
        MfuAnswer.model_validate_json(answer.content)
    else:
        assert Problems.model_validate_json(answer.content).detail
        assert len(answer.content) < 20_000
    return answer


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode("utf-8", "surrogatepass")


def test_the_schema_that_is_served_is_that_of_a_report(client: httpx.Client) -> None:
    served = described(client)["components"]["schemas"]["MfuReport"]
    assert served["properties"].keys() == SCHEMA["properties"].keys()
    assert served["required"] == SCHEMA["required"]


@BOUNDED
@given(st.data())
def test_a_report_that_the_description_allows(client: httpx.Client, data: st.DataObject) -> None:
    body = data.draw(valid(SCHEMA, SCHEMA))
    body["job_id"] = data.draw(st.sampled_from(JOBS))
    if body.get("model"):
        body["model"]["config"] = data.draw(models())
    post(client, encoded(body))


@BOUNDED
@given(st.data())
def test_a_report_in_one_way_with_any_facts(client: httpx.Client, data: st.DataObject) -> None:
    """Most of what the schema allows says two things at once; this gets further."""
    body = data.draw(valid(SCHEMA, SCHEMA))
    way = data.draw(st.sampled_from(["mfu", "model_flops_per_second", "tflops_per_gpu"]))
    for name in (
        "mfu",
        "model_flops_per_second",
        "tflops_per_gpu",
        "flops_per_token",
        "start",
        "end",
    ):
        body.pop(name, None)
    body |= {"job_id": data.draw(st.sampled_from(JOBS)), way: data.draw(st.floats(1e-9, 10))}
    if data.draw(st.booleans()):
        seq_len = data.draw(st.integers(1, 1 << 20))
        body["model"] = {"config": data.draw(models()), "seq_len": seq_len}
    if post(client, encoded(body)).status_code == 200:
        for path in ("/metrics", "/v1/jobs", f"/v1/jobs/{body['job_id']}", "/"):
            assert client.get(path).status_code in (200, 404)


@st.composite
def models(draw: st.DrawFn) -> Any:
    """A real configuration, of which a few fields are something else."""
    whole = config(draw(st.sampled_from(MODELS)))
    for key in draw(st.lists(st.sampled_from(sorted(whole)), max_size=3)):
        number = st.integers(-2, 12_000) | st.floats(-1, 1e6)
        whole[key] = draw(number | ANYTHING)
    return whole


@BOUNDED
@given(spoilt(SCHEMA, SCHEMA))
def test_a_report_that_the_description_forbids(client: httpx.Client, body: Any) -> None:
    post(client, encoded(body))


@BOUNDED
@given(ANYTHING)
def test_json_that_is_no_report(client: httpx.Client, body: Any) -> None:
    assert post(client, encoded(body)).status_code == 422


@BOUNDED
@given(st.binary(max_size=200))
def test_bytes_that_are_no_json(client: httpx.Client, body: bytes) -> None:
    assert post(client, body).status_code == 422


GOOD = b'{"job_id": "7", "mfu": 0.4, "precision": {"bf16": 0.3, "fp8": 0.7}}'


@BOUNDED
@given(st.randoms(use_true_random=False))
def test_a_report_with_damage(client: httpx.Client, luck: random.Random) -> None:
    damaged = bytearray(GOOD)
    for _ in range(luck.randint(1, 4)):
        damaged[luck.randrange(len(damaged))] = luck.randrange(256)
    post(client, bytes(damaged[: luck.randint(len(damaged) // 2, len(damaged))]))


@pytest.mark.parametrize(
    "body",
    [
        b'{"job_id": "7", "mfu": ' + b"9" * 5000 + b"}",
        b'{"job_id": "7", "step": -' + b"9" * 5000 + b"}",
        b'{"job_id": "7", "mfu": 0.' + b"9" * 5000 + b"}",
        b'{"job_id": "7", "mfu": 1e-99999}',
        b'{"job_id": "7", "mfu": -Infinity}',
        b'{"job_id": "7", "model": {"seq_len": 1, "config": ' + b'{"a":' * 900 + b"1" + b"}" * 902,
        b'{"job_id": "7", "precision": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'\xef\xbb\xbf{"job_id": "7", "mfu": 0.4}',
        '{"job_id": "7", "mfu": 0.4}'.encode("utf-16"),
        b'{"job_id": "7", "job_id": "8", "mfu": NaN}',
        b'{"job_id": "\\ud800", "mfu": 0.4}',
        b'{"job_id": "7\\u0000", "mfu": 0.4}',
    ],
    ids=range(12),
)
def test_what_parsers_stumble_over(client: httpx.Client, body: bytes) -> None:
    post(client, body)


@BOUNDED
@given(st.text(max_size=300))
def test_whatever_job_is_asked_for(client: httpx.Client, job_id: str) -> None:
    path = quote(job_id, safe="", errors="surrogatepass")
    assert client.get(f"/v1/jobs/{path}").status_code in (200, 404, 400)
