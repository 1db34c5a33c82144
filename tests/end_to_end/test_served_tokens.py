"""A real agent pulls a serving engine's page. Both restart in between: its sums are those that were served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.helpers.agent import agent, call, page_server, until

JOB = "1001"
"""A job of the simulated node."""


class Engine:
    """Serves pages as vLLM writes them; the truth is what it was told to serve."""

    def __init__(self) -> None:
        self.pulls = 0
        self.since_start = {"prompt_tokens": 5e6, "prompt_tokens_cached": 1e6}
        self.since_start |= {"generation_tokens": 2e6, "request_success": 1000.0}
        self.since_start |= {"estimated_flops_per_gpu": 9e15, "estimated_read_bytes_per_gpu": 3e14}

    def serve(self, prompt: int, cached: int, answer: int, requests: int) -> None:
        more = prompt, cached, answer, requests, 200 * answer * 1e9, 10 * answer * 1e9
        for name, grown in zip(self.since_start, more, strict=True):
            self.since_start[name] += grown

    def restart(self) -> None:
        self.since_start = dict.fromkeys(self.since_start, 0.0)

    def page(self) -> str:
        self.pulls += 1
        rows = (
            f'vllm:{name}_total{{engine="0",model_name="org/\\"m\\""}} {value:e}\n'
            for name, value in self.since_start.items()
        )
        running = 'vllm:num_requests_running{engine="0",model_name="org/\\"m\\""} 2.0\n'
        return running + "".join(rows)

    def pulled(self) -> None:
        """Waits until a pull that begins after this call has ended."""
        begun = self.pulls
        until(lambda: self.pulls >= begun + 2)


def test_tokens_and_requests_are_those_that_were_served(tmp_path: Path) -> None:
    engine = Engine()
    with page_server(engine.page) as url:
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump({"pull": [{"job_id": JOB, "url": url, "every": 1}]}))
        with agent("demo", "--source", "simulate", "--config", str(file)) as running:
            engine.pulled()
            engine.serve(prompt=9000, cached=2000, answer=700, requests=12)
            engine.pulled()
            engine.restart()
            engine.serve(prompt=500, cached=0, answer=60, requests=3)
            engine.pulled()
            labels = {"job_id": JOB, "served_model": 'org/"m"'}

            def tokens(kind: str) -> float | None:
                return running.value("ofu_job_tokens_total", kind=kind, **labels)

            until(lambda: running.value("ofu_job_requests_total", **labels) == 15)
            assert tokens("prompt") == 9000 - 2000 + 500
            assert tokens("cached") == 2000
            assert tokens("generation") == 760
            assert tokens("recomputed") is None
            assert running.value("ofu_job_requests_running", **labels) == 2
            _, body = running.get(f"/v1/jobs/{JOB}")
            job = json.loads(body)
            (served,) = job["served"]
            assert served["tokens"] == {"prompt": 7500, "cached": 2000, "generation": 760}
            assert (served["served_model"], served["requests"]) == ('org/"m"', 15)
            assert served["moved_bytes"] == {"read": 7600e9}
            assert served["flops"] == 152_000e9
            assert 2 <= served["seconds"] <= 60
            assert 0 < job["memory_ratio"] < 1
            moved = job["memory_ratio"] * 3.35e12
            assert job["memory_bytes_per_second"] == pytest.approx(moved, rel=1e-9)
            _, page = running.get(f"/jobs/{JOB}")
            assert "Served org/&#34;m&#34;: tokens prompt 7,500" in page
            assert "By the engine&#39;s own count memory moved" in page
            assert "At its 20 FLOPs a byte" in page


def pulling(folder: Path, url: str, *jobs: str) -> tuple[str, ...]:
    """The command line of an agent with a state file, which pulls the page for these jobs."""
    file = folder / "config.yaml"
    pulls = [{"job_id": job, "url": url, "every": 1} for job in jobs]
    file.write_text(yaml.safe_dump({"pull": pulls}))
    state = ("--state-file", str(folder / "state"), "--state-interval", "1s")
    return ("demo", "--source", "simulate", "--config", str(file), *state)


@pytest.mark.parametrize("killed", [False, True])
def test_a_restart_of_the_agent_neither_loses_nor_doubles_tokens(
    tmp_path: Path, killed: bool
) -> None:
    engine = Engine()
    with page_server(engine.page) as url:
        command = pulling(tmp_path, url, JOB)
        with agent(*command) as first:
            engine.pulled()
            engine.serve(prompt=9000, cached=2000, answer=700, requests=12)
            until(lambda: first.value("ofu_job_requests_total", job_id=JOB) == 12)
            engine.restart()
            engine.serve(prompt=500, cached=0, answer=60, requests=3)
            until(lambda: first.value("ofu_job_requests_total", job_id=JOB) == 15)
            written = first.value("ofu_exporter_state_writes_total", outcome="written") or 0
            until(
                lambda: (
                    (first.value("ofu_exporter_state_writes_total", outcome="written") or 0)
                    > written + 1
                )
            )
            first.kill() if killed else first.stop()
        engine.serve(prompt=100, cached=10, answer=5, requests=1)
        for _ in range(2):  # the second has nothing new to find
            with agent(*command) as second:
                until(lambda: second.value("ofu_job_requests_total", job_id=JOB) == 16)
                engine.pulled()
                tokens = {
                    kind: second.value("ofu_job_tokens_total", job_id=JOB, kind=kind)
                    for kind in ("prompt", "cached", "generation")
                }
                assert tokens == {"prompt": 7500 + 90, "cached": 2010, "generation": 765}
                assert second.value("ofu_job_requests_total", job_id=JOB) == 16
                seconds = second.value("ofu_job_engine_seconds_total", job_id=JOB)
                assert seconds is not None
                assert seconds > 2
                second.stop()


def test_other_engines_in_the_configuration_and_the_end_of_all_keep_the_sums(
    tmp_path: Path,
) -> None:
    engine = Engine()
    with page_server(engine.page) as url:
        with agent(*pulling(tmp_path, url, JOB)) as running:
            engine.pulled()
            engine.serve(prompt=9000, cached=2000, answer=700, requests=12)
            until(lambda: running.value("ofu_job_requests_total", job_id=JOB) == 12)
            pulling(tmp_path, url, JOB, "1002")
            running.logs("configuration applied")
            engine.serve(prompt=10, cached=0, answer=1, requests=1)
            until(lambda: running.value("ofu_job_requests_total", job_id=JOB) == 13)
            pulling(tmp_path, url)
            until(lambda: sum("configuration applied" in line for line in running.log) == 2)
            engine.serve(prompt=10, cached=0, answer=1, requests=1)
            engine.serve(prompt=10, cached=0, answer=1, requests=1)
            assert running.value("ofu_job_requests_total", job_id=JOB) == 13
            running.stop()
        shown = call("job", "show", JOB, "--state-file", str(tmp_path / "state"))
    assert "requests 13" in shown.stdout, shown.stdout + shown.stderr
