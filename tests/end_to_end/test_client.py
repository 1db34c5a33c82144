"""The client and the real agent: a simulated node's job reports and is answered with its OFU."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from ofu_exporter.client import Reporter
from tests.helpers.agent import Agent, agent, until

SIMULATED = ("run", "--source", "simulate", "--scheduler", "simulate", "--interval", "0.5s")


def job(running: Agent) -> str:
    """One of the node's jobs, once a job has a GPU."""
    until(lambda: re.search('ofu_gpu_info{[^}]*job_id="[^"]', running.get("/metrics")[1]))
    return str(json.loads(running.get("/v1/jobs")[1])[0]["job_id"])


def until_compared(reporter: Reporter) -> dict[str, object]:
    """Report until the agent has an OFU to answer with."""

    def compared() -> bool:
        reporter.report(mfu=0.5, step=1)
        answer = reporter.last_answer
        return answer is not None and answer["horizon"]["ofu"] is not None

    until(compared)
    assert reporter.counts == {**reporter.counts, "refused": 0, "failed": 0}
    assert reporter.last_answer is not None
    return reporter.last_answer


def test_a_report_is_answered_with_the_ofu_of_the_same_seconds(tmp_path: Path) -> None:
    path = tmp_path / "reports.sock"
    with agent(*SIMULATED, "--report-socket", str(path)) as running:
        job_id = job(running)
        for url in (running.url, f"unix:{path}"):
            with Reporter(
                job_id, url, every=0.6, gpus=8, precision="bf16", peak_tflops=989.4
            ) as it:
                answer = until_compared(it)
            assert answer["job_id"] == job_id
            assert answer["mfu"] == pytest.approx(0.5, rel=1e-3)
        until(lambda: running.value("ofu_job_reported_mfu_ratio", job_id=job_id))


def test_every_fact_is_known_to_the_agent() -> None:
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
              "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
              "vocab_size": 128}  # fmt: skip
    with agent(*SIMULATED) as running:
        job_id = job(running)
        common = {"gpus": 8, "precision": {"bf16": 0.5, "fp8": 0.5}, "recompute": "none",
                  "framework": "a loop", "tile_overhead": 0.02, "tile_overhead_bound": "lower"}  # fmt: skip
        for facts in ({"flops_per_token": 1e9}, {"model": {"config": config, "seq_len": 128}}):
            with Reporter(job_id, running.url, every=0.1, **common, **facts) as it:  # type: ignore[arg-type]

                def accepted(reporter: Reporter = it) -> bool:
                    reporter.report(tokens_per_second=1e4)
                    return reporter.counts["accepted"] > 0

                until(accepted)
                assert it.counts["refused"] == 0


def test_where_tokens_are_asked_for_the_client_brings_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("sesame-open-the-door\n")
    tokens.chmod(0o600)
    with agent(*SIMULATED, "--job-tokens", "--report-token-file", str(tokens)) as running:
        job_id = job(running)

        def refused(reporter: Reporter) -> int:
            reporter.report(mfu=0.5)
            return reporter.counts["refused"]

        with Reporter(job_id, running.url, every=0.1) as without:
            until(lambda: refused(without))
        monkeypatch.setitem(os.environ, "OFU_EXPORTER_TOKEN_FILE", str(tokens))
        with Reporter(job_id, running.url, every=0.6) as reporter:
            until_compared(reporter)
