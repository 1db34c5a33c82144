"""A job whose model is in its own code reports tokens, and a recipe tells the agent what a token costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ofu_exporter import flops
from ofu_exporter.client import Reporter
from tests.flops.test_recipes import RECIPE
from tests.helpers.agent import Agent, agent, until
from tests.helpers.job_node import Node, seconds
from tests.helpers.post import post

STEP = float(
    flops.count(flops.read(RECIPE), flops.fixed(1, tokens=64, images=1)).model_flops_per_step
)
RATE = 64 * 0.4 * 2 * 989.4e12 / STEP
"""Tokens per second at which two H100 are at an MFU of 0.4."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "recipes"
    made.mkdir()
    (made / "own.json").write_text(json.dumps(RECIPE))
    return made


@pytest.fixture
def running(tmp_path: Path, folder: Path) -> Iterator[Agent]:
    node = Node(tmp_path)
    node.start("7", "0", "1")
    with agent(*node.flags(), "--recipe-folder", str(folder)) as started:
        until(lambda: seconds(started) > 1.0)
        yield started


def test_a_recipe_is_taken_inside_a_report_and_by_name(running: Agent, folder: Path) -> None:
    body = {"job_id": "7", "tokens_per_second": RATE, "gpus": 2}
    for model in ({"recipe": RECIPE}, {"recipe": "own"}, {"recipe": "own", "seq_len": 64}):
        answer = post(running, {**body, "model": model})
        assert answer.status == 200, answer.body
        assert answer.body["mfu"] == pytest.approx(0.4, rel=2e-3)
    answer = post(running, {**body, "model": {"recipe": "absent"}})
    assert answer.status == 422
    assert "absent.json: No such file" in str(answer.body)
    odd = {**RECIPE, "terms": [{**RECIPE["terms"][0], "forward": {"images": 1e308}}]}
    answer = post(running, {**body, "model": {"recipe": odd}})
    assert answer.status == 422
    assert "recipe" in str(answer.body)
    assert len(str(answer.body)) < 10_000


def test_a_job_names_its_recipe_in_its_environment(
    running: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a Slurm script or a pod does: the training loop gives its tokens alone."""
    monkeypatch.setenv("OFU_EXPORTER_RECIPE", "own")
    with Reporter(job_id="7", url=running.url, every=0.05, gpus=2, enabled=True) as reporter:

        def answered() -> bool:
            reporter.report(tokens_per_second=RATE)
            return reporter.last_answer is not None

        until(answered)
    assert reporter.last_answer is not None
    assert reporter.last_answer["mfu"] == pytest.approx(0.4, rel=2e-3)
    until(lambda: running.value("ofu_job_reported_mfu_ratio", job_id="7") is not None)
