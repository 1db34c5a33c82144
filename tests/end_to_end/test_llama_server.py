"""A real agent reads a real engine, llama.cpp's server: its sums are those that the answers to requests state."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.helpers import llama_server as llama
from tests.helpers.agent import agent, until
from tests.helpers.llama_server import llama_server
from tests.helpers.prometheus_server import free_port

for package in llama.NEEDS:
    pytest.importorskip(package, reason="pip install --group test-engine")

JOB = "1001"
"""A job of the simulated node."""


def test_the_tokens_of_llama_cpp_are_those_of_its_answers_over_a_restart(tmp_path: Path) -> None:
    model, port = tmp_path / "random.gguf", free_port()
    llama.write_model(model)
    file = tmp_path / "config.yaml"
    pull = {"job_id": JOB, "url": f"http://127.0.0.1:{port}/metrics", "every": 1}
    file.write_text(yaml.safe_dump({"pull": [{**pull, "role": "decode"}]}))
    truth: Counter[str] = Counter()
    with agent("demo", "--source", "simulate", "--config", str(file)) as running:

        def tokens() -> dict[str, float | None]:
            return {
                kind: running.value("ofu_job_tokens_total", job_id=JOB, kind=kind)
                for kind in ("prompt", "cached", "generation")
            }

        def served() -> bool:
            pulls = running.value("ofu_exporter_pulls_total", job_id=JOB, outcome="served") or 0
            return pulls > before

        for _ in range(2):  # the second is another process at the same address
            with llama_server(model, port) as engine:
                before = (
                    running.value("ofu_exporter_pulls_total", job_id=JOB, outcome="served") or 0
                )
                until(served)
                for prompt in ("hello there", "hello there", "good morning, everybody"):
                    truth.update(engine.complete(prompt, 24))
                until(lambda: tokens() == truth)
        assert truth["generation"] == 6 * 24
        assert truth["cached"] > 20  # the second prompt of each is that of the first
        assert running.value("ofu_job_requests_running", job_id=JOB) == 0
        assert running.value("ofu_job_engines", job_id=JOB, role="decode") == 1
        (row,) = json.loads(running.get(f"/v1/jobs/{JOB}")[1])["served"]
        assert row["tokens"] == truth
        assert row["forward_seconds"].keys() == {"prefill"}
        assert row["forward_seconds"]["prefill"] > 0
