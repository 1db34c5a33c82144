"""A job's environment names the recipe of its model; what cannot be used costs the model and no report."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from ofu_exporter.client import Reporter, job_model
from tests.flops.test_recipes import RECIPE


def test_a_name_is_looked_up_by_the_agent_and_a_path_by_the_job(tmp_path: Path) -> None:
    assert job_model.facts({}) == {}
    assert job_model.facts({"OFU_EXPORTER_RECIPE": " own "}) == {"model": {"recipe": "own"}}
    path = tmp_path / "own.json"
    path.write_text(json.dumps(RECIPE))
    environ = {"OFU_EXPORTER_RECIPE": str(path), "OFU_EXPORTER_SEQ_LEN": "4096"}
    assert job_model.facts(environ) == {"model": {"recipe": RECIPE, "seq_len": 4096}}


def reporter(monkeypatch: pytest.MonkeyPatch, named: str, **facts: object) -> Reporter:
    monkeypatch.setenv("OFU_EXPORTER_RECIPE", named)
    made = Reporter(job_id="7", url="http://127.0.0.1:9", **facts)  # type: ignore[arg-type]
    made.close()
    assert made.disabled == ""
    return made


def test_a_model_that_the_program_names_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reporter(monkeypatch, "own")._facts == {"model": {"recipe": "own"}}
    assert reporter(monkeypatch, "own", flops_per_token=5.0)._facts == {"flops_per_token": 5.0}
    given = reporter(monkeypatch, "own", model={"recipe": "other"})
    assert given._facts == {"model": {"recipe": "other"}}


@pytest.mark.parametrize("content", [None, b"{", b"\xff", b" " * 300_000])
def test_a_recipe_that_cannot_be_read_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    content: bytes | None,
) -> None:
    path = tmp_path / "own.json"
    if content is not None:
        path.write_bytes(content)
    with caplog.at_level(logging.WARNING, "ofu_exporter.client"):
        assert reporter(monkeypatch, str(path))._facts == {}
    lines = [each for each in caplog.messages if each.startswith("OFU_EXPORTER_RECIPE is left out")]
    assert len(lines) == 1
