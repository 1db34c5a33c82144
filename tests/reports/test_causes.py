"""The causes of a job's divergence, looked for with what its reports said."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ReportError
from ofu_exporter.flops import explain
from ofu_exporter.flops.causes import CauseFacts
from ofu_exporter.ofu.divergence import Thresholds, compare_sums
from ofu_exporter.reports.cause_question import CauseQuestion
from ofu_exporter.reports.causes import facts_of, likely_causes, right_mfu
from ofu_exporter.reports.hardware import Hardware
from ofu_exporter.reports.reported_model import counted_step
from ofu_exporter.reports.stated import stated_mfu
from ofu_exporter.values.reasons import ReportRejection
from ofu_exporter.values.reported import Causes, Compared
from tests.flops.causes.synthetic import LATENT
from tests.flops.counting import config
from tests.helpers.desk import hardware_of, said
from tests.helpers.every import every
from tests.helpers.values import H100, gpu

EIGHT = hardware_of(*(gpu(index) for index in range(8)))
PEAK = flops.dense_peak(H100, "bf16")
LLAMA = {"config": config("llama-3-8b"), "seq_len": 8192}
SUMS = Compared(0.5427 * 600, 0.2558 * 600, 600.0, 0.0)


def found(report: dict[str, Any], sums: Compared = SUMS) -> Causes:
    divergence = compare_sums(sums)
    assert divergence is not None
    of = said(**report)
    return likely_causes(
        CauseQuestion(sums, divergence, of, EIGHT, stated_mfu(of, EIGHT).peak_flops)
    )


def test_the_papers_latent_experts_are_the_first_cause() -> None:
    """arXiv:2605.20799, section V-C: 54.27 % reported, 25.58 % measured, 18.45 % when counted right."""
    model = {"config": dict(LATENT.config), "seq_len": 4096}
    told = {"mfu": 0.5427, "model": model, "gpus": 288, "precision": "bf16"}
    first = found(told).first
    assert first is not None
    assert first.cause.split("+")[0] == "latent_moe_full_hidden"
    assert float(first.evidence.rpartition("MFU: ")[2].rstrip("%")) == pytest.approx(
        18.45, abs=0.05
    )


HALF = Compared(0.2 * 600, 0.4 * 600, 600.0)
"""The report says half of what was measured, as with a peak that is twice the right one."""


def test_a_peak_that_was_not_said_may_be_the_mistake() -> None:
    causes = {each.cause for each in found({"mfu": 0.2, "precision": "bf16"}, HALF).fitting}
    assert {"sparse_peak", "fp8_peak_for_bf16", "gradient_accumulation"} <= causes


@pytest.mark.parametrize("said_as", [{"mfu": 0.2, "peak_tflops": 989.4}, {"tflops_per_gpu": 197.9}])
def test_a_peak_that_was_said_or_needed_none_is_not_the_mistake(said_as: dict[str, Any]) -> None:
    """The agent has converted to the right peak, or has divided by it itself."""
    causes = [each.cause for each in found({**said_as, "precision": "bf16"}, HALF).fitting]
    assert "gradient_accumulation" in causes
    assert not any("peak" in each for each in causes)


def test_where_nothing_was_reported_there_is_nothing_to_explain() -> None:
    assert found({"mfu": 0.4}, Compared(0.0, 100.0, 600.0)) == Causes()


@every([0.0, 0.1])
def test_where_the_gpus_did_next_to_nothing_no_cause_is_named_but_what_to_look_at(
    ofu_seconds: float,
) -> None:
    causes = found({"mfu": 0.4}, Compared(100.0, ofu_seconds, 600.0))
    assert causes.fitting == ()
    assert "the GPUs did almost nothing" in causes.advice


def test_where_a_cause_is_named_there_is_no_other_advice() -> None:
    causes = found({"mfu": 0.2, "precision": "bf16"}, HALF)
    assert causes.fitting
    assert causes.advice == ""


def test_a_model_that_breaks_the_search_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """No such configuration is known; the text is the reporter's own, and so is the fault."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("round and round")

    monkeypatch.setattr(explain, "explain", broken)
    with pytest.raises(ReportError, match="explained: ZeroDivisionError: round and round") as error:
        found({"mfu": 0.5427})
    assert (error.value.reason, error.value.field) == (ReportRejection.OUT_OF_RANGE, "model")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama-3-8b", "nemotron-h-8b", "qwen3-30b-a3b"])
def test_no_configuration_breaks_the_explanation(name: str) -> None:
    """Every number of a real configuration in turn as something that it never is."""
    whole = config(name)
    refusals = set()
    for key, value in whole.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            continue
        for odd in (0, -1, 0.5):
            report = {"mfu": 0.5427, "model": {"config": {**whole, key: odd}, "seq_len": 64}}
            try:
                ratios = [each.expected_ratio for each in found(report).fitting]
            except ReportError as error:
                refusals.add(error.field)
            else:
                assert all(map(math.isfinite, ratios)), (key, odd)
    assert refusals == {"model"}


def test_everything_that_a_job_says_may_be_used() -> None:
    report = said(
        mfu=0.4,
        peak_tflops=1979.0,
        gpus=64,
        precision={"bf16": 0.3, "fp8": 0.7},
        recompute="full",
        accumulation=8,
        pack_length=16384,
        model=LLAMA,
        tile_overhead=0.02,
        tile_overhead_bound="lower",
    )
    assert report.model is not None
    assert facts_of(report, EIGHT, 1234e12) == CauseFacts(
        step=counted_step(report.model),
        forward_only=False,
        recompute=flops.Recompute.FULL,
        gpu=H100,
        gpus=64,
        precision={"bf16": 0.3, "fp8": 0.7},
        peak_flops=1234e12,
        tile_overhead=0.02,
        tile_overhead_bound="lower",
        accumulation=8,
        pack_length=16384,
    )


def test_accumulation_and_packs_have_causes_that_their_facts_allow() -> None:
    """An eighth of what was measured is one micro-batch of eight; more than that, documents that fill packs."""
    eighth = Compared(0.05 * 600, 0.4 * 600, 600.0)
    few = {"mfu": 0.05, "precision": "bf16"}
    causes = found({**few, "accumulation": 8}, eighth).fitting
    assert [each.cause for each in causes] == ["gradient_accumulation"]
    assert found({**few, "accumulation": 1}, eighth).fitting == ()
    model = {"config": config("llama-3-8b"), "seq_len": 2048, "batch_size": 64}
    whole, short = (
        flops.count(flops.read(config("llama-3-8b")), lengths).model_flops_per_step
        for lengths in (flops.fixed(4, tokens=32768), flops.fixed(64, tokens=2048))
    )
    ratio = float(whole / short)
    packed = Compared(0.3 * ratio * 600, 0.32 * 600, 600.0)
    rate = 0.3 * 8 * PEAK / float(short) * 64 * 2048
    report = {"mfu": 0.3 * ratio, "precision": "bf16", "gpus": 8, "tokens_per_second": rate}
    report |= {"model": model, "pack_length": 32768}
    first = found(report, packed).first
    assert first is not None
    assert first.cause == "pack_as_one_sequence"


def test_what_a_report_does_not_say_is_not_known() -> None:
    facts = facts_of(said(mfu=0.4), EIGHT, 989e12)
    assert facts.gpu == H100
    assert (facts.step, facts.forward_only, facts.recompute, facts.gpus) == (None,) * 4
    assert (facts.precision, facts.tile_overhead) == (None, None)
    assert facts.peak_flops is None, "an MFU alone does not say what it was divided by"
    assert facts_of(said(mfu=0.4, peak_tflops=989), EIGHT, 989e12).peak_flops == 989e12


def test_a_gpu_that_is_not_in_the_table_is_not_named() -> None:
    unknown = Hardware(8, "NVIDIA Q999", peaks={"bf16": 1e15})
    assert facts_of(said(mfu=0.4), unknown, None).gpu is None
    assert facts_of(said(mfu=0.4), EIGHT, None).gpu == H100


@every(
    [
        ({"mfu": 0.4}, None),
        ({"mfu": 0.4, "peak_tflops": 989.4}, PEAK),
        ({"tflops_per_gpu": 400}, PEAK),  # it was divided here, by the right peak
        ({"tflops_per_gpu": 400, "peak_tflops": 989.4}, PEAK),
    ]
)
def test_the_peak_is_known_where_it_was_said_or_the_agent_divides(
    fields: dict[str, Any], known: float | None
) -> None:
    assert facts_of(said(**fields), EIGHT, PEAK).peak_flops == known


def test_the_right_mfu_needs_model_throughput_gpus_and_peak() -> None:
    told: dict[str, Any] = {"model": LLAMA, "tokens_per_second": 1e5, "gpus": 8}
    per_token = (
        flops.count(
            flops.read(config("llama-3-8b")), flops.fixed(1, tokens=8192)
        ).model_flops_per_step
        / 8192
    )
    right = right_mfu(said(**told), PEAK)
    assert right == pytest.approx(1e5 * float(per_token) / (8 * PEAK))
    assert right_mfu(said(**told), None) is None
    for missing in told:
        without = {key: value for key, value in told.items() if key != missing}
        assert right_mfu(said(mfu=0.4, **without), PEAK) is None, missing


def test_clocks_as_noisy_as_can_be_break_no_explanation() -> None:
    sums = Compared(0.9 * 600, 0.4 * 600, 600.0, variance=(3.0 * 600) ** 2)
    divergence = compare_sums(sums, thresholds=Thresholds(standard_errors=0.0))
    assert divergence is not None
    assert sums.error().ratio == pytest.approx(3.0)
    assert not likely_causes(CauseQuestion(sums, divergence, said(mfu=0.9), EIGHT, PEAK)).fitting


def engine_counts(text: str, seq_len: int, ratio: float, engine: str = "vllm") -> list[str]:
    """The causes that fit where an engine counts this many times what its GPUs run; they run 5 % more than products."""
    model = {"config": config(text), "seq_len": seq_len, "forward_only": True}
    report = {"tflops_per_gpu": 0.3 * ratio * 989.4, "framework": engine, "precision": "bf16"}
    sums = Compared(0.3 * ratio * 600, 0.3 * 1.05 * 600, 600.0, 0.0)
    return [each.cause for each in found({**report, "model": model}, sums).fitting]


def llama_flops(seq_len: int, pairs: float) -> float:
    """Of a token of a prompt in Llama-3-8B's layers; `pairs`: the share of all pairs of tokens. The head is not run."""
    hidden, heads, kv_heads, width, inner, layers = 4096, 32, 8, 128, 14336, 32
    projections = hidden * width * (2 * heads + 2 * kv_heads) + 3 * hidden * inner
    return layers * (2 * projections + 4 * heads * width * seq_len * pairs)


def deepseek_flops(seq_len: int, pairs: float, whole_heads: int = 0) -> float:
    """Of a token in DeepSeek-V3's layers, through its latents or by whole heads of this width."""
    hidden, layers, heads, query, latent, nope, rope = 7168, 61, 128, 1536, 512, 128, 64
    if whole_heads:
        projections, core = 4 * hidden * heads * whole_heads, 2 * whole_heads
    else:
        projections = hidden * (query + latent + rope) + query * heads * (nope + rope)
        projections += latent * heads * (nope + 128) + heads * 128 * hidden
        core = nope + rope + 128
    mlp = 3 * 3 * hidden * 18432 + 58 * (9 * 3 * hidden * 2048 + hidden * 256)
    return 2 * mlp + layers * (2 * projections + 2 * heads * core * seq_len * pairs)


def test_the_head_of_an_engines_model_is_left_out() -> None:
    """It runs for the last token of a prompt alone; here it would be 4 % of the FLOPs."""
    model = {"config": config("llama-3-8b"), "seq_len": 8192, "forward_only": True}
    step = facts_of(said(tflops_per_gpu=1.0, framework="vllm", model=model), EIGHT, PEAK).step
    assert step is not None
    assert step.flops() == pytest.approx(8192 * llama_flops(8192, 0.5), rel=1e-3)


def test_an_engine_that_counts_every_pair_of_a_prompt_is_found_out() -> None:
    ratio = llama_flops(32768, 1.0) / llama_flops(32768, 0.5)
    causes = engine_counts("llama-3-8b", 32768, ratio)
    assert "full_attention_counted" in causes[:2]  # `undecided` may stand first
    trains = {"gradient_accumulation", "forward_only", "activation_recompute", "recompute_counted"}
    assert trains.isdisjoint(name for each in causes for name in each.split("+"))


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_sglangs_whole_mlp_on_each_tensor_parallel_rank_is_found_out(ranks: int) -> None:
    """`_init_estimated_perf_constants` of SGLang 0.5.23 divides the heads by the ranks, and the MLP's width not."""
    mlp = 32 * 2 * 3 * 4096 * 14336
    attention = llama_flops(4096, 0.5) - mlp
    ratio = (attention / ranks + mlp) / ((attention + mlp) / ranks)
    assert engine_counts("llama-3-8b", 4096, ratio, "sglang")[0] == "mlp_on_each_rank"
    assert "mlp_on_each_rank" not in engine_counts("llama-3-8b", 4096, ratio, "vllm")


@pytest.mark.parametrize(("width", "pairs"), [(256, 0.5), (576, 1.0)])
def test_an_engine_that_counts_latent_attention_as_whole_heads_is_found_out(
    width: int, pairs: float
) -> None:
    """As SGLang 0.5.23 does, and vLLM before 0.24, which counts every pair besides."""
    ratio = deepseek_flops(4096, pairs, width) / deepseek_flops(4096, 0.5)
    causes = engine_counts("deepseek-v3", 4096, ratio)
    assert any("latent_attention_as_heads" in each.split("+") for each in causes[:2])


@pytest.mark.parametrize("counts_indexer", [False, True])
def test_an_engine_that_counts_sparse_attention_as_dense_is_found_out(counts_indexer: bool) -> None:
    """DeepSeek-V3.2 with an indexer that chooses 2,048 keys: vllm#40315."""
    sparse: dict[str, Any] = {"architectures": ["DeepseekV32ForCausalLM"]}
    sparse |= {"model_type": "deepseek_v32"}
    sparse |= {"index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048}
    length = 65536
    indexer = 61 * 2 * (7168 * 64 + 7168 * 128 + 1536 * 64 * 128 + 64 * 128 * length / 2)
    keys = 2048 - 2048**2 / 2 / length
    run = deepseek_flops(length, keys / length) + indexer
    model = {"config": {**config("deepseek-v3"), **sparse}, "seq_len": length, "forward_only": True}
    ratio = (deepseek_flops(length, 0.5) + indexer * counts_indexer) / run
    report = {"tflops_per_gpu": 0.2 * ratio * 989.4, "framework": "vllm", "precision": "bf16"}
    sums = Compared(0.2 * ratio * 600, 0.2 * 1.05 * 600, 600.0, 0.0)
    causes = [each.cause for each in found({**report, "model": model}, sums).fitting]
    assert "sparse_attention_as_dense" in causes[:2]
