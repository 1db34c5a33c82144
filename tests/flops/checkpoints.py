"""Sizes of public checkpoints, with the number of parameters that their authors publish.

The sizes are those of each model's own card (`config.json` under its id), the number is that of its safetensors
index, or of the table in the card or paper. A head that is stored twice, once as the embedding, counts once. They
were noted down from memory: what checks a row is that sizes and number, noted apart, agree to the last digit. Of nine
in ten the number was compared with what is printed elsewhere: tests/flops/published_counts.py says where.
The sizes were not compared with the cards, nor the numbers of the rest. A row that fails is to be compared first.
"""

from __future__ import annotations

from typing import Any


def _llama(
    hidden: int, width: int, layers: int, heads: int, groups: int, vocab: int
) -> dict[str, Any]:
    """The sizes that decoders in the manner of Llama have."""
    return {
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "vocab_size": vocab,
    }


def _gpt2(hidden: int, layers: int, heads: int) -> dict[str, Any]:
    sizes = {"n_embd": hidden, "n_layer": layers, "n_head": heads}
    return {**sizes, "n_positions": 1024, "vocab_size": 50257}


def _neox(hidden: int, layers: int, heads: int, vocab: int = 50304) -> dict[str, Any]:
    return {**_llama(hidden, 4 * hidden, layers, heads, heads, vocab), "num_key_value_heads": None}


def _bloom(hidden: int, layers: int, heads: int) -> dict[str, Any]:
    return {"hidden_size": hidden, "n_layer": layers, "n_head": heads, "vocab_size": 250880}


def _opt(hidden: int, layers: int, heads: int) -> dict[str, Any]:
    sizes = {"hidden_size": hidden, "ffn_dim": 4 * hidden, "num_hidden_layers": layers}
    return {
        **sizes,
        "num_attention_heads": heads,
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
    }


def _mamba(hidden: int, layers: int) -> dict[str, Any]:
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "vocab_size": 50280}
    return {**sizes, "state_size": 16, "conv_kernel": 4}


def _bert(
    hidden: int, layers: int, heads: int, vocab: int, positions: int, types: int
) -> dict[str, Any]:
    sizes = _llama(hidden, 4 * hidden, layers, heads, heads, vocab)
    return {
        **sizes,
        "num_key_value_heads": None,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
    }


TIED, WIDE = {"tie_word_embeddings": True}, {"head_dim": 128}
QWEN3 = WIDE
GEMMA = {"head_dim": 256}
EXPERTS_128 = {"num_experts": 128, "num_experts_per_tok": 8}

CHECKPOINTS: list[tuple[str, str, dict[str, Any], int]] = [
    ("meta-llama/Llama-2-7b-hf", "Llama", _llama(4096, 11008, 32, 32, 32, 32000), 6_738_415_616),
    ("meta-llama/Llama-2-13b-hf", "Llama", _llama(5120, 13824, 40, 40, 40, 32000), 13_015_864_320),
    ("meta-llama/Llama-2-70b-hf", "Llama", _llama(8192, 28672, 80, 64, 8, 32000), 68_976_648_192),
    (
        "meta-llama/Llama-3.2-1B",
        "Llama",
        {**_llama(2048, 8192, 16, 32, 8, 128256), **TIED},
        1_235_814_400,
    ),
    (
        "meta-llama/Llama-3.2-3B",
        "Llama",
        {**_llama(3072, 8192, 28, 24, 8, 128256), **TIED},
        3_212_749_824,
    ),
    (
        "meta-llama/Llama-3.1-405B",
        "Llama",
        _llama(16384, 53248, 126, 128, 8, 128256),
        405_853_388_800,
    ),
    ("TinyLlama/TinyLlama-1.1B", "Llama", _llama(2048, 5632, 22, 32, 4, 32000), 1_100_048_384),
    (
        "HuggingFaceTB/SmolLM2-135M",
        "Llama",
        {**_llama(576, 1536, 30, 9, 3, 49152), **TIED},
        134_515_008,
    ),
    (
        "HuggingFaceTB/SmolLM2-360M",
        "Llama",
        {**_llama(960, 2560, 32, 15, 5, 49152), **TIED},
        361_821_120,
    ),
    (
        "HuggingFaceTB/SmolLM2-1.7B",
        "Llama",
        {**_llama(2048, 8192, 24, 32, 32, 49152), **TIED},
        1_711_376_384,
    ),
    ("HuggingFaceTB/SmolLM3-3B", "SmolLM3", _llama(2048, 11008, 36, 16, 4, 128256), 3_075_098_624),
    ("Qwen/Qwen2.5-0.5B", "Qwen2", {**_llama(896, 4864, 24, 14, 2, 151936), **TIED}, 494_032_768),
    (
        "Qwen/Qwen2.5-1.5B",
        "Qwen2",
        {**_llama(1536, 8960, 28, 12, 2, 151936), **TIED},
        1_543_714_304,
    ),
    ("Qwen/Qwen2.5-3B", "Qwen2", {**_llama(2048, 11008, 36, 16, 2, 151936), **TIED}, 3_085_938_688),
    ("Qwen/Qwen2.5-14B", "Qwen2", _llama(5120, 13824, 48, 40, 8, 152064), 14_770_033_664),
    ("Qwen/Qwen2.5-32B", "Qwen2", _llama(5120, 27648, 64, 40, 8, 152064), 32_763_876_352),
    ("Qwen/Qwen2.5-72B", "Qwen2", _llama(8192, 29568, 80, 64, 8, 152064), 72_706_203_648),
    (
        "Qwen/Qwen3-0.6B",
        "Qwen3",
        {**_llama(1024, 3072, 28, 16, 8, 151936), **QWEN3, **TIED},
        596_049_920,
    ),
    (
        "Qwen/Qwen3-4B",
        "Qwen3",
        {**_llama(2560, 9728, 36, 32, 8, 151936), **QWEN3, **TIED},
        4_022_468_096,
    ),
    (
        "Qwen/Qwen3-14B",
        "Qwen3",
        {**_llama(5120, 17408, 40, 40, 8, 151936), **QWEN3},
        14_768_307_200,
    ),
    (
        "Qwen/Qwen3-32B",
        "Qwen3",
        {**_llama(5120, 25600, 64, 64, 8, 151936), **QWEN3},
        32_762_123_264,
    ),
    (
        "Qwen/Qwen3-235B-A22B",
        "Qwen3Moe",
        {
            **_llama(4096, 12288, 94, 64, 4, 151936),
            **QWEN3,
            **EXPERTS_128,
            "moe_intermediate_size": 1536,
        },
        235_093_634_560,
    ),
    (
        "mistralai/Mistral-Nemo-Base-2407",
        "Mistral",
        {**_llama(5120, 14336, 40, 32, 8, 131072), **WIDE},
        12_247_782_400,
    ),
    (
        "mistralai/Mistral-Small-24B-Base-2501",
        "Mistral",
        {**_llama(5120, 32768, 40, 32, 8, 131072), **WIDE},
        23_572_403_200,
    ),
    (
        "mistralai/Mixtral-8x22B-v0.1",
        "Mixtral",
        {**_llama(6144, 16384, 56, 48, 8, 32000), "num_local_experts": 8, "num_experts_per_tok": 2},
        140_620_634_112,
    ),
    ("google/gemma-2b", "Gemma", {**_llama(2048, 16384, 18, 8, 1, 256000), **GEMMA}, 2_506_172_416),
    (
        "google/gemma-2-2b",
        "Gemma2",
        {**_llama(2304, 9216, 26, 8, 4, 256000), **GEMMA},
        2_614_341_888,
    ),
    (
        "google/gemma-2-27b",
        "Gemma2",
        {**_llama(4608, 36864, 46, 32, 16, 256000), **WIDE},
        27_227_128_320,
    ),
    (
        "google/gemma-3-1b-pt",
        "Gemma3",
        {**_llama(1152, 6912, 26, 4, 1, 262144), **GEMMA},
        999_885_952,
    ),
    ("microsoft/phi-1_5", "Phi", _llama(2048, 8192, 24, 32, 32, 51200), 1_418_270_720),
    (
        "microsoft/Phi-3-mini-4k-instruct",
        "Phi3",
        _llama(3072, 8192, 32, 32, 32, 32064),
        3_821_079_552,
    ),
    ("microsoft/phi-4", "Phi3", _llama(5120, 17920, 40, 40, 10, 100352), 14_659_507_200),
    (
        "bigcode/starcoder2-3b",
        "Starcoder2",
        {**_llama(3072, 12288, 30, 24, 2, 49152), "use_bias": True},
        3_030_371_328,
    ),
    (
        "bigcode/starcoder2-7b",
        "Starcoder2",
        {**_llama(4608, 18432, 32, 36, 4, 49152), "use_bias": True},
        7_173_923_840,
    ),
    (
        "allenai/OLMo-1B-hf",
        "Olmo",
        {**_llama(2048, 8192, 16, 16, 16, 50304), **TIED},
        1_176_764_416,
    ),
    ("allenai/OLMo-7B-hf", "Olmo", _llama(4096, 11008, 32, 32, 32, 50304), 6_888_095_744),
    ("allenai/OLMo-2-1124-7B", "Olmo2", _llama(4096, 11008, 32, 32, 32, 100352), 7_298_617_344),
    (
        "allenai/OLMoE-1B-7B-0924",
        "Olmoe",
        {**_llama(2048, 1024, 16, 16, 16, 50304), "num_experts": 64, "num_experts_per_tok": 8},
        6_919_161_856,
    ),
    (
        "tiiuae/falcon-7b",
        "Falcon",
        {**_neox(4544, 32, 71, 65024), "intermediate_size": None, "multi_query": True},
        6_921_720_704,
    ),
    (
        "mosaicml/mpt-7b",
        "Mpt",
        {"d_model": 4096, "n_heads": 32, "n_layers": 32, "vocab_size": 50432},
        6_649_286_656,
    ),
    (
        "CohereForAI/c4ai-command-r-v01",
        "Cohere",
        _llama(8192, 22528, 40, 64, 64, 256000),
        34_980_831_232,
    ),
    (
        "CohereForAI/c4ai-command-r7b-12-2024",
        "Cohere2",
        _llama(4096, 14336, 32, 32, 8, 256000),
        8_028_033_024,
    ),
    (
        "stabilityai/stablelm-3b-4e1t",
        "StableLm",
        _llama(2560, 6912, 32, 32, 32, 50304),
        2_795_443_200,
    ),
    (
        "stabilityai/stablelm-2-1_6b",
        "StableLm",
        {**_llama(2048, 5632, 24, 32, 32, 100352), "use_qkv_bias": True},
        1_644_515_328,
    ),
    ("swiss-ai/Apertus-8B-2509", "Apertus", _llama(4096, 21504, 32, 32, 8, 131072), 8_053_338_176),
    ("EleutherAI/pythia-70m", "GPTNeoX", _neox(512, 6, 8), 70_426_624),
    ("EleutherAI/pythia-160m", "GPTNeoX", _neox(768, 12, 12), 162_322_944),
    ("EleutherAI/pythia-410m", "GPTNeoX", _neox(1024, 24, 16), 405_334_016),
    ("EleutherAI/pythia-1b", "GPTNeoX", _neox(2048, 16, 8), 1_011_781_632),
    ("EleutherAI/pythia-1.4b", "GPTNeoX", _neox(2048, 24, 16), 1_414_647_808),
    ("EleutherAI/pythia-2.8b", "GPTNeoX", _neox(2560, 32, 32), 2_775_208_960),
    ("EleutherAI/pythia-6.9b", "GPTNeoX", _neox(4096, 32, 32, 50432), 6_857_302_016),
    ("EleutherAI/pythia-12b", "GPTNeoX", _neox(5120, 36, 40, 50688), 11_846_072_320),
    ("openai-community/gpt2-medium", "GPT2", _gpt2(1024, 24, 16), 354_823_168),
    ("openai-community/gpt2-large", "GPT2", _gpt2(1280, 36, 20), 774_030_080),
    ("openai-community/gpt2-xl", "GPT2", _gpt2(1600, 48, 25), 1_557_611_200),
    ("bigscience/bloom-560m", "Bloom", _bloom(1024, 24, 16), 559_214_592),
    ("bigscience/bloom-7b1", "Bloom", _bloom(4096, 30, 32), 7_069_016_064),
    ("bigscience/bloom", "Bloom", _bloom(14336, 70, 112), 176_247_271_424),
    ("facebook/opt-125m", "OPT", _opt(768, 12, 12), 125_239_296),
    ("facebook/opt-1.3b", "OPT", _opt(2048, 24, 32), 1_315_758_080),
    ("facebook/opt-6.7b", "OPT", _opt(4096, 32, 32), 6_658_473_984),
    ("state-spaces/mamba-130m-hf", "Mamba", _mamba(768, 24), 129_135_360),
    ("state-spaces/mamba-2.8b-hf", "Mamba", _mamba(2560, 64), 2_768_345_600),
    ("FacebookAI/roberta-base", "Roberta", _bert(768, 12, 12, 50265, 514, 1), 124_697_433),
    ("FacebookAI/roberta-large", "Roberta", _bert(1024, 24, 16, 50265, 514, 1), 355_412_057),
    (
        "tencent/Hunyuan-A13B-Pretrain",
        "HunYuanMoEV1",
        {**_llama(4096, 3072, 32, 32, 8, 128167), **WIDE, **TIED, "num_experts": 64, "moe_topk": 8},
        80_393_183_232,
    ),
]
HEADS = {"GPT2": "LMHeadModel", "Roberta": "ForMaskedLM"}
"""The ending of the class of a kind of model, where that is not ForCausalLM."""


def checkpoint(kind: str, sizes: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a checkpoint."""
    return {**sizes, "architectures": [kind + HEADS.get(kind, "ForCausalLM")]}
