"""Each cause has its ratio, and none where the facts exclude it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import Lora, Part, Passes, Recompute
from ofu_exporter.flops.candidates import RAREST_PAIR
from ofu_exporter.flops.causes import CauseFacts, Side, causes
from ofu_exporter.flops.causes.layers import capacity_run, mlp_on_each_rank
from ofu_exporter.flops.causes.peaks import wrong_device
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.flops.explain import Observation, causes_of_report, explain
from ofu_exporter.values.reported import Verdict
from tests.flops.causes import held_out
from tests.flops.causes.cards import DEEPSEEK_V32, FINAL
from tests.flops.causes.synthetic import (
    BERT,
    BF16,
    H100,
    HYBRID,
    LATENT,
    LLAMA,
    MIXTRAL,
    QWEN_MOE,
    SPARSE_HYBRID,
    Step,
    known,
    ratios,
)
from tests.flops.causes.test_recovery import CASES, WITH_THROUGHPUT
from tests.flops.counting import CONFIGS, NAMES, config
from tests.helpers.every import every
from tests.ofu.test_divergence import compare

PROMISED = (
    "activation_recompute",
    "sparse_peak",
    "fp8_peak_for_bf16",
    "bf16_peak_for_fp8",
    "tf32_peak",
    "wrong_device",
    "all_experts_counted",
    "latent_moe_full_hidden",
    "hybrid_as_dense",
    "full_attention_counted",
    "causal_half_missing",
    "embedding_counted",
    "head_omitted",
    "attention_omitted",
    "forward_only",
    "frozen_counted",
    "padding_counted",
    "wrong_gpu_count",
    "tile_quantization",
    "max_clock_peak",
)


def test_ratios_that_need_no_facts_are_those_of_the_documentation() -> None:
    for cause in causes():
        if re.fullmatch(r"[0-9./,; to]+", cause.shown_ratio):
            shown = {float(Fraction(each)) for each in re.findall(r"[0-9./]+", cause.shown_ratio)}
            for one in cause.hypotheses(CauseFacts()):
                assert {one.ratio, one.lowest or one.ratio} <= shown, cause.slug


def test_the_slugs_are_stable_and_one_each() -> None:
    slugs = [cause.slug for cause in causes()]
    assert {*PROMISED} <= {*slugs}
    assert len(slugs) == len({*slugs})
    assert all(re.fullmatch("[a-z0-9_]+", slug) for slug in slugs)


def test_of_causes_that_fit_alike_the_likelier_comes_first(
    golden: Callable[[str, str], None],
) -> None:
    ranked = sorted(causes(), key=lambda each: (each.rarity, each.slug))
    golden("rarities.txt", "".join(f"{each.rarity:g} {each.slug}\n" for each in ranked))


SPARSE_HALF = {**QWEN_MOE.config, "mlp_only_layers": [*range(24)], "intermediate_size": 2048}
"""Every second layer is dense, and narrower than the experts of a token."""
HALF = replace(QWEN_MOE, config=SPARSE_HALF)
RATIOS: list[tuple[str, CauseFacts, list[float]]] = [
    ("full_attention_counted", LLAMA.facts(), [1.1252]),
    ("attention_omitted", LLAMA.facts(), [0.8748]),
    ("embedding_counted", LLAMA.facts(), [1.0612]),
    ("head_omitted", LLAMA.facts(), [0.9388]),
    ("hybrid_as_dense", HYBRID.facts(), [1.750]),
    ("latent_moe_full_hidden", LATENT.facts(), [2.9386]),
    ("activation_recompute", LLAMA.facts(), [3 / (4 - 0.0612), 1.0]),
    ("activation_recompute", CauseFacts(), [0.75, 1.0]),
    ("recompute_counted", LLAMA.facts(), [4 / 3, (4 - 0.0612) / 3]),
    ("selective_recompute_counted", LLAMA.facts(), [1 + 0.12517 / 3]),
    ("flash_backward", LLAMA.facts(), [1 / (1 + 0.12517 / 6)]),
    ("max_clock_peak", LLAMA.facts(), [1830 / 1980]),
    ("bf16_peak_for_fp8", CauseFacts(precision={"fp8": 0.7, "bf16": 0.3}), [1 / 0.65]),
    ("tf32_peak", CauseFacts(precision={"tf32": 1.0}), [0.5]),
    ("tf32_peak", CauseFacts(precision=BF16, gpu=H100), [2.0]),
    ("repeats_missed", replace(LLAMA, passes=Passes(repeats=4)).facts(), [0.25]),
    (
        "wrong_gpu_count",
        CauseFacts(gpus=96),
        [
            *(96, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 3 / 2, 4 / 3, 96 / 88, 1 / 96),
            *(96 / 104, 3 / 4, 1 / 2, 1 / 4, 1 / 8),
        ],
    ),
    ("wrong_gpu_count", CauseFacts(gpus=1), [1 / 2, 1 / 4, 1 / 8]),
    ("other_convention", LLAMA.facts(), [1.1879, 1.1252, 1.1252, 1.0612]),
    ("selective_recompute", LLAMA.facts(), [1 / (1 + 0.12517 / 3)]),
    ("tile_quantization", CauseFacts(tile_overhead=0.1), [1 / 1.1]),
    ("fp4_peak", CauseFacts(gpu="NVIDIA B200", precision=BF16), [1 / 4]),
    ("fp4_peak", CauseFacts(gpu="NVIDIA B300 SXM6 AC", precision=BF16), [1 / 6]),
    ("measured_peak", CauseFacts(), [1.4]),
    ("measured_peak", CauseFacts(peak_flops=989.4e12), []),
    ("sparse_everywhere", HALF.facts(), [QWEN_MOE.flops() / HALF.flops()]),
    (
        "sparse_layers_omitted",
        SPARSE_HYBRID.facts(),
        [SPARSE_HYBRID.flops(without=(Part.EXPERTS, Part.ROUTER)) / SPARSE_HYBRID.flops()],
    ),
    ("mlp_on_each_rank", known(LLAMA, engine="sglang"), [1.6571, 2.9714, 5.5999, 10.857]),
    ("mlp_on_each_rank", known(LLAMA, engine="sglang", gpus=4), [1.6571, 2.9714]),
    ("mlp_on_each_rank", known(LLAMA, engine="vllm"), []),
    ("capacity_run", MIXTRAL.facts(), [1.0]),
    ("capacity_run", LLAMA.facts(), []),
]


@pytest.mark.parametrize(("slug", "facts", "expected"), RATIOS)
def test_ratios(slug: str, facts: CauseFacts, expected: list[float]) -> None:
    assert ratios(slug, facts) == pytest.approx(expected, rel=1e-3)


def test_every_cause_has_a_ratio_above_or_a_job_in_which_it_is_found() -> None:
    found = {each[0] for each in (*CASES, *WITH_THROUGHPUT)}
    found |= {name for each in held_out.planted("final", FINAL) for name in each.named}
    found |= {each[0] for each in RATIOS}
    assert {each.slug for each in causes()} ^ found == set(), "a cause has a row of RATIOS"


def test_experts_are_counted_with_the_usual_capacity_factors() -> None:
    """A half more places are a third expert of a token, beside two."""
    thrice, twice = (
        MIXTRAL.flops(config={**MIXTRAL.config, "num_experts_per_tok": places}) / MIXTRAL.flops()
        for places in (3, 4)
    )
    of_each = [(1 + thrice) / 2, thrice, twice]
    assert ratios("capacity_counted", MIXTRAL.facts()) == pytest.approx(of_each)


BESIDE_PCIE = CauseFacts(gpu=H100, precision=BF16, present=frozenset({"NVIDIA H100 PCIe"}))


@pytest.mark.parametrize(
    ("ratio", "facts", "ordered"),
    [
        (
            2.0,
            CauseFacts(),
            "bf16_peak_for_fp8 wrong_gpu_count tf32_peak time_left_out gradient_accumulation",
        ),
        (
            2.0,
            CauseFacts(accumulation=2),
            "gradient_accumulation bf16_peak_for_fp8 wrong_gpu_count tf32_peak time_left_out",
        ),
        (
            1 / 2,
            CauseFacts(gpus=10),
            "sparse_peak fp8_peak_for_bf16 tf32_peak gradient_accumulation wrong_gpu_count warm_up_in_mean",
        ),
        (1 / 4, CauseFacts(), "fp4_peak gradient_accumulation"),
        (16.0, CauseFacts(gpus=96), "wrong_gpu_count gradient_accumulation"),
        (3.0, CauseFacts(gpus=96), "forward_only wrong_gpu_count"),
        (989.4 / 756, BESIDE_PCIE, "wrong_device time_left_out measured_peak"),
    ],
)
def test_causes_of_one_ratio_come_in_the_order_of_how_often_they_are_made(
    ratio: float, facts: CauseFacts, ordered: str
) -> None:
    """Those that the job's own accumulation or another card of its node makes likelier come first."""
    told = causes_of_report(0.2 * ratio, 0.2, facts)
    assert " ".join(each.cause for each in told) == ordered


@pytest.mark.parametrize(("world", "is_tried"), [(6 * 256, True), (6 * 257, False)])
def test_a_data_parallel_size_is_of_copies_on_256_gpus_at_most(world: int, is_tried: bool) -> None:
    assert (world / 6 in ratios("wrong_gpu_count", CauseFacts(gpus=world))) == is_tried


def test_a_capacity_factor_may_leave_as_many_places_empty_as_are_filled() -> None:
    (one,) = capacity_run.hypotheses(MIXTRAL.facts())
    twice = {**MIXTRAL.config, "num_experts_per_tok": 4}
    assert one.lowest == pytest.approx(MIXTRAL.flops() / MIXTRAL.flops(config=twice))


def test_of_experts_an_engines_cause_names_no_number_of_ranks() -> None:
    """SGLang 0.5.23 counts one of Mixtral's two experts on each of 8 ranks, as often as both would be on 4."""
    dense, sparse = (
        [each.evidence for each in mlp_on_each_rank.hypotheses(known(of, engine="sglang"))]
        for of in (LLAMA, MIXTRAL)
    )
    assert dense[2] == "SGLang counts the whole MLP on each of 8 tensor-parallel ranks"
    assert sparse == [""] * 4


@pytest.mark.parametrize(
    ("slug", "facts"),
    [
        ("activation_recompute", CauseFacts(recompute=Recompute.NONE)),
        ("activation_recompute", CauseFacts(forward_only=True)),
        ("selective_recompute", known(LLAMA, recompute=Recompute.FULL)),
        ("sparse_peak", CauseFacts(gpu="Tesla T4")),
        ("sparse_peak", CauseFacts(gpu=H100, precision=BF16, peak_flops=989.4e12)),
        ("fp8_peak_for_bf16", CauseFacts(precision={"fp8": 1.0})),
        ("fp8_peak_for_bf16", CauseFacts(gpu="NVIDIA A100-SXM4-80GB", precision=BF16)),
        ("bf16_peak_for_fp8", CauseFacts(precision=BF16)),
        ("bf16_peak_for_fp8", CauseFacts(gpu="NVIDIA A100-SXM4-80GB")),
        ("wrong_device", CauseFacts(gpu=H100, precision=BF16, peak_flops=989.4e12)),
        ("max_clock_peak", CauseFacts(gpu="NVIDIA A100-SXM4-80GB", precision=BF16)),
        ("hybrid_as_dense", LLAMA.facts()),
        ("latent_moe_full_hidden", HYBRID.facts()),
        ("all_experts_counted", LLAMA.facts()),
        ("full_attention_counted", BERT.facts()),
        ("causal_half_missing", LLAMA.facts()),
        ("frozen_counted", LLAMA.facts()),
        ("padding_counted", LLAMA.facts()),
        ("forward_only", CauseFacts(forward_only=True)),
    ],
)
def test_facts_exclude(slug: str, facts: CauseFacts) -> None:
    left = ratios(slug, facts)
    assert left == ([3.0] if slug == "forward_only" else [])


@pytest.mark.parametrize("slug", [cause.slug for cause in causes()])
def test_some_job_makes_it_possible(slug: str) -> None:
    found = [ratio for facts in every_facts() for ratio in ratios(slug, facts)]
    assert found
    assert all(0 < ratio < math.inf for ratio in found)


@cache
def every_facts() -> list[CauseFacts]:
    """Of every configuration, of an adapter, of packed and padded sequences, on two GPUs, in two precisions."""
    whole = [Step(config(name), flops.fixed(2, **streams(name))) for name in NAMES]
    adapted = replace(LLAMA, passes=Passes(lora=Lora(8), repeats=2))
    packed = replace(LLAMA, lengths=flops.packed([700, 1500, 900, 3000]))
    padded = replace(LLAMA, padded=flops.fixed(8, tokens=9000))
    predicting = CountedStep(
        flops.read(config("deepseek-v3")), LLAMA.lengths, flops.Counting(predictions=True), Passes()
    )
    chosen = CountedStep(
        flops.read(DEEPSEEK_V32.config()), flops.fixed(1, tokens=8192), flops.Counting(), Passes()
    )
    served = known(LLAMA, engine="sglang")
    return [CauseFacts(predicting), CauseFacts(chosen), served] + [
        replace(each, gpu=gpu, precision={precision: 1.0}).facts()
        for each in (*whole, LATENT, adapted, packed, padded)
        for gpu in (H100, "NVIDIA B200")
        for precision in ("bf16", "fp8")
    ]


def streams(name: str) -> dict[str, int]:
    """512 of everything that the configuration's model reads."""
    return dict.fromkeys(flops.read(config(name)).streams, 512)


@every(
    [
        "A40, and",
        "B200 or one other rated alike, and",  # B300
        "H100-NVL or 2 others rated alike, and",  # H800 and H200 NVL
        "A100-SXM4-40GB or 8 others rated alike, and",  # the other A100s, PG506 too, and four A800s
    ]
)
def test_evidence_says_how_many_cards_share_a_peak(words: str) -> None:
    facts = CauseFacts(gpu=H100, precision=BF16, present=frozenset({"NVIDIA A100-SXM4-40GB"}))
    found = [one.evidence for one in wrong_device.hypotheses(facts)]
    assert f"the peak is that of {words} the GPU is H100-SXM5-80GB" in found


@pytest.mark.parametrize("mfu", [0.3, 0.6, 1.0, 2.0, 6.0])
@pytest.mark.parametrize("ofu", [0.3, 0.6, 0.9])
def test_no_corrected_mfu_is_above_100_percent(mfu: float, ofu: float) -> None:
    for each in explain(Observation(mfu, ofu, 0.2), LLAMA.facts()).causes:
        corrected = re.findall(r"corrected MFU: ([\d.]+)%", each.evidence)
        assert all(float(value) <= 100 for value in corrected), each


def test_the_order_is_what_the_output_claims() -> None:
    for ratio in (0.5, 0.8, 1.2, 2.0, 3.0, 8.0):
        found = explain(Observation(0.1 * ratio, 0.1, 0.004), LLAMA.facts()).causes
        alone = [each.score for each in found if len(each.causes) == 1]
        together = [each.score for each in found if len(each.causes) == 2]
        assert alone == sorted(alone)
        assert together == sorted(together)
        for each in found:
            assert each.score == pytest.approx(each.misfit**2 / 2 + each.rarity)


def test_two_mistakes_of_one_count_are_counted_together() -> None:
    """All experts at the full hidden size are more than either, and more than their product."""
    every = {**LATENT.config, "num_experts_per_tok": 256, "moe_latent_size": None}
    both = LATENT.flops(config=every) / LATENT.flops()
    found = explain(Observation(0.03 * both, 0.031, 0.0005), known(LATENT, gpus=None))
    assert set(found.causes[0].causes) == {"all_experts_counted", "latent_moe_full_hidden"}
    assert found.causes[0].expected_ratio == pytest.approx(both, rel=1e-6)


def test_an_exact_count_leaves_one_sort_of_cause() -> None:
    """MFU as the throughput makes it, below OFU: nothing in the report is wrong, and only work can be missing."""
    found = explain(Observation(0.3, 0.4, right_mfu=0.3), LLAMA.facts())
    sides = {cause.slug: cause.side for cause in causes()}
    assert found.causes[0].cause == "activation_recompute"
    assert all(sides[slug] is Side.HARDWARE for slug in found.causes[0].causes)


def test_what_was_tried_for_one_job_is_not_taken_for_another() -> None:
    """Neither the model nor the precision is in the hash by which it is kept."""
    llama = LLAMA.facts()
    jobs = (llama, replace(llama, precision={"fp8": 1.0}), replace(llama, step=HYBRID.facts().step))
    assert len({hash(each) for each in jobs}) == 1
    assert len({explain(Observation(0.8, 0.4), each).causes for each in jobs}) == 3


def test_no_convention_counts_lengths_that_the_model_does_not_have() -> None:
    facts = LLAMA.facts()
    assert facts.step
    with_images = replace(facts.step, lengths=facts.step.lengths + flops.fixed(4, image=256))
    (conventions,) = (each.hypotheses for each in causes() if each.slug == "other_convention")
    assert [*conventions(facts)]
    assert not [*conventions(replace(facts, step=with_images))]


def test_no_known_cause_fits() -> None:
    found = explain(Observation(9.0, 0.1, 0.001), LLAMA.facts())
    assert found.divergence.verdict is Verdict.MFU_ABOVE_OFU
    assert (found.causes, found.tied) == ((), 0)


@pytest.mark.parametrize("name", NAMES)
def test_every_family_is_explained(name: str) -> None:
    model = flops.read_file(CONFIGS / f"{name}.json")
    lengths = flops.fixed(2, **dict.fromkeys(model.streams, 512))
    facts = CauseFacts(
        CountedStep(model, lengths, flops.Counting(), Passes()), gpu=H100, precision=BF16, gpus=8
    )
    found = explain(Observation(0.8, 0.4), facts)
    assert all(0 <= each.misfit <= 2.5 for each in found.causes)
    assert found.untried == ()


def test_lengths_known_by_moments_only() -> None:
    job = CountedStep(
        flops.read(config("llama-3-8b")),
        flops.from_moments(8, 1000, 2e6),
        flops.Counting(),
        Passes(),
    )
    assert explain(Observation(0.3, 0.4), CauseFacts(job)).causes[0].cause == "activation_recompute"


def test_whatever_the_gpus_show_there_is_an_answer() -> None:
    """With a wrong row in the configuration a GPU shows an OFU of 2, and the comparison is there already."""
    seen = compare(0.4, 0.4)
    for right in (1e-6, 0.3, 40.0):
        found = explain(Observation(0.4, 2.3, right_mfu=right), LLAMA.facts(), verdict=seen)
        assert found.advice or found.causes


def test_zero_has_no_cause() -> None:
    with pytest.raises(ConfigError, match="mfu: 0 has no ratio"):
        explain(Observation(0.0, 0.4))
    idle = explain(Observation(0.4, 0.0))
    assert (idle.observed_ratio, idle.causes, idle.untried) == (None, (), ())
    assert "almost nothing" in idle.advice


@pytest.mark.parametrize("error", [0.004, 0.01, 0.03])
def test_an_ofu_near_its_error_is_explained_by_what_it_may_really_be(error: float) -> None:
    """Four errors above 0: the causes that fit make an OFU within 2.5 errors, above and below alike."""
    ofu = 4 * error
    found = explain(Observation(4 * ofu, ofu, error), LLAMA.facts()).causes
    assert found
    for each in found:
        assert abs(4 * ofu / each.expected_ratio - ofu) <= 3 * error


@pytest.mark.slow
def test_a_single_cause_stands_before_every_pair_that_fits_as_well() -> None:
    for ratio in (0.25 + 0.05 * step for step in range(100)):
        found = explain(Observation(0.3 * ratio, 0.3), LLAMA.facts()).causes
        for place, pair in enumerate(found):
            if len(pair.causes) == 1:
                continue
            for one in found[place + 1 :]:
                worse = one.misfit**2 > pair.misfit**2 + 2
                assert worse or len(one.causes) == 2 or one.rarity > RAREST_PAIR, (ratio, one)


def test_a_report_against_the_right_mfu() -> None:
    facts = LLAMA.facts()
    assert causes_of_report(0.40, 0.40, facts) == []
    assert causes_of_report(0.20, 0.40, facts)[0].cause == "sparse_peak"
    assert "recompute_counted" in {each.cause for each in causes_of_report(0.4 * 4 / 3, 0.4, facts)}
    assert causes_of_report(0.5427, 0.1845, facts) == [], (
        "2.94 is the latent experts', nothing general"
    )
    with pytest.raises(ConfigError, match="reported_mfu"):
        causes_of_report(0.0, 0.4, facts)


@every([("gemma-2-9b", 417_419_281_563_648), ("gpt-oss-20b", 177_634_076_000_256)])
def test_megatron_bridge_takes_other_gates_than_silu_for_none_and_windows_too(
    name: str, counted: int
) -> None:
    """What `num_floating_point_operations` of 0.3.1 returns at 8192 tokens; it leaves out the router besides."""
    job = Step(config(name), flops.fixed(1, tokens=8192))
    ratio = counted / job.flops()
    named = {each.cause: each for each in causes_of_report(0.36 * ratio, 0.36, job.facts())}
    assert named["gating_miscounted"].report_ratio == pytest.approx(ratio, rel=1e-3)
