"""What every family keeps to, and what it says to a configuration that it can't be sure of."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import families
from ofu_exporter.flops.fields import NEUTRAL, neutral
from tests.flops.counting import NAMES, config, count, step, without
from tests.flops.executions import recorded
from tests.flops.families.test_deepseek_v4 import SMALL as DEEPSEEK_V4
from tests.flops.families.test_multimodal import KIMI
from tests.flops.families.test_nas import CONFIG as NAS

PACKAGE = Path(families.__file__).parents[3]


def refusal(changed: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        flops.read(changed)
    return str(caught.value)


def test_every_architecture_belongs_to_one_family() -> None:
    listed = [name for family in families.names() for name in families.load(family).ARCHITECTURES]
    assert sorted(listed) == sorted(families.architectures())


def test_every_section_of_neutral_fields_belongs_to_families() -> None:
    headers = re.findall(r"^\[(.+)\]$", NEUTRAL.read_text(), re.MULTILINE)
    named = {name for header in headers for name in header.split(", ")}
    assert named <= {"every family", *families.names()}
    assert neutral("vit") == neutral("modules") | {
        "encoder_stride",
        "pooler_act",
        "pooler_output_size",
    }


def test_a_model_has_as_many_layers_as_its_configuration_says() -> None:
    """With those of its tower: recomputation is of some of them."""
    by_hand = (KIMI["text_config"], NAS, DEEPSEEK_V4)
    for each in [
        *(one.config for one in recorded() if not one.changed),
        *map(config, NAMES),
        *by_hand,
    ]:
        named = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
        number = [each[name] for name in named if name in each]
        tower = each.get("vision_config", {}).get("depth", 0)
        if number:
            assert flops.read(each).layers == number[0] + tower, each


@pytest.mark.parametrize("family", families.names())
def test_a_family_names_its_sources(family: str) -> None:
    text = families.load(family).__doc__ or ""
    assert re.search(r"arXiv:\d{4}\.\d{4,5}|flops\.modules", text)


@pytest.mark.parametrize("family", families.names())
def test_a_model_says_which_family_read_it(family: str) -> None:
    read = {flops.read(config(name)).family for name in NAMES}
    small = (flops.read(each.config).family for each in recorded() if not each.changed)
    by_hand = (flops.read(each).family for each in (NAS, KIMI, DEEPSEEK_V4))
    assert family in read | {*small, *by_hand, "modules"}


def test_adding_a_family_is_adding_a_file(tmp_path: Path) -> None:
    """A copy of the package with one more file reads one more architecture."""
    shutil.copytree(PACKAGE / "ofu_exporter", tmp_path / "ofu_exporter")
    folder = tmp_path / "ofu_exporter" / "flops" / "families"
    text = (folder / "decoder.py").read_text().replace("LlamaForCausalLM", "AlpacaForCausalLM")
    text = re.sub(r'    "(?!Alpaca)\w+ForCausalLM": Plan\((?:[^()]|\n)*?\),\n', "", text)
    (folder / "alpaca.py").write_text(text)
    program = (
        "from ofu_exporter import flops\n"
        "from ofu_exporter.flops import families\n"
        "assert families.family_of('AlpacaForCausalLM') == 'alpaca'\n"
        f"config = {config('llama-3-8b', architectures=['AlpacaForCausalLM'])!r}\n"
        "count = flops.count(flops.read(config), flops.fixed(1, tokens=8192))\n"
        "print(count.model_flops_per_step)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "421645529382912\n", done.stderr


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


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("llama-3-8b", {"num_key_value_heads": 7}, "num_attention_heads=32, num_key_value_heads=7"),
        ("llama-3-8b", {"num_attention_heads": 24}, "hidden_size=4096, num_attention_heads=24"),
        ("gpt2", {"hidden_size": 1024}, "n_embd=768, hidden_size=1024 contradict each other"),
        ("gpt2", {"n_head": 7}, "n_head 7 must divide the width 768"),
        ("mixtral-8x7b", {"num_experts_per_tok": 9}, "num_local_experts=8, num_experts_per_tok=9"),
        (
            "gpt-oss-20b",
            {"layer_types": ["full_attention"]},
            "layer_types has 1 entries for 24 layers",
        ),
        ("gpt-oss-20b", {"sliding_window": None}, "layer_types="),
        ("qwen2.5-7b", {"use_sliding_window": True, "sliding_window": None}, "no window to slide"),
        ("deepseek-v3", {"first_k_dense_replace": 62}, "first_k_dense_replace=62"),
        ("deepseek-v3", {"num_key_value_heads": 8}, "latent attention has no groups"),
        ("deepseek-v3", {"qk_head_dim": 128}, "qk_head_dim=128"),
        ("nemotron-h-8b", {"num_hidden_layers": 51}, "num_hidden_layers=51: the pattern has 52"),
        ("jamba-v0.1", {"attn_layer_offset": 8}, "attn_layer_offset=8, attn_layer_period=8"),
        ("qwen3-30b-a3b", {"mlp_only_layers": [48]}, "mlp_only_layers=[48]"),
        ("vit-l-16", {"patch_size": 15}, "image_size=224, patch_size=15"),
        ("vit-l-16", {"id2label": {"0": "cat"}}, "id2label has 1 labels"),
    ],
)
def test_fields_that_contradict_each_other(
    name: str, changed: dict[str, object], message: str
) -> None:
    assert message in refusal(config(name, **changed))


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        (
            "llama-3-8b",
            {"hiden_size": 4096},
            "hiden_size is an unknown field, which may change the count; did you mean hidden_size?",
        ),
        (
            "llama-3-8b",
            {"num_memory_slots": 4},
            "ignore it by name (--ignore-field num_memory_slots)",
        ),
        ("llama-3-8b", {"attention_bias": "no"}, "attention_bias 'no' is neither true nor false"),
        (
            "gpt-oss-20b",
            {"layer_types": ["linear_attention"] * 24},
            "'linear_attention' is not known; known: full_attention, sliding_attention",
        ),
        (
            "nemotron-h-8b",
            {"hybrid_override_pattern": "M-X"},
            "hybrid_override_pattern 'X' is not known; known: M * - E",
        ),
        ("deepseek-v3", {"topk_method": "best"}, "known: greedy, group_limited_greedy, noaux_tc"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention true is not known"),
        ("qwen-image", {"zero_cond_t": True}, "zero_cond_t true is not known; known: false"),
        ("wan2.2-t2v-a14b", {"image_dim": 1280}, "image_dim of an image encoder is not known"),
        ("qwen2-vl-7b", {"vision_config": 3}, "vision_config 3 is not a configuration"),
    ],
)
def test_what_is_not_known_is_named(name: str, changed: dict[str, object], message: str) -> None:
    assert message in refusal(config(name, **changed))


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


def test_a_configuration_inside_another_is_known_by_its_model_type() -> None:
    inner = config("llama-3-8b")
    del inner["architectures"]
    assert flops.read(inner).architecture == "LlamaForCausalLM"
    assert "needs exactly one entry" in refusal({**inner, "model_type": "no_such_type"})


def test_the_nearest_is_nearly_the_same_model_or_none() -> None:
    for name, near in (
        ("LlamaModel", "LlamaForCausalLM"),
        ("DeepseekV9ForCausalLM", "DeepseekV4ForCausalLM"),
        ("KimiK3ForConditionalGeneration", None),
        ("DbrxForCausalLM", None),
    ):
        text = refusal(config("llama-3-8b", architectures=[name]))
        assert (f"the nearest is {near}." in text) if near else ("nearest" not in text)


def test_all_fields_that_are_not_known_are_named_at_once() -> None:
    wrong = config(
        "llama-3-8b", vocabsize=1, kernel_count=2, **{f"extra_{n}": n for n in range(20)}
    )
    text = refusal(wrong)
    assert "vocabsize, kernel_count, extra_0" in text
    assert "and 10 more are unknown fields" in text
    assert "did you mean vocab_size for vocabsize" in text
    assert "--ignore-field vocabsize --ignore-field kernel_count" in text


def test_an_unknown_architecture_says_the_nearest_and_the_ways_on() -> None:
    text = refusal(config("llama-3-8b", architectures=["LLamaForCausalLM"]))
    assert text.startswith("architectures: 'LLamaForCausalLM' has no closed form here; ")
    for part in ("nearest is LlamaForCausalLM", "--executed --save", "Modules", "docs/flops.md"):
        assert part in text
    assert len(text) < 500
    assert "nearest" not in refusal(config("llama-3-8b", architectures=["Xyzzy"]))


@pytest.mark.parametrize("architectures", [["BertForMaskedLM", "BertModel"], [], [3]])
def test_an_architecture_is_one_name(architectures: object) -> None:
    text = refusal(config("llama-3-8b", architectures=architectures))
    assert text.startswith("architectures: needs exactly one entry, not ")


def test_a_file_that_is_no_configuration_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    for text, message in (("{", "is not JSON"), ("[]", "the top level is not a configuration")):
        file.write_text(text)
        with pytest.raises(ConfigError, match=message):
            flops.read_file(file)
    with pytest.raises(ConfigError, match="there is no such file"):
        flops.read_file(tmp_path / "absent.json")


def test_groups_shrink_projections_and_never_the_core() -> None:
    few, many = count("llama-3-8b"), count(config("llama-3-8b", num_key_value_heads=32))
    less, more = ({line.term.name: line.model for line in each.lines} for each in (few, many))
    assert less["attention.core"] == more["attention.core"]
    assert 4 * less["attention.k_proj"] == more["attention.k_proj"]


def test_a_head_dimension_of_its_own_is_used() -> None:
    """Qwen3-30B-A3B has 32 heads of 128 over a hidden size of 2048; NeMo's formula takes h/a and counts 0.777."""
    narrow = step(config("qwen3-30b-a3b", head_dim=64), "megatron")
    assert narrow == 73_205_570_076_672
    assert narrow / step("qwen3-30b-a3b", "megatron") == pytest.approx(0.777, abs=5e-4)


def test_only_the_sparse_layers_are_sparse() -> None:
    """Every second layer sparse; taking every layer for sparse would count twice the experts."""
    half = flops.read(config("qwen3-30b-a3b", decoder_sparse_step=2)).shape
    assert half is not None
    sparse = [hasattr(layer.feed_forward, "experts") for layer in half.layers]
    assert sparse == [False, True] * 24
    assert (
        count("deepseek-v2-lite").parameters.active < count("deepseek-v2-lite").parameters.total / 5
    )


def test_all_experts_counted_is_5_times_too_much() -> None:
    """DeepSeek-V2-Lite: 6 of 64 experts of 26 layers; torchtitan's numbers."""
    counted = count("deepseek-v2-lite", "palm")
    idle = 26 * (64 - 6) * 3 * 2048 * 1408
    everything = counted.model_flops_per_step + 6 * 4096 * idle
    assert everything / counted.model_flops_per_step == pytest.approx(5.32, abs=5e-3)


def test_gated_blocks_have_three_matrices_and_ungated_two() -> None:
    """Nemotron-H is ungated: assuming gates counts half of its MLPs too much."""
    lines = {line.term.name for line in count("nemotron-h-8b").lines}
    assert "mlp.up_proj" in lines
    assert "mlp.gate_proj" not in lines
    assert "mlp.gate_proj" in {line.term.name for line in count("llama-3-8b").lines}


def test_predictions_are_left_out_with_a_warning() -> None:
    assert "multi-token-prediction" in count("deepseek-v3").warnings[0]
    assert count("deepseek-v3", counting=flops.Counting(predictions=True)).warnings == ()
    with pytest.raises(ConfigError, match="names no multi-token-prediction layer"):
        count("llama-3-8b", counting=flops.Counting(predictions=True))


def test_a_reward_model_has_a_classifier_for_a_head() -> None:
    reward = config("qwen2.5-7b", architectures=["Qwen2ForSequenceClassification"], num_labels=1)
    counted, whole = count(reward, tokens=64), count("qwen2.5-7b", tokens=64)
    assert counted.parameters.total - 3584 == whole.parameters.total - 3584 * 152064
    assert counted.lines[-1].term.name == "score"
    assert counted.lines[-1].forward == 2 * 3584 * 64
    del reward["num_labels"]
    assert refusal(reward).startswith("num_labels is missing")
    with pytest.raises(ConfigError, match="has no vocabulary to pad"):
        count({**reward, "num_labels": 1}, counting=flops.Counting(padded_vocab_size=200_000))


def test_encoders_attend_to_every_pair() -> None:
    """Halving them, as Megatron-LM does, is refused."""
    core = next(
        line for line in count("bert-base-uncased", tokens=512).lines if "core" in line.term.name
    )
    assert core.forward == 4 * 768 * 12 * 512**2
    with pytest.raises(ConfigError, match="BertForMaskedLM attends in both directions"):
        count("bert-base-uncased", counting=flops.Counting(causal=True))


def test_layers_of_one_prediction_may_be_letters() -> None:
    """Nemotron-3-Super's file has letters where Nemotron-3-Nano's has words."""
    words = config("nemotron-3-nano-30b-a3b", num_nextn_predict_layers=1)
    words["mtp_layers_block_type"] = ["attention", "moe"]
    letters = {**words, "mtp_hybrid_override_pattern": "*E"}
    del letters["mtp_layers_block_type"]
    how = flops.How(counting=flops.Counting(predictions=True))
    counts = [
        flops.count(flops.read(each), flops.fixed(1, tokens=8), how) for each in (words, letters)
    ]
    assert counts[0].model_flops_per_step == counts[1].model_flops_per_step
    assert "'X' is not known" in refusal({**letters, "mtp_hybrid_override_pattern": "X"})


def test_layers_of_minimax_with_another_attention_are_refused() -> None:
    mixtral = config("mixtral-8x7b", architectures=["MiniMaxM2ForCausalLM"])
    number = mixtral["num_hidden_layers"]
    right = {**mixtral, "attn_type_list": [1] * number, "num_mtp_modules": 3, "use_mtp": True}
    assert flops.read(right).shape == flops.read({**mixtral, "num_nextn_predict_layers": 3}).shape
    assert "another type than 1" in refusal({**right, "attn_type_list": [0] * number})


def test_megatron_counts_latent_attention_on_chosen_keys_as_dense() -> None:
    """DeepSeek-V3.2 is DeepSeek-V3 with an indexer, which Megatron-LM does not count."""
    dense = config("deepseek-v3")
    sparse = {**dense, "architectures": ["DeepseekV32ForCausalLM"], "index_topk": 16}
    sparse |= {"index_n_heads": 4, "index_head_dim": 32}
    lengths, how = flops.fixed(1, tokens=64), flops.How("megatron")
    of_dense, of_sparse = (flops.count(flops.read(each), lengths, how) for each in (dense, sparse))
    assert of_sparse.model_flops_per_step == of_dense.model_flops_per_step
    assert any("sparse attention as dense" in text for text in of_sparse.warnings)
