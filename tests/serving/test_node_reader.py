"""What an agent says of its node is read, or is no answer."""

from __future__ import annotations

import json

import pytest

from ofu_exporter.serving.node_reader import read_node
from ofu_exporter.support.bounded_get import NoAnswerError
from tests.helpers.agent import SIMULATED, agent, page_server, until
from tests.helpers.every import every
from tests.helpers.scenes import shown_node

pytestmark = pytest.mark.xdist_group("shown node")

SENSELESS = ("1e999", "NaN", "-Infinity", "9" * 9999)


def node_with(number: str) -> str:
    """What an agent says of a node without GPUs that was sampled this many seconds ago."""
    node = {**shown_node().model_dump(mode="json"), "gpus": [], "jobs": []}
    return json.dumps({**node, "age_seconds": "AGE"}).replace('"AGE"', number)


def test_numbers_of_any_form_are_read() -> None:
    for number in ("0", "2", "2.5", "1e3", "1E-9"):
        page = node_with(number)  # made before it is asked for: the first one takes a second
        with page_server(lambda page=page: page) as url:  # type: ignore[misc]
            assert read_node(url.removesuffix("/metrics")).age_seconds == float(number)


def is_no_answer(body: str) -> None:
    with page_server(lambda: body) as url, pytest.raises(NoAnswerError, match="than /v1/node"):
        read_node(url.removesuffix("/metrics"))


@every(["[]", '{"node": 3}', "{", "[" * 100_000])
def test_an_answer_of_another_shape_is_no_answer(body: str) -> None:
    is_no_answer(body)


@every(SENSELESS)
def test_what_is_no_number_is_no_answer(number: str) -> None:
    is_no_answer(node_with(number))


@pytest.mark.slow
def test_what_an_agent_says_is_read() -> None:
    with agent(*SIMULATED) as running:
        until(lambda: running.value("ofu_gpu_up", gpu="0"))
        assert len(read_node(running.url).gpus) == 8
