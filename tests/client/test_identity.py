"""A job's id, the process that reports and its token come from the environment."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from ofu_exporter.client import Reporter, identity
from ofu_exporter.client.identity import Token, job_id, speaks_for_node
from tests.flops.test_recipes import RECIPE
from tests.helpers.every import every


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({"OFU_EXPORTER_JOB_ID": "mine", "SLURM_JOB_ID": "7"}, "mine"),
        ({"SLURM_JOB_ID": "7", "POD_NAMESPACE": "ml", "POD_NAME": "run-0"}, "7"),
        ({"POD_NAMESPACE": "ml", "POD_NAME": "run-0", "HOSTNAME": "node1"}, "ml/run-0"),
        ({"POD_NAMESPACE": "ml", "HOSTNAME": "run-0"}, "ml/run-0"),
        ({"HOSTNAME": "workstation"}, ""),
        ({"POD_NAMESPACE": "ml"}, ""),
        ({}, ""),
    ],
)
def test_the_job_is_the_first_that_the_environment_tells(
    environ: dict[str, str], wanted: str, tmp_path: Path
) -> None:
    assert job_id(environ, tmp_path / "namespace") == wanted


def test_the_namespace_is_also_in_the_pods_service_account(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("ml\n")
    assert job_id({"HOSTNAME": "run-0"}, tmp_path / "namespace") == "ml/run-0"


@every(
    [
        ({}, True),
        ({"LOCAL_RANK": "0"}, True),
        ({"LOCAL_RANK": "3"}, False),
        ({"LOCAL_RANK": "3", "SLURM_LOCALID": "0"}, False),
        ({"SLURM_LOCALID": "1"}, False),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "1"}, False),
        ({"LOCAL_RANK": "", "SLURM_LOCALID": "0"}, True),
    ]
)
def test_the_process_with_local_rank_0_speaks_for_its_node(
    environ: dict[str, str], wanted: bool
) -> None:
    assert speaks_for_node(environ) is wanted


@every(
    [
        ({"OFU_RUN": " mine ", "WANDB_RUN_ID": "w"}, {"run": "mine"}),
        ({"WANDB_RUN_ID": "w"}, {"run": "w"}),
        ({"OFU_RUN": "x" * 256}, {"run": "x" * 256}),
        ({"OFU_RUN": "x" * 257}, {}),
        ({"OFU_RUN": "a\tb"}, {}),
        ({}, {}),
    ]
)
def test_a_run_goes_on_under_the_id_that_the_environment_tells(
    environ: dict[str, str], wanted: dict[str, str]
) -> None:
    assert identity.run(environ) == wanted


def test_a_token_comes_from_the_first_place_that_has_one(tmp_path: Path) -> None:
    (tmp_path / "named").write_text("from-a-file\n")
    (tmp_path / "77").write_text("of-the-job")
    environ = {"OFU_EXPORTER_TOKEN_FILE": str(tmp_path / "named")}
    assert Token("given", {"OFU_EXPORTER_TOKEN": "set"}, "77", tmp_path).value == "given"
    assert Token(None, {"OFU_EXPORTER_TOKEN": "set", **environ}, "77", tmp_path).value == "set"
    assert Token(None, environ, "77", tmp_path).value == "from-a-file"
    assert Token(None, {}, "77", tmp_path).value == "of-the-job"
    assert Token(None, {}, "78", tmp_path).value == ""


@pytest.mark.parametrize("job", ["../77", "ml/run-0", "", "77 "])
def test_only_a_number_names_a_token_file(job: str, tmp_path: Path) -> None:
    (tmp_path / "tokens").mkdir()
    (tmp_path / "77").write_text("of-another-job")
    assert Token(None, {}, job, tmp_path / "tokens").value == ""


def test_a_file_is_read_anew_when_asked(tmp_path: Path) -> None:
    (tmp_path / "77").write_text("old")
    token = Token(None, {}, "77", tmp_path)
    assert not token.reread()
    (tmp_path / "77").write_text("new")
    assert token.reread()
    assert token.value == "new"
    (tmp_path / "77").unlink()
    assert not token.reread()
    assert token.value == "new"


@pytest.mark.parametrize("content", [b"two\nlines", b"\xff\xfe", "schlüssel".encode(), b""])
def test_what_cannot_stand_in_a_header_is_no_token(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "77").write_bytes(content)
    assert Token(None, {}, "77", tmp_path).value == ""


def test_a_name_is_looked_up_by_the_agent_and_a_path_by_the_job(tmp_path: Path) -> None:
    assert identity.model_facts({}) == {}
    assert identity.model_facts({"OFU_EXPORTER_RECIPE": " own "}) == {"model": {"recipe": "own"}}
    path = tmp_path / "own.json"
    path.write_text(json.dumps(RECIPE))
    environ = {"OFU_EXPORTER_RECIPE": str(path), "OFU_EXPORTER_SEQ_LEN": "4096"}
    assert identity.model_facts(environ) == {"model": {"recipe": RECIPE, "seq_len": 4096}}


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


@pytest.mark.parametrize("content", [None, b"{", b"\xff", b"{}".ljust(200_001)])
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


def test_a_recipe_may_have_200_000_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_bytes(b"{}".ljust(200_000))
    assert reporter(monkeypatch, str(path))._facts == {"model": {"recipe": {}}}
