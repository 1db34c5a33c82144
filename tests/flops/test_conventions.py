"""The conventions count what their upstream counts, to the last integer, and differ as they should."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import conventions
from ofu_exporter.flops.mixers import GroupedAttention, Mamba2
from ofu_exporter.flops.shapes import Experts, Layer, Mlp
from tests.flops.checkpoints import CHECKPOINTS, checkpoint
from tests.flops.counting import NAMES, config, count, ratio, share, step

FORWARD = flops.Passes(forward_only=True)


UPSTREAM = [
    ("llama-3-8b", "megatron", 8192, 421_645_529_382_912),
    ("llama-3-8b", "model", 8192, 421_645_529_382_912),
    ("llama-3-8b", "kempner", 8192, 474_422_087_516_160),
    ("llama-3-8b", "palm", 8192, 474_435_173_744_640),  # torchtitan, llm-foundry
    ("mixtral-8x7b", "megatron", 4096, 326_477_644_038_144),
    ("mixtral-8x7b", "model", 4096, 326_503_413_841_920),  # MaxText, as the next two
    ("deepseek-v3", "model", 4096, 1_025_842_738_102_272),
    ("qwen3-30b-a3b", "model", 4096, 94_542_967_603_200),
    ("mixtral-8x7b", "kempner", 4096, 339_671_783_571_456),
    ("deepseek-v3", "megatron", 4096, 1_023_230_173_249_536),
    ("deepseek-v2-lite", "megatron", 4096, 67_117_793_673_216),
    ("qwen3-30b-a3b", "megatron", 4096, 94_233_729_957_888),
    ("gpt-oss-20b", "megatron", 4096, 98_490_378_092_544),
    ("llama-3-8b", "verl", 8192, 447_466_872_766_464),
    ("deepseek-v3", "verl", 4096, 1_048_616_802_189_312),
    ("llama-3-8b", "nemo", 8192, 421_645_529_382_912),
    ("mixtral-8x7b", "nemo", 4096, 326_477_644_038_144),
    ("qwen3-30b-a3b", "nemo", 4096, 73_205_570_076_672),
    ("gemma-2-9b", "nemo", 4096, 183_545_427_394_560),  # from here on AutoModel 0.7.0
    ("mistral-7b-v0.1", "nemo", 4096, 141_759_690_571_776),
    ("phi-2", "nemo", 4096, 73_315_091_742_720),
]
"""Numbers that the upstream functions themselves returned for these configurations."""
OF_PAPERS = {"kaplan", "chinchilla"}


@pytest.mark.parametrize(("name", "convention", "tokens", "flops_per_step"), UPSTREAM)
def test_equal_to_upstream(name: str, convention: str, tokens: int, flops_per_step: int) -> None:
    assert step(name, convention, tokens) == flops_per_step


def test_every_convention_is_held_to_numbers_of_its_upstream_or_its_paper() -> None:
    """Those of papers below."""
    assert {convention for _, convention, *_ in UPSTREAM} | OF_PAPERS == {*conventions.names()}


def test_multi_token_prediction_as_megatron_counts_it() -> None:
    counted = count("deepseek-v3", "megatron", counting=flops.Counting(predictions=True))
    assert counted.model_flops_per_step == 1_064_931_126_411_264
    assert ratio(step("deepseek-v3", "megatron"), 1_064_931_126_411_264) == pytest.approx(
        0.961, abs=5e-4
    )


def test_sliding_windows_as_megatron_bridge_counts_them() -> None:
    """Bridge leaves out the router, 6 h E per token and layer, and nothing else."""
    router = 6 * 2880 * 32 * 24 * 4096
    assert step("gpt-oss-20b") - router == 93_847_019_323_392
    assert ratio(step("gpt-oss-20b", "megatron"), 93_847_019_323_392) == pytest.approx(
        1.0495, abs=5e-5
    )


@pytest.mark.parametrize(
    ("name", "flops_per_step", "norms"),
    [
        # Norms of the layers, of query and key ranks, the last one, and the score bias of each expert.
        ("deepseek-v3", 1_151_599_380_529_152, 61 * (2 * 7168 + 1536 + 512) + 7168 + 58 * 256),
        ("deepseek-v2-lite", 74_159_052_816_384, 27 * (2 * 2048 + 512) + 2048),
    ],
)
def test_palm_is_torchtitan_and_the_norms(name: str, flops_per_step: int, norms: int) -> None:
    assert step(name, "palm") - flops_per_step == 6 * norms * 4096


@pytest.mark.parametrize(
    ("layers", "vocabulary", "learned", "flops_per_step"),
    [
        ((4096, 32, 32), 50432, False, 88_303_504_195_584),
        ((768, 12, 12), 50368, True, 2_003_684_032_512),
    ],
)
def test_palm_is_what_llm_foundry_counts_for_mpt_but_for_learned_positions(
    layers: tuple[int, int, int], vocabulary: int, learned: bool, flops_per_step: int
) -> None:
    """MPT-7B, and MPT-125M with positions and biases as GPT-2 has them; 0.22.0, 2048 tokens."""
    width, heads, count_of_layers = layers
    mpt = {"d_model": width, "n_heads": heads, "n_layers": count_of_layers}
    gpt2 = {"n_embd": width, "n_head": heads, "n_layer": count_of_layers, "n_positions": 2048}
    named = {"architectures": ["GPT2LMHeadModel" if learned else "MptForCausalLM"]}
    counted = step({**(gpt2 if learned else mpt), **named, "vocab_size": vocabulary}, "palm", 2048)
    assert flops_per_step - counted == learned * 6 * 2048 * width * 2048


def test_palm_minus_kempner_is_the_norms() -> None:
    difference = step("llama-3-8b", "palm", 8192) - step("llama-3-8b", "kempner", 8192)
    assert difference == 6 * (2 * 32 + 1) * 4096 * 8192


def verl(of: dict[str, Any], lengths: list[int]) -> int:
    """What verl's functions for dense and sparse models with grouped attention return, written out anew."""
    hidden, heads, layers = of["hidden_size"], of["num_attention_heads"], of["num_hidden_layers"]
    dim = of.get("head_dim") or hidden // heads
    attention = hidden * (2 * heads * dim + 2 * of["num_key_value_heads"] * dim)
    experts = of.get("num_experts") or of.get("num_local_experts")
    width = of.get("moe_intermediate_size") or of["intermediate_size"]
    block = 3 * hidden * width
    if of["architectures"] == ["ApertusForCausalLM"]:  # `_estimate_apertus_flops`
        block = 2 * hidden * width + hidden + of["num_key_value_heads"] * dim
    if experts:
        block = block * of["num_experts_per_tok"] + hidden * experts
    weights = layers * (attention + block) + 2 * of["vocab_size"] * hidden
    kinds = of.get("layer_types") or ["full_attention"] * layers
    seen = sum(
        length * (min(length, of["sliding_window"]) if kind == "sliding_attention" else length)
        for kind in kinds
        for length in lengths
    )
    return int(6 * weights * sum(lengths) + 6 * seen * dim * heads)


@pytest.mark.parametrize("lengths", [[4096], [100, 4096, 130, 1], [8191] * 3])
@pytest.mark.parametrize(
    "name",
    ["llama-3-8b", "mistral-7b-v0.1", "qwen2.5-7b", "qwen3-8b", "qwen3-30b-a3b", "gpt-oss-20b"],
)
def test_verl_counts_look_up_router_and_windows_in_its_own_way(
    name: str, lengths: list[int]
) -> None:
    counted = flops.count(flops.read(config(name)), flops.packed(lengths), flops.How("verl"))
    assert counted.model_flops_per_step == verl(config(name), lengths)


@pytest.mark.parametrize("lengths", [[4096], [100, 4096, 1]])
def test_verl_counts_two_matrices_and_the_norms_of_apertus(lengths: list[int]) -> None:
    (sizes,) = (row.sizes for row in CHECKPOINTS if row.kind == "Apertus")
    of = checkpoint("Apertus", sizes)
    counted = flops.count(flops.read(of), flops.packed(lengths), flops.How("verl"))
    assert counted.model_flops_per_step == verl(of, lengths)


def test_verl_counts_mimo_without_its_prediction_layers() -> None:
    """`ESTIMATE_FUNC["mimo"]` of 0.9.1 returns this for 4096 and 100 tokens."""
    of = config(
        "qwen2.5-7b", architectures=["MiMoForCausalLM"], hidden_size=4096, intermediate_size=11008,
        num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
        vocab_size=151680, num_nextn_predict_layers=1,
    )  # fmt: skip
    counted = flops.count(flops.read(of), flops.packed([4096, 100]), flops.How("verl"))
    assert counted.model_flops_per_step == 206_746_217_349_120


def test_verl_has_no_shared_experts_in_qwen_and_every_layer_sparse() -> None:
    of = config("qwen3-30b-a3b")
    dense_first = {**of, "mlp_only_layers": [0, 1]}
    assert step(dense_first, "verl") == step(of, "verl")
    assert step(dense_first) != step(of)


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v2-lite", "gemma-2-9b", "phi-2"])
def test_verl_is_not_defined_where_verl_counts_nothing(name: str) -> None:
    assert "which verl counts as 0" in refusal(name, "verl")


def test_verl_warns_of_windows_that_it_ignores() -> None:
    assert any("windows" in text for text in count("mistral-7b-v0.1", "verl").warnings)
    assert not any("windows" in text for text in count("gpt-oss-20b", "verl").warnings)


def test_nemo_takes_the_heads_for_as_wide_as_the_model() -> None:
    """qwen3 of NeMo: 6 S L h^2 (2 + 2 groups/heads + S/h) + 18 S L h k m + 6 S h V."""
    tokens, layers, hidden = 4096, 48, 2048
    attention = 6 * tokens * layers * hidden * (2 * hidden + 2 * hidden * 4 // 32 + tokens)
    experts = 18 * tokens * layers * hidden * 8 * 768
    head = 6 * tokens * hidden * 151936
    assert step("qwen3-30b-a3b", "nemo") == attention + experts + head
    assert "nemo takes the width of all heads together as 2048" in str(
        count("qwen3-30b-a3b", "nemo").warnings
    )


def test_nemo_says_where_automodel_takes_an_mlp_for_another() -> None:
    said = "nemo has no formula for MistralForCausalLM: AutoModel takes two matrices for its MLPs"
    assert said in count("mistral-7b-v0.1", "nemo").warnings
    assert (
        "nemo ignores sliding windows, which this model has"
        in count("mistral-7b-v0.1", "nemo").warnings
    )
    assert count("phi-2", "nemo", 2048).warnings == count("llama-3-8b", "nemo").warnings == ()


def test_nemo_has_constants_for_vocabularies() -> None:
    """gpt3 of NeMo: (24 S h^2 + 2 S^2 h) 3 L + 6 S h 51200, half of the pairs."""
    tokens, hidden, layers = 2048, 12288, 96
    layer = 24 * tokens * hidden**2 + 2 * tokens**2 * hidden
    assert step("gpt3-175b", "nemo", tokens) == 3 * layers * layer + 6 * tokens * hidden * 51200
    other = config("llama-3-8b", vocab_size=50000)
    with pytest.raises(ConfigError, match="LlamaForCausalLM with a vocabulary of 50000"):
        step(other, "nemo")


@pytest.mark.parametrize("convention", ["verl", "nemo"])
def test_half_of_the_pairs_is_the_definition(convention: str) -> None:
    with pytest.raises(ConfigError, match=f"causal: convention {convention} halves attention"):
        count("llama-3-8b", convention, counting=flops.Counting(causal=False))


def test_transformers_trainer_leaves_out_attention() -> None:
    counted = count("llama-3-8b", tokens=8192)
    parameters = counted.parameters.total - counted.parameters.embedding
    assert 6 * parameters * 8192 == 368_882_057_478_144
    norms = (2 * 32 + 1) * 4096
    linear = counted.model_flops_per_step * (1 - share(counted, flops.Part.CORE))
    assert linear == pytest.approx(6 * (parameters - norms) * 8192)


def test_nanogpt_counts_everything_but_positions() -> None:
    """nanoGPT `estimate_mfu`: 6 N + 12 L H Q T, N without the table of positions."""
    counted = count("gpt2", "palm", 1024)
    parameters = 124_439_808 - 1024 * 768
    assert counted.model_flops_per_token == 6 * parameters + 12 * 12 * 12 * 64 * 1024


@pytest.mark.parametrize(
    ("name", "tokens", "per_token", "per_sequence"),
    [
        ("gpt2", 1024, 265_941_504, 371_148_718_080),
        ("gpt3-175b", 2048, 353_959_354_368, 737_449_743_482_880),
        ("gpt3-175b", 4096, 358_791_192_576, 1_514_713_833_799_680),
    ],
)
def test_openai_and_deepmind_forward(
    name: str, tokens: int, per_token: int, per_sequence: int
) -> None:
    assert count(name, "kaplan", tokens, passes=FORWARD).model_flops_per_token == per_token
    assert count(name, "chinchilla", tokens, passes=FORWARD).model_flops_per_step == per_sequence


def test_the_papers_own_total_leaves_out_embed_and_de_embed() -> None:
    """Kaplan et al., table 1: C_forward = 2 N + 2 n_layer n_ctx d_attn."""
    counted = count("gpt3-175b", "kaplan", 2048, passes=FORWARD)
    rows = {line.term.name: counted.per_token(line) for line in counted.lines}
    parameters = 12 * 96 * 12288**2
    total = counted.model_flops_per_token - rows["embed"] - rows["de-embed"]
    assert total == 2 * parameters + 2 * 96 * 2048 * 12288


def test_the_context_term_of_gpt3_is_below_3_percent() -> None:
    counted = count("gpt3-175b", "kaplan", 2048, passes=FORWARD)
    assert share(counted, flops.Part.CORE) == pytest.approx(0.0137, abs=1e-4)
    both = count("gpt3-175b", counting=flops.Counting(causal=False), tokens=2048)
    assert share(both, flops.Part.CORE) == pytest.approx(0.027, abs=1e-3)


def test_full_attention_instead_of_causal() -> None:
    for name, expected in (("llama-3-8b", 1.125), ("llama-3-70b", 1.072)):
        full = count(name, tokens=8192, counting=flops.Counting(causal=False)).model_flops_per_step
        assert ratio(full, step(name, tokens=8192)) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(("used", "expected"), [(6, 1.540), (24, 2.434)])
def test_latent_experts_counted_at_the_hidden_size(used: int, expected: float) -> None:
    """The first of the two errors of arXiv:2605.20799, section V-C; the width ratio 4 bounds it."""
    plain = config("deepseek-v2-lite", num_experts_per_tok=used)
    wrong = step(plain, "megatron")
    right = step({**plain, "moe_latent_size": 512}, "megatron")
    assert ratio(wrong, right) == pytest.approx(expected, abs=5e-4)
    assert ratio(wrong, right) < 2048 / 512


def test_latent_projections_are_counted_once_per_token() -> None:
    latent = config("deepseek-v2-lite", moe_latent_size=512)
    down, up, width = 2048 * 512, 512 * 2048, 1408
    experts = 6 * 3 * 512 * width
    lines = {line.term.name: line for line in count(latent, tokens=1).lines}
    routed = sum(line.forward for name, line in lines.items() if name.startswith("experts."))
    assert routed == 26 * 2 * (down + up + experts)


@pytest.mark.parametrize(("tokens", "expected"), [(8192, 1.75), (4096, 1.652)])
def test_hybrid_counted_as_attention_and_mlp(tokens: int, expected: float) -> None:
    """The second error of section V-C: every layer taken for a self-attention and a dense MLP."""
    model = flops.read(config("nemotron-h-8b"))
    shape = model.shape
    assert shape is not None
    attention, block = shape.mixers(GroupedAttention)[0], shape.feed_forwards(Mlp)[0]
    alike = replace(shape, layers=(Layer(attention, block),) * len(shape.layers))
    wrong = flops.count(
        replace(model, shape=alike), flops.fixed(1, tokens=tokens), flops.How("megatron")
    )
    right = step("nemotron-h-8b", "megatron", tokens)
    assert ratio(wrong.model_flops_per_step, right) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    "name", ["nemotron-nano-9b-v2", "nemotron-3-nano-30b-a3b", "nemotron-h-8b"]
)
def test_megatron_takes_mambas_width_as_twice_the_hidden_size(name: str) -> None:
    """Per Mamba layer and token it is off by (6 h + 7 N)(d - 2 h), router and convolution aside."""
    model = flops.read(config(name))
    shape = model.shape
    assert shape is not None
    mixers = shape.mixers(Mamba2)
    width = sum(
        (6 * shape.hidden + 7 * mixer.state) * (mixer.inner - 2 * shape.hidden) for mixer in mixers
    )
    convolutions = sum(2 * (m.inner + 2 * m.groups * m.state) * m.kernel for m in mixers)
    routers = sum(2 * shape.hidden * block.experts for block in shape.feed_forwards(Experts))
    difference = step(name) - step(name, "megatron")
    assert difference == 3 * 4096 * (width + convolutions + routers)
    warned = count(name, "megatron").warnings
    assert any("inner width" in text for text in warned) == bool(width)


def test_the_width_makes_nemotron_nano_9b_6_percent_too_low() -> None:
    low = ratio(step("nemotron-nano-9b-v2", "megatron"), step("nemotron-nano-9b-v2"))
    assert low == pytest.approx(0.944, abs=1e-3)


def test_megatron_latent_experts_in_hybrids() -> None:
    plain = config("nemotron-3-nano-30b-a3b")
    hidden, layers = 2688, plain["hybrid_override_pattern"].count("E")
    latent = step({**plain, "moe_latent_size": 512}, "megatron")
    routed = 6 * 2 * 1856 * (hidden - 512) - 2 * hidden * 512
    assert step(plain, "megatron") - latent == 6 * 4096 * layers * routed


def test_megatron_gated_delta_net() -> None:
    """Per delta layer: h(2q + 2v + 2 heads) + conv + 4 heads d^2 + v h multiply-adds."""
    lines = count("qwen3-next-80b-a3b", "megatron", tokens=1).lines
    delta = sum(line.model for line in lines if line.term.name.startswith("delta."))
    keys, values, hidden = 2048, 4096, 2048
    products = hidden * (2 * keys + 2 * values + 64) + 4 * (2 * keys + values)
    assert delta == 6 * 36 * (products + 32 * 128**2 * 4 + hidden * values)


def test_padded_vocabulary() -> None:
    padded = count("gpt2", "megatron", 1024, counting=flops.Counting(padded_vocab_size=51200))
    assert padded.model_flops_per_step - step("gpt2", "megatron", 1024) == 6 * 768 * 943 * 1024
    with pytest.raises(ConfigError, match="padded_vocab_size: 50000 is below vocab_size 50257"):
        count("gpt2", counting=flops.Counting(padded_vocab_size=50000))


def refusal(name: str, convention: str) -> str:
    """What a convention says to a model that it isn't defined for; empty where it is."""
    model = flops.read(config(name))
    try:
        flops.count(
            model, flops.fixed(2, **dict.fromkeys(model.streams, 64)), flops.How(convention)
        )
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", NAMES)
def test_a_convention_that_is_not_defined_says_which_are(name: str) -> None:
    refusals = {convention: refusal(name, convention) for convention in conventions.names()}
    defined = [convention for convention, text in refusals.items() if not text]
    assert "model" in defined
    for convention, text in refusals.items():
        if text:
            assert text.startswith(f"convention {convention} is ")
            assert text.endswith(f"; defined for it: {', '.join(defined)}")


@pytest.mark.parametrize("convention", conventions.names())
def test_the_terms_are_the_total(convention: str) -> None:
    counted = count("llama-3-8b", convention)
    assert counted.model_flops_per_step == sum(line.model for line in counted.lines)
    per_token = sum(counted.per_token(line) for line in counted.lines)
    assert counted.model_flops_per_token == per_token


def test_an_unknown_convention_is_named() -> None:
    with pytest.raises(
        ConfigError, match="unknown convention 'plam'; known: chinchilla, kaplan, kempner"
    ):
        count("gpt2", "plam")


@pytest.mark.parametrize(
    ("convention", "causal"),
    [
        ("palm", True),
        ("kempner", True),
        ("megatron", False),
        ("kaplan", True),
        ("chinchilla", False),
    ],
)
def test_a_convention_that_fixes_attention_refuses_another(convention: str, causal: bool) -> None:
    with pytest.raises(ConfigError, match=f"causal: convention {convention}"):
        count("llama-3-8b", convention, counting=flops.Counting(causal=causal))


def test_frozen_parts_need_the_models_own_terms() -> None:
    with pytest.raises(
        ConfigError, match="convention palm does not count frozen parts or adapters"
    ):
        count("llama-3-8b", "palm", passes=flops.Passes(lora=flops.Lora(8)))


def test_every_convention_says_what_it_counts_in_one_line() -> None:
    for name in conventions.names():
        assert ":" in conventions.summary(name)
