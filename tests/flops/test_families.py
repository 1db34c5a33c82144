"""What every family keeps to, and what it says to a configuration that it can't be sure of."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import families
from ofu_exporter.flops.fields import NEUTRAL, neutral
from tests.flops.counting import NAMES, config, refusal
from tests.flops.executions import recorded
from tests.flops.families.test_deepseek_v4 import SMALL as DEEPSEEK_V4
from tests.flops.families.test_multimodal import KIMI
from tests.flops.families.test_nas import CONFIG as NAS
from tests.flops.small_decoders import LATENT

PACKAGE = Path(families.__file__).parents[3]


def test_every_architecture_belongs_to_one_family() -> None:
    listed = [name for family in families.names() for name in families.load(family).ARCHITECTURES]
    assert sorted(listed) == sorted(families.architectures())


TEXT_FIELDS = {
    *("hidden_act", "hidden_size", "intermediate_size", "max_window_layers", "num_attention_heads"),
    *("num_hidden_layers", "num_key_value_heads", "rms_norm_eps", "use_sliding_window"),
    "vocab_size",
}
"""What qwen2_vl's text_config takes from a flat configuration."""


def test_every_section_of_neutral_fields_belongs_to_families() -> None:
    headers = re.findall(r"^\[(.+)\]$", NEUTRAL.read_text(), re.MULTILINE)
    named = {name for header in headers for name in header.split(", ")}
    assert named <= {"every family", *families.names()}
    assert neutral("vit") == neutral("modules") | {
        "encoder_stride",
        "pooler_act",
        "pooler_output_size",
        "tie_word_embeddings",
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
        ("bert-base-uncased", {"is_decoder": True}, "is_decoder true is not known"),
        ("deepseek-v3", {"mlp_bias": True}, "mlp_bias true is not known"),
        ("deepseek-v3", {"first_k_dense_replace": 62}, "more dense layers than layers"),
        ("jamba-v0.1", {"attn_layer_offset": 8}, "the offset must be below the period"),
        ("gpt-oss-20b", {"sliding_window": None}, "sliding layers without a window"),
        ("llama-3-8b", {"use_bidirectional_attention": True}, "true makes it an encoder"),
        (
            "qwen3-next-80b-a3b",
            {"use_sliding_window": True},
            "use_sliding_window true is not known",
        ),
        ("qwen-image", {"zero_cond_t": True}, "zero_cond_t true is not known; known: false"),
        ("wan2.2-t2v-a14b", {"image_dim": 1280}, "image_dim of an image encoder is not known"),
        ("qwen2-vl-7b", {"vision_config": 3}, "vision_config 3 is not a configuration"),
    ],
)
def test_what_is_not_known_is_named(name: str, changed: dict[str, object], message: str) -> None:
    assert message in refusal(config(name, **changed))


def test_a_width_of_dense_layers_is_needed_only_where_some_are_dense() -> None:
    sparse = config("qwen3-next-80b-a3b")
    del sparse["intermediate_size"]
    assert flops.read(sparse).layers == 48
    assert "intermediate_size is missing" in refusal({**sparse, "mlp_only_layers": [0]})


def test_the_heads_of_mamba_2_fill_its_inner_width() -> None:
    """Twice the hidden size, where the configuration gives no other."""
    small = {"architectures": ["Mamba2ForCausalLM"], "hidden_size": 64, "num_hidden_layers": 3}
    small |= {"num_heads": 8, "head_dim": 16, "n_groups": 2, "state_size": 16, "conv_kernel": 4}
    small |= {"vocab_size": 320}
    assert flops.read(small).layers == 3
    assert flops.read({**small, "num_heads": 4, "expand": 1}).layers == 3
    assert "heads must fill the inner width" in refusal({**small, "num_heads": 4})


def test_a_configuration_inside_another_is_known_by_its_model_type() -> None:
    inner = config("llama-3-8b")
    del inner["architectures"]
    assert flops.read(inner).architecture == "LlamaForCausalLM"
    assert "needs exactly one entry" in refusal({**inner, "model_type": "no_such_type"})


@pytest.mark.parametrize("name", ["qwen2-vl-7b", "qwen2.5-vl-7b"])
def test_text_fields_may_stand_twice_if_they_say_the_same(name: str) -> None:
    """transformers 4.57.1 writes what it read flat in both places, and no window inside where none is used."""
    flat = config(name)
    text = {field: flat[field] for field in flat.keys() & TEXT_FIELDS} | {"sliding_window": None}
    twice = {**flat, "text_config": text}
    lengths = flops.fixed(1, tokens=4096, image=1024)
    assert flops.count(flops.read(twice), lengths) == flops.count(flops.read(flat), lengths)
    assert "hidden_size" in refusal({**twice, "hidden_size": 2 * flat["hidden_size"]})


def test_the_nearest_is_nearly_the_same_model_or_none() -> None:
    for name, near in (
        ("LlamaModel", "LlamaForCausalLM"),
        ("DeepseekV9ForCausalLM", "DeepseekV4ForCausalLM"),
        ("KimiK3ForConditionalGeneration", None),
        ("DbrxForCausalLM", None),
    ):
        text = refusal(config("llama-3-8b", architectures=[name]))
        assert (f"the nearest is {near}." in text) if near else ("nearest" not in text)


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


def test_every_second_layer_after_the_first_has_experts_where_the_frequency_is_two() -> None:
    said = {**LATENT, "architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 6}
    kinds = ["dense", "dense", "sparse", "dense", "sparse", "dense"]
    assert flops.read({**said, "moe_layer_freq": 2}) == flops.read(
        {**said, "mlp_layer_types": kinds}
    )
