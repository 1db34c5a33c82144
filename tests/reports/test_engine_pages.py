"""What is read of the pages of serving engines. Each page is in the form that its engine writes or documents."""

from __future__ import annotations

import contextlib
import time
import tracemalloc

import pytest

from ofu_exporter.flops.readers import JobFacts, serving
from ofu_exporter.reports import engine_pages
from ofu_exporter.reports.engine_pages import EngineSeries, short_hash

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="meta-llama/Llama-3.1-8B"} 3.0
vllm:num_requests_waiting{engine="0",model_name="meta-llama/Llama-3.1-8B"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="meta-llama/Llama-3.1-8B",reason="capacity"} 1.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="meta-llama/Llama-3.1-8B"} 1.234567e+06
vllm:prompt_tokens_by_source_total{engine="0",model_name="meta-llama/Llama-3.1-8B",source="local_cache_hit"} 1000.0
vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="meta-llama/Llama-3.1-8B",source="device"} 1000.0
vllm:prompt_tokens_created{engine="0",model_name="meta-llama/Llama-3.1-8B"} 1.7e+09
vllm:prompt_tokens_cached_total{engine="0",model_name="meta-llama/Llama-3.1-8B"} 1000.0
vllm:prompt_tokens_recomputed_total{engine="0",model_name="meta-llama/Llama-3.1-8B"} 7.0
vllm:generation_tokens_total{engine="0",model_name="meta-llama/Llama-3.1-8B"} 5000.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="meta-llama/Llama-3.1-8B"} 40.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="meta-llama/Llama-3.1-8B"} 2.0
vllm:estimated_read_bytes_per_gpu_total{engine="0",model_name="meta-llama/Llama-3.1-8B"} 2.5e+13
process_start_time_seconds 1.76e+09
"""
"""Names and labels: those that PrometheusStatLogger of vLLM 0.33 wrote, and `recomputed`, which 0.33 has no more."""
SGLANG = """\
sglang:prompt_tokens_total{model_name="m"} 800.0
sglang:cached_tokens_total{cache_source="device",model_name="m"} 300.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 100.0
sglang:generation_tokens_total{model_name="m"} 90.0
sglang:num_requests_total{model_name="m"} 4.0
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 2.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 5.0
sglang:forward_execution_seconds_total{category="extend",model_name="m",tp_rank="0"} 1.5
sglang:forward_execution_seconds_total{category="decode",model_name="m",tp_rank="0"} 8.5
sglang:estimated_flops_per_gpu_total{model_name="m",tp_rank="0"} 2.8587570757632e+14
sglang:estimated_read_bytes_per_gpu_total{model_name="m",tp_rank="0"} 2.8039022903296e+14
"""
"""SGLang, python/sglang/srt/observability/metrics_collector.py. The last two are what `_estimate_prefill_perf` of
0.5.23 returned for 2,048 tokens of Llama 3 70B, whose weights are 1.4e11 bytes: it reads all of them for each token."""
SGLANG_RANKS = """\
sglang:num_running_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",priority="",tp_rank="0"} 3.0
sglang:num_running_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",priority="0",tp_rank="0"} 2.0
sglang:num_running_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",priority="5",tp_rank="0"} 1.0
sglang:num_running_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="1",priority="",tp_rank="0"} 3.0
sglang:num_running_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",priority="",tp_rank="1"} 2.0
sglang:num_running_reqs{dp_rank="1",engine_type="unified",model_name="m",moe_ep_rank="1",pp_rank="0",tp_rank="2"} 4.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",priority="",tp_rank="0"} 1.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",priority="0",tp_rank="0"} 1.0
"""
"""As SchedulerMetricsCollector of SGLang 0.5.23 wrote it with --enable-priority-scheduling, for ranks of one engine
(--pp-size 2, --enable-metrics-for-all-schedulers) and for another data-parallel one."""
SGLANG_PAIR = """\
sglang:prompt_tokens_total{engine_type="prefill",is_streaming="false",model_name="m"} 1000.0
sglang:generation_tokens_total{engine_type="prefill",is_streaming="false",model_name="m"} 1.0
sglang:cached_tokens_total{cache_source="device",engine_type="prefill",model_name="m"} 64.0
sglang:prompt_tokens_total{engine_type="decode",is_streaming="false",model_name="m"} 1000.0
sglang:generation_tokens_total{engine_type="decode",is_streaming="false",model_name="m"} 20.0
sglang:cached_tokens_total{cache_source="device",engine_type="decode",model_name="m"} 64.0
"""
"""As TokenizerMetricsCollector of SGLang 0.5.23 wrote it for one request to a disaggregated pair."""
LLAMA = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 21
llamacpp:prompt_tokens_cached_total 16
llamacpp:prompt_seconds_total 0.25
llamacpp:tokens_predicted_total 48
llamacpp:tokens_predicted_seconds_total 1.5
llamacpp:requests_processing 0
llamacpp:requests_deferred 0
"""
"""llama.cpp, as the server in tests/helpers/llama_server.py writes it."""
TENSORRT = """\
trtllm_prompt_tokens_total{engine_type="trtllm",model_name="Qwen/Qwen3-0.6B"} 500.0
trtllm_prompt_cached_tokens_total{engine_type="trtllm",model_name="Qwen/Qwen3-0.6B"} 100.0
trtllm_generation_tokens_total{engine_type="trtllm",model_name="Qwen/Qwen3-0.6B"} 60.0
trtllm_request_success_total{engine_type="trtllm",finished_reason="stop",model_name="Qwen/Qwen3-0.6B"} 150.0
trtllm_num_requests_running{engine_type="trtllm",model_name="Qwen/Qwen3-0.6B"} 2.0
trtllm_num_requests_waiting{engine_type="trtllm",model_name="Qwen/Qwen3-0.6B"} 0.0
"""
"""TensorRT-LLM, tensorrt_llm/metrics/collector.py, whose gauges `_iteration_stats_collector_loop` of
serve/openai_server.py sets when a request has ended, from the last pass that had one; Dynamo serves the same lines on
its own port, as the next."""
DYNAMO = """\
# TYPE dynamo_component_requests_total counter
dynamo_component_requests_total{dynamo_component="backend",dynamo_endpoint="generate",model="m"} 9
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 1.2e+03
vllm:generation_tokens_total{engine="0",model_name="m"} 3.4e+02
trtllm:request_success_total{engine_type="trtllm",finished_reason="stop",model_name="m"} 4.0
"""
"""Dynamo's documentation, backends: it passes its engine's lines on, beside its own; before 0.8 with a colon."""


def told(text: str) -> dict[tuple[str, str, str], float]:
    """Sums by what is counted, its kind and model."""
    page = engine_pages.read(text)
    assert page is not None
    sums: dict[tuple[str, str, str], float] = {}
    for series, value in [*page.counters.items(), *page.gauges.items()]:
        key = (series.measure, series.kind, series.model)
        sums[key] = sums.get(key, 0.0) + value
    return sums


def test_vllm() -> None:
    model = "meta-llama/Llama-3.1-8B"
    assert told(VLLM) == {
        ("tokens", "all prompt", model): 1_234_567.0,
        ("tokens", "cached", model): 1000.0,
        ("tokens", "recomputed", model): 7.0,
        ("tokens", "generation", model): 5000.0,
        ("requests", "", model): 42.0,
        ("bytes", "read", model): 2.5e13,
        ("running", "", model): 3.0,
        ("waiting", "", model): 1.0,
    }


def test_what_vllm_does_not_count_is_absent_and_an_idle_rank_of_one_that_counts_is_0() -> None:
    """PrometheusStatLogger of 0.33 wrote the first two lines without --enable-mfu-metrics."""
    rank, other = ('{engine="0",model_name="m"}', '{engine="1",model_name="m"}')
    page = (
        f"vllm:estimated_flops_per_gpu_total{rank} 0.0\n"
        f"vllm:estimated_read_bytes_per_gpu_total{rank} 0.0\n"
        f"vllm:generation_tokens_total{rank} 60.0\n"
    )
    assert told(page) == {("tokens", "generation", "m"): 60.0}
    counts = engine_pages.read(page + f"vllm:estimated_flops_per_gpu_total{other} 1e+15\n")
    assert counts is not None
    assert sorted(v for each, v in counts.counters.items() if each.measure == "flops") == [0, 1e15]


def test_sglang() -> None:
    assert told(SGLANG) == {
        ("tokens", "all prompt", "m"): 800.0,
        ("tokens", "cached", "m"): 400.0,
        ("tokens", "generation", "m"): 90.0,
        ("requests", "", "m"): 4.0,
        ("running", "", "m"): 2.0,
        ("waiting", "", "m"): 5.0,
        ("seconds", "extend", "m"): 1.5,
        ("seconds", "decode", "m"): 8.5,
        ("flops", "", "m"): 2.8587570757632e14,
    }


def test_requests_of_sglang_are_counted_once_whatever_their_priority_and_ranks() -> None:
    assert told(SGLANG_RANKS) == {("running", "", "m"): 3.0 + 4.0, ("waiting", "", "m"): 1.0}


def test_each_token_of_a_disaggregated_pair_is_that_of_the_engine_that_computed_it() -> None:
    assert told(SGLANG_PAIR) == {
        ("tokens", "all prompt", "m"): 1000.0,
        ("tokens", "cached", "m"): 64.0,
        ("tokens", "generation", "m"): 20.0,
    }


def test_tensorrt_llm_whose_gauges_are_of_a_time_before() -> None:
    model = "Qwen/Qwen3-0.6B"
    assert told(TENSORRT) == {
        ("tokens", "all prompt", model): 500.0,
        ("tokens", "cached", model): 100.0,
        ("tokens", "generation", model): 60.0,
        ("requests", "", model): 150.0,
    }


def test_dynamo_passes_its_engines_lines_on() -> None:
    assert told(DYNAMO) == {
        ("tokens", "all prompt", "m"): 1200.0,
        ("tokens", "generation", "m"): 340.0,
        ("requests", "", "m"): 4.0,
    }


def test_llama_cpp() -> None:
    assert told(LLAMA) == {
        ("tokens", "prompt", ""): 21.0,
        ("tokens", "cached", ""): 16.0,
        ("tokens", "generation", ""): 48.0,
        ("seconds", "prefill", ""): 0.25,
        ("running", "", ""): 0.0,
        ("waiting", "", ""): 0.0,
    }


def test_the_end_of_the_name_and_its_colon_may_be_otherwise() -> None:
    assert told("vllm_generation_tokens 5\n") == told("vllm:generation_tokens_total 5\n")


def test_a_page_of_something_else_says_nothing() -> None:
    assert engine_pages.read("node_load1 0.3\n# vllm:prompt_tokens_total 3\n") is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "many"])
def test_what_is_no_count_is_left_out(value: str) -> None:
    assert engine_pages.read(f"vllm:prompt_tokens_total {value}\n") is None


def test_a_models_name_may_have_what_text_escapes() -> None:
    page = engine_pages.read('vllm:prompt_tokens_total{model_name="a\\"},{\\\\b"} 3\n')
    assert page is not None
    assert [series.model for series in page.counters] == ['a"},{\\b']
    other = engine_pages.read('vllm:prompt_tokens_total{model="b"} 3\n')
    assert other is not None
    assert [series.model for series in other.counters] == ["b"]


def test_no_name_of_a_page_acts_on_a_terminal() -> None:
    page = engine_pages.read(
        'vllm:prompt_tokens_total{model_name="a\x1b[31m\\nb\u202e"} 3\n'
        'sglang:forward_execution_seconds_total{category="\x1b[2J"} 3\n'
    )
    assert page is not None
    names = {name for series in page.counters for name in (series.model, series.kind)}
    assert names == {r"a\x1b[31m\nb\u202e", r"\x1b[2J", "", "all prompt"}


def test_a_page_of_too_many_series_is_refused() -> None:
    page = "".join(f'vllm:prompt_tokens_total{{engine="{n}"}} 1\n' for n in range(2001))
    with pytest.raises(ValueError, match="over 2000 series"):
        engine_pages.read(page)


def test_of_a_page_of_many_processes_256_starts_are_read() -> None:
    page = engine_pages.read(
        "vllm:prompt_tokens_total 1\n" + "process_start_time_seconds 1\n" * 300
    )
    assert page is not None
    assert len(page.started) == 256


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        'vllm:prompt_tokens_totals{model_name="m"} 1\n',
        "process_start_time_seconds 1\n",
        "trainer_mfu 0.4\n",
        'vllm:estimated_flops_per_gpu_total{engine="0"} 1\n',
    ],
)
def test_a_page_of_16_mib_takes_no_memory_of_its_own(line: str) -> None:
    page = line * ((16 << 20) // len(line))
    tracemalloc.start()
    with contextlib.suppress(ValueError):  # of too many series
        engine_pages.read(page)
    engine_pages.gauge(page, "trainer_mfu")
    serving.read(page, JobFacts()) if serving.engine(page) else None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_a_line_without_an_end_is_no_row_and_takes_no_time() -> None:
    begun = time.process_time()
    assert engine_pages.read('vllm:prompt_tokens_total{a="' + "x" * (16 << 20)) is None
    assert time.process_time() - begun < 1


def test_labels_without_an_equals_sign_take_no_time() -> None:
    """While a pattern is matched, no other thread of the agent runs."""
    begun = time.process_time()
    engine_pages.read(f"vllm:prompt_tokens_total{{{'_' * 4000}}} 1\n" * 100)
    assert time.process_time() - begun < 2


def test_what_no_engine_counts_is_no_count() -> None:
    assert engine_pages.read("vllm:prompt_tokens_total 1e300\n") is None


@pytest.mark.parametrize("line", ['vllm:prompt_tokens_total{a="', "vllm:x{", "vllm:prompt_tokens "])
def test_a_page_that_means_harm_is_read_to_its_end(line: str) -> None:
    assert engine_pages.read(f"{line}\n" * 200_000) is None


def test_a_gauge_is_read_of_all_ranks() -> None:
    page = 'trainer_mfu_percent{rank="0"} 41\ntrainer_mfu_percent{rank="1"} 43\ntrainer_mfu_percents 1\n'
    assert engine_pages.gauge(page, "trainer_mfu_percent") == [41.0, 43.0]
    assert engine_pages.gauge("trainer_mfu_percent NaN\n", "trainer_mfu_percent") == []


def test_series_differ_by_their_labels() -> None:
    page = engine_pages.read(SGLANG)
    assert page is not None
    rank = short_hash('{model_name="m"}')
    assert EngineSeries("tokens", "generation", "m", rank) in page.counters
