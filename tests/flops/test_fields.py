"""What a field may be, at the limits of it, and what an error of it says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.fields import LARGEST_SIZE, Fields, is_harmless
from tests.flops.counting import config, count, refusal, step, without
from tests.helpers.every import every

FIELDS = {
    "one": 1,
    "zero": 0,
    "minus": -1,
    "uno": 2,
    "true": True,
    "half": 0.5,
    "words": ["a", "b"],
    "none": None,
    "most": LARGEST_SIZE,
    "more": LARGEST_SIZE + 1,
    "layers": 2000,
    "blocks": 2001,
    "long": [1] * 2001,
    "longest": [1] * 2000,
    "empty": "",
    "places": [0, 3],
}


def said(read: Callable[[Fields], object]) -> object:
    try:
        return read(Fields(FIELDS, where="inner."))
    except ConfigError as error:
        return str(error).partition(";")[0]


@every(
    [
        (lambda of: of.size("one"), 1),
        (lambda of: of.size("zero"), "inner.zero 0 is not a whole number of at least 1"),
        (lambda of: of.size("zero", least=0), 0),
        (lambda of: of.size("absent", "one"), 1),
        (lambda of: of.size("one", "uno"), "inner.one=1, inner.uno=2 contradict each other"),
        (lambda of: of.size("none", default=7), 7),
        (lambda of: of.size("absent", "none"), "inner.absent is missing"),
        (lambda of: of.size("true"), "inner.true True is not a whole number of at least 1"),
        (lambda of: of.size("half"), "inner.half 0.5 is not a whole number of at least 1"),
        (lambda of: of.size("most"), LARGEST_SIZE),
        (lambda of: of.size("more"), f"inner.more is above {1 << 53}, and so no size of a model"),
        (lambda of: of.size("layers"), 2000),
        (lambda of: of.size("blocks"), "inner.blocks 2001 is above 2000"),
        (lambda of: of.integer("minus", 3), -1),
        (lambda of: of.integer("absent", -3), -3),
        (lambda of: of.integer("true", 0), "inner.true True is not a whole number"),
        (lambda of: of.optional("none", "one"), 1),
        (lambda of: of.optional("none"), None),
        (lambda of: of.number("half"), 0.5),
        (lambda of: of.number("words"), "inner.words ['a', 'b'] is not a number"),
        (lambda of: of.number("absent"), "inner.absent is missing"),
        (lambda of: of.flag("true"), True),
        (lambda of: of.flag("absent", default=True), True),
        (lambda of: of.flag("one"), "inner.one 1 is neither true nor false"),
        (lambda of: of.refuse(True, "true"), "inner.true true is not known"),
        (lambda of: of.refuse(True, "absent"), None),
        (lambda of: of.refuse(False, "absent", "true"), None),
        (lambda of: of.word("absent", ["b", "a"]), "inner.absent is missing"),
        (lambda of: of.word("absent", ["b", "a"], default="b"), "b"),
        (lambda of: of.words("words", ["a", "b"], 2), ("a", "b")),
        (lambda of: of.words("words", ["a", "b"]), ("a", "b")),
        (lambda of: of.words("words", ["a", "b"], 3), "inner.words has 2 entries for 3 layers"),
        (lambda of: of.words("words", ["a"]), "inner.words 'b' is not known"),
        (lambda of: of.places("places", 4, "one"), frozenset({0, 3})),
        (
            lambda of: of.places("places", 3, "one"),
            "inner.places=[0, 3], inner.one=1: a layer that is not there",
        ),
        (lambda of: (of.is_list("words"), of.is_list("one")), (True, False)),
        (lambda of: len(of.items("longest")), 2000),
        (lambda of: of.items("long"), "inner.long is longer than 2000"),
        (lambda of: of.text("empty"), "inner.empty '' is not text"),
    ]
)
def test_a_field_is_what_it_says_or_an_error_names_it(
    read: Callable[[Fields], object], wanted: object
) -> None:
    assert said(read) == wanted


def test_what_is_missing_is_named_with_what_it_must_be() -> None:
    with pytest.raises(ConfigError, match="absent is missing; it must be a configuration of its"):
        Fields(FIELDS).inner("absent")


@every(
    [
        ("vision_act", "silu", True),
        ("vision_act", "swiglu", False),
        ("attn_pdrop", 0.1, True),
        ("pad_token_id", 0, True),
        ("rope_theta", 1e4, True),
        ("rope_head_dim", 64, False),
        ("rotary_dim", 64, True),
        ("window", 64, False),
    ]
)
def test_an_unknown_field_is_harmless_by_its_name_and_value(
    name: str, value: object, harmless: bool
) -> None:
    assert is_harmless(name, value) is harmless


REQUIRED = {
    "llama-3-8b": "hidden_size intermediate_size num_attention_heads num_hidden_layers vocab_size",
    "gpt2": "n_embd n_head n_layer n_positions vocab_size",
    "mixtral-8x7b": "num_local_experts num_experts_per_tok intermediate_size",
    "qwen3-30b-a3b": "num_experts num_experts_per_tok moe_intermediate_size",
    "deepseek-v3": "kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim n_routed_experts "
    "first_k_dense_replace moe_intermediate_size",
    "nemotron-h-8b": "mamba_num_heads mamba_head_dim n_groups ssm_state_size conv_kernel",
    "jamba-v0.1": "mamba_d_state mamba_d_conv mamba_expand attn_layer_period expert_layer_offset",
    "qwen3-next-80b-a3b": "linear_num_key_heads linear_value_head_dim linear_conv_kernel_dim",
    "bert-base-uncased": "hidden_size vocab_size type_vocab_size max_position_embeddings",
    "vit-l-16": "hidden_size image_size patch_size num_channels num_labels",
    "qwen2-vl-7b": "vision_config hidden_size vocab_size",
    "qwen-image": "num_attention_heads attention_head_dim num_layers in_channels joint_attention_dim",
    "wan2.2-t2v-a14b": "ffn_dim text_dim freq_dim num_layers in_channels out_channels cross_attn_norm",
}


@pytest.mark.parametrize(
    ("name", "field"), [(name, field) for name, text in REQUIRED.items() for field in text.split()]
)
def test_a_missing_field_is_named(name: str, field: str) -> None:
    assert refusal(without(name, field)).startswith(f"{field} is missing")
    assert refusal(config(name, **{field: None})).startswith(f"{field} is missing")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("llama-3-8b", "hidden_size"),
        ("llama-3-8b", "vocab_size"),
        ("llama-3-8b", "num_hidden_layers"),
        ("gpt2", "n_embd"),
        ("deepseek-v3", "q_lora_rank"),
        ("nemotron-h-8b", "mamba_num_heads"),
        ("vit-l-16", "patch_size"),
        ("wan2.2-t2v-a14b", "ffn_dim"),
    ],
)
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "4096", float("nan")])
def test_a_field_that_is_no_size_is_named(name: str, field: str, value: object) -> None:
    expected = f"{field} {value!r} is not a whole number of at least 1"
    assert refusal(config(name, **{field: value})) == expected


def test_a_vocabulary_of_zero() -> None:
    assert (
        refusal(config("gpt2", vocab_size=0)) == "vocab_size 0 is not a whole number of at least 1"
    )


def test_fields_of_an_inner_configuration_are_named_with_their_place() -> None:
    vision = config("qwen2-vl-7b")["vision_config"]
    wrong = config("qwen2-vl-7b", vision_config={**vision, "dept": 32})
    assert refusal(wrong).startswith("vision_config.dept is an unknown field")
    smaller = config("qwen2-vl-7b", vision_config={**vision, "hidden_size": 1536})
    assert refusal(smaller) == "vision_config.hidden_size contradicts the language model's 3584"


def test_an_unknown_field_can_be_ignored_by_name() -> None:
    changed = config("llama-3-8b", num_memory_slots=4)
    model = flops.read(changed, ["num_memory_slots"])
    assert model == flops.read(config("llama-3-8b"))


def test_an_empty_field_says_nothing() -> None:
    assert flops.read(config("gpt2", pruned_heads={})) == flops.read(config("gpt2"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("activation", "silu"),
        ("mlp_act_fn", "gelu"),
        ("attn_rotary_emb", 64),
        ("rope_freq_base", 1e6),
        ("rotary_dim", 32),
        ("mask_token_id", 3),
        ("audio_token_index", 3),
        ("mlp_dropout_prob", 0.1),
        ("initializer_gain", 0.02),
    ],
)
def test_a_field_that_cannot_change_a_count_is_only_named(field: str, value: object) -> None:
    changed = config("llama-3-8b", **{field: value})
    warnings = count(changed, tokens=8).warnings
    assert warnings == (f"unknown fields taken to change no matrix product: {field}",)
    assert step(changed) == step("llama-3-8b")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("activation", "swiglu"),
        ("ffn_act", "gated-gelu"),
        ("rope_head_dim", 64),
        ("num_token_ids", 3),
        ("init_experts", 3),
        ("gated_activation", True),
        ("attention_dropout_heads", 2),
        ("tokens", 2),
    ],
)
def test_a_field_that_may_be_a_size_or_a_gate_is_an_error(field: str, value: object) -> None:
    assert refusal(config("llama-3-8b", **{field: value})).startswith(
        f"{field} is an unknown field"
    )


def test_all_fields_that_are_not_known_are_named_at_once() -> None:
    wrong = config(
        "llama-3-8b", vocabsize=1, kernel_count=2, **{f"extra_{n}": n for n in range(20)}
    )
    text = refusal(wrong)
    assert "vocabsize, kernel_count, extra_0" in text
    assert "and 10 more are unknown fields" in text
    assert "did you mean vocab_size for vocabsize" in text
    assert "--ignore-field vocabsize --ignore-field kernel_count" in text
