"""A real agent pulls pages as each kind of engine writes them, over a restart: its sums are what was served.

Sources of the forms: tests/reports/test_engine_pages.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.flops.counting import config
from tests.helpers.agent import Agent, agent, page_server, until
from tests.reports.test_causes import llama_flops

JOB = "1001"
"""A job of the simulated node."""
KINDS = ("prompt", "cached", "generation")
Counts = dict[str, int]
"""Tokens by kind, each once, and requests."""


def vllm(counts: Counts, model: str) -> Iterator[str]:
    """Two data-parallel ranks, of which the second served a third, in scientific notation."""
    both = {**counts, "prompt": counts["prompt"] + counts["cached"]}
    names = {"prompt": "prompt_tokens", "cached": "prompt_tokens_cached"}
    names |= {"generation": "generation_tokens", "requests": "request_success"}
    for kind, name in names.items():
        second = both[kind] // 3
        for rank, value in enumerate((both[kind] - second, second)):
            labels = f'engine="{rank}",model_name="{model}"'
            labels += ',finished_reason="stop"' if kind == "requests" else ""
            yield f"vllm:{name}_total{{{labels}}} {value:.17e}"
    yield f'vllm:num_requests_running{{engine="0",model_name="{model}"}} 1.0'


def recorded_vllm(counts: Counts, model: str) -> Iterator[str]:
    """As rules and gateways write it: without the colon and the ending."""
    for line in vllm(counts, model):
        yield line.replace("vllm:", "vllm_").replace("_total{", "{")


def sglang(counts: Counts, model: str) -> Iterator[str]:
    device = counts["cached"] // 2
    rank = f'engine_type="unified",model_name="{model}",pp_rank="0",tp_rank="0"'
    yield f'sglang:prompt_tokens_total{{model_name="{model}"}} {counts["prompt"] + counts["cached"]}.0'
    yield f'sglang:cached_tokens_total{{cache_source="device",model_name="{model}"}} {device}.0'
    yield f'sglang:cached_tokens_total{{cache_source="host",model_name="{model}"}} {counts["cached"] - device}.0'
    yield f'sglang:generation_tokens_total{{model_name="{model}"}} {counts["generation"]}.0'
    yield f'sglang:num_requests_total{{model_name="{model}"}} {counts["requests"]}.0'
    yield f"sglang:num_running_reqs{{{rank}}} 1.0"
    yield f'sglang:forward_execution_seconds_total{{category="extend",{rank}}} {counts["prompt"] / 1e4}'


def tensorrt(counts: Counts, model: str) -> Iterator[str]:
    labels = f'engine_type="trtllm",model_name="{model}"'
    yield f"trtllm_prompt_tokens_total{{{labels}}} {counts['prompt'] + counts['cached']}.0"
    yield f"trtllm_prompt_cached_tokens_total{{{labels}}} {counts['cached']}.0"
    yield f"trtllm_generation_tokens_total{{{labels}}} {counts['generation']}.0"
    yield f'trtllm_request_success_total{{finished_reason="stop",{labels}}} {counts["requests"]}.0'
    yield f"trtllm_num_requests_running{{{labels}}} 1.0"


def dynamo(counts: Counts, model: str) -> Iterator[str]:
    """Its own lines, beside those of its engine."""
    yield f'dynamo_component_requests_total{{dynamo_component="backend",model="{model}"}} 99'
    yield from vllm(counts, model)


def llama(counts: Counts, model: str) -> Iterator[str]:
    """It names no model, and counts no requests."""
    yield f"llamacpp:prompt_tokens_total {counts['prompt']}"
    yield f"llamacpp:prompt_tokens_cached_total {counts['cached']}"
    yield f"llamacpp:tokens_predicted_total {counts['generation']}"
    yield "llamacpp:requests_processing 1"


WRITERS: dict[str, Callable[[Counts, str], Iterator[str]]] = {
    "m-vllm": vllm,
    "m-recorded": recorded_vllm,
    "m-sglang": sglang,
    "m-trtllm": tensorrt,
    "m-dynamo": dynamo,
    "": llama,
}


@dataclass
class Engine:
    model: str
    now: Counts = field(
        default_factory=lambda: {"prompt": 7000, "cached": 900, "generation": 400, "requests": 30}
    )
    pulls: int = 0

    def page(self) -> str:
        self.pulls += 1
        return "".join(f"{line}\n" for line in WRITERS[self.model](self.now, self.model))

    def serve(self, **more: int) -> None:
        for kind, value in more.items():
            self.now[kind] += value

    def restart(self) -> None:
        self.now = dict.fromkeys(self.now, 0)


@pytest.fixture
def engines() -> list[Engine]:
    return [Engine(model) for model in WRITERS]


def tokens(running: Agent, model: str) -> dict[str, float | None]:
    labels = {"job_id": JOB, "served_model": model}
    found = {kind: running.value("ofu_job_tokens_total", kind=kind, **labels) for kind in KINDS}
    return found | {"requests": running.value("ofu_job_requests_total", **labels)}


def test_each_kind_of_engine_is_added_up_over_a_restart(
    engines: list[Engine], tmp_path: Path
) -> None:
    with ExitStack() as stack:
        urls = [stack.enter_context(page_server(each.page)) for each in engines]
        pulls = [{"job_id": JOB, "url": url, "every": 1} for url in urls]
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump({"pull": pulls}))
        running = stack.enter_context(agent("demo", "--source", "simulate", "--config", str(file)))

        def pulled() -> None:
            begun = [each.pulls for each in engines]
            until(lambda: all(e.pulls >= n + 2 for e, n in zip(engines, begun, strict=True)))

        pulled()
        for number, each in enumerate(engines):
            each.serve(prompt=1000 + number, cached=201, generation=61, requests=7)
        pulled()
        for each in engines:
            each.restart()
            each.serve(prompt=50, cached=3, generation=9, requests=2)
        pulled()
        for number, each in enumerate(engines):
            truth = {"prompt": 1050 + number, "cached": 204, "generation": 70, "requests": 9}
            wanted = truth if each.model else {**truth, "requests": None}
            until(lambda each=each, wanted=wanted: tokens(running, each.model) == wanted)  # type: ignore[misc]
            requests = {"job_id": JOB, "served_model": each.model}
            is_told = each.model != "m-trtllm"  # its gauge may be of long ago
            assert running.value("ofu_job_requests_running", **requests) == (1 if is_told else None)
        assert running.value("ofu_job_engines", job_id=JOB, role="both") == len(engines)
        seconds = running.value("ofu_job_forward_seconds_total", job_id=JOB, phase="extend")
        assert seconds == pytest.approx((1002 + 50) / 1e4)


def test_a_trainers_own_gauge_becomes_its_reports(tmp_path: Path) -> None:
    page = 'trainer_mfu_percent{rank="0"} 30\ntrainer_mfu_percent{rank="1"} 34\nother 9\n'
    job = "1003"  # it serves, and reports nothing itself
    with page_server(lambda: page) as url:
        pull = {"job_id": job, "url": url, "every": 1, "metric": "trainer_mfu_percent"}
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump({"pull": [{**pull, "scale": 0.01, "precision": "bf16"}]}))
        with agent("demo", "--source", "simulate", "--config", str(file)) as running:
            until(lambda: running.value("ofu_job_reported_mfu_ratio", job_id=job) is not None)
            told = running.value("ofu_job_reported_mfu_ratio", job_id=job)
    assert told == pytest.approx((0.30 + 0.34) / 2)


def test_an_engine_that_counts_every_pair_of_attention_is_named_by_a_real_agent(
    tmp_path: Path,
) -> None:
    """Its FLOPs are the GPUs' work x what the mistake makes of prompts of 32,768 tokens, less 5 % that no count has."""
    job, gpus, peak = "1003", 2, 989.4e12
    ratio = llama_flops(32768, 1.0) / llama_flops(32768, 0.5) / 1.05
    watched: list[Agent] = []

    def page() -> str:
        done = watched[0].value("ofu_job_utilization_seconds_total", job_id=job) if watched else 0
        flops = ratio * peak * (done or 0.0) / gpus
        return f'vllm:estimated_flops_per_gpu_total{{engine="0",model_name="m"}} {flops:e}\n'

    with page_server(page) as url:
        model = {"config": config("llama-3-8b"), "seq_len": 32768}
        pull = {"job_id": job, "url": url, "every": 1, "precision": "bf16", "model": model}
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump({"pull": [pull]}))
        with agent("demo", "--source", "simulate", "--config", str(file)) as running:
            watched.append(running)
            until(lambda: running.values("ofu_job_divergence_cause", job_id=job), seconds=180)
            body = json.loads(running.get("/v1/node")[1])
    (told,) = (each["causes"] for each in body["jobs"] if each["job_id"] == job)
    # `undecided` may stand first
    assert "full_attention_counted" in [each["cause"] for each in told[:2]], told
