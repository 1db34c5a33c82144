"""Numbers of parameters that others print of public checkpoints, and where.

They were read in public copies of these pages, not in the pages themselves. HUB is `safetensors.total` that the Hub's
API (https://huggingface.co/api/models/ID) gives, as two public lists of September and October 2026 quote it; LLMFIT
and KVFIT are lists that were taken from there too. LLMFIT also has rows written by hand, without downloads:
none of these is here. Where a list has only the checkpoint tuned for instructions, its base has the same sizes, or
OTHERWISE says what differs. KERAS is `params` in a `*_presets.py` of keras-team/keras-hub, which its authors take from
the converted weights. Of the rest no exact number was found in a place that can be named.
"""

from __future__ import annotations

HUB = "https://huggingface.co/api/models"
KERAS = "https://github.com/keras-team/keras-hub/blob/master/keras_hub/src/models"
PYTHIA = "https://huggingface.co/EleutherAI/pythia-12b, table of total params"
BLOOM = "https://huggingface.co/bigscience/bloom, model card"
TENSORS = "https://github.com/huggingface/safetensors, docs/source/metadata_parsing.mdx, parameters of F32"
LLMFIT = (
    "https://github.com/AlexsJones/llmfit, data/hf_models.json (commit 4d3ab0e), parameters_raw"
)
KVFIT = "https://github.com/debaditc/kvfit, scripts/build_registry.py"
CALFLOPS = "https://github.com/MrYxJ/calculate-flops.pytorch, README.md, Params(Total)"
ROCM = "https://github.com/ROCm/rocm-blogs, blogs/artificial-intelligence/mamba/README.md"
MOE = "https://github.com/A3S-Lab/MoE, docs/validation.md, parameterCount"

CHECKED: dict[str, tuple[int, str]] = {
    "meta-llama/Llama-2-7b-hf": (6_738_415_616, f"{KERAS}/llama"),
    "meta-llama/Llama-2-13b-hf": (13_015_866_880, HUB),
    "meta-llama/Llama-2-70b-hf": (68_976_653_312, HUB),
    "meta-llama/Llama-3.2-1B": (1_235_814_400, HUB),
    "meta-llama/Llama-3.2-3B": (3_212_749_824, HUB),
    "meta-llama/Llama-3.1-405B": (405_853_388_800, HUB),
    "TinyLlama/TinyLlama-1.1B": (1_100_048_384, f"{LLMFIT} of TinyLlama-1.1B-Chat-v1.0"),
    "HuggingFaceTB/SmolLM2-135M": (134_515_008, HUB),
    "HuggingFaceTB/SmolLM2-360M": (361_821_120, HUB),
    "HuggingFaceTB/SmolLM2-1.7B": (1_711_376_384, HUB),
    "HuggingFaceTB/SmolLM3-3B": (3_075_098_624, HUB),
    "Qwen/Qwen2.5-0.5B": (494_032_768, HUB),
    "Qwen/Qwen2.5-1.5B": (1_543_714_304, HUB),
    "Qwen/Qwen2.5-3B": (3_085_938_688, HUB),
    "Qwen/Qwen2.5-14B": (14_770_033_664, LLMFIT),
    "Qwen/Qwen2.5-32B": (32_763_876_352, f"{KERAS}/qwen"),
    "Qwen/Qwen2.5-72B": (72_706_203_648, f"{KERAS}/qwen"),
    "Qwen/Qwen3-0.6B": (751_632_384, HUB),
    "Qwen/Qwen3-4B": (4_022_468_096, HUB),
    "Qwen/Qwen3-14B": (14_768_307_200, f"{KERAS}/qwen3"),
    "Qwen/Qwen3-32B": (32_762_123_264, HUB),
    "Qwen/Qwen3-235B-A22B": (235_093_634_560, f"{KERAS}/qwen3_moe"),
    "mistralai/Mistral-Nemo-Base-2407": (12_247_782_400, KVFIT),
    "mistralai/Mistral-Small-24B-Base-2501": (
        23_572_403_200,
        f"{HUB}/sarvamai/sarvam-m, which is this model trained further",
    ),
    "mistralai/Mixtral-8x22B-v0.1": (140_630_071_296, LLMFIT),
    "google/gemma-2b": (2_506_172_416, f"{KERAS}/gemma"),
    "google/gemma-2-2b": (2_614_341_888, HUB),
    "google/gemma-2-27b": (27_227_128_320, f"{KERAS}/gemma"),
    "google/gemma-3-1b-pt": (999_885_952, HUB),
    "microsoft/phi-1_5": (1_418_270_720, LLMFIT),
    "microsoft/Phi-3-mini-4k-instruct": (3_821_079_552, HUB),
    "microsoft/phi-4": (14_659_507_200, HUB),
    "bigcode/starcoder2-3b": (3_030_371_328, LLMFIT),
    "bigcode/starcoder2-7b": (7_173_923_840, LLMFIT),
    "allenai/OLMo-1B-hf": (1_176_764_416, LLMFIT),
    "allenai/OLMo-2-1124-7B": (7_298_617_344, HUB),
    "allenai/OLMoE-1B-7B-0924": (6_919_161_856, MOE),
    "tiiuae/falcon-7b": (7_217_189_760, LLMFIT),
    "CohereForAI/c4ai-command-r7b-12-2024": (8_028_033_024, LLMFIT),
    "stabilityai/stablelm-3b-4e1t": (2_795_443_200, LLMFIT),
    "stabilityai/stablelm-2-1_6b": (1_644_515_328, LLMFIT),
    "swiss-ai/Apertus-8B-2509": (8_053_338_176, LLMFIT),
    "EleutherAI/pythia-70m": (70_426_624, PYTHIA),
    "EleutherAI/pythia-160m": (162_322_944, PYTHIA),
    "EleutherAI/pythia-410m": (405_334_016, PYTHIA),
    "EleutherAI/pythia-1b": (1_011_781_632, PYTHIA),
    "EleutherAI/pythia-1.4b": (1_414_647_808, PYTHIA),
    "EleutherAI/pythia-2.8b": (2_775_208_960, PYTHIA),
    "EleutherAI/pythia-6.9b": (6_857_302_016, PYTHIA),
    "EleutherAI/pythia-12b": (11_846_072_320, PYTHIA),
    "openai-community/gpt2-medium": (354_823_168, f"{KERAS}/gpt2"),
    "openai-community/gpt2-large": (774_030_080, f"{KERAS}/gpt2"),
    "openai-community/gpt2-xl": (1_557_611_200, f"{KERAS}/gpt2"),
    "bigscience/bloom-560m": (559_214_592, f"{KERAS}/bloom"),
    "bigscience/bloom-7b1": (7_069_016_064, CALFLOPS),
    "bigscience/bloom": (176_247_271_424, BLOOM),
    "facebook/opt-125m": (125_237_760, f"{KERAS}/opt"),
    "facebook/opt-1.3b": (1_315_753_984, f"{KERAS}/opt"),
    "state-spaces/mamba-130m-hf": (129_135_360, LLMFIT),
    "state-spaces/mamba-2.8b-hf": (2_768_345_600, ROCM),
    "FacebookAI/roberta-base": (124_697_433, TENSORS),
    "FacebookAI/roberta-large": (355_412_057, TENSORS),
}
"""The number that is printed of a checkpoint, and where."""

OTHERWISE: dict[str, tuple[int, str]] = {
    "meta-llama/Llama-2-13b-hf": (40 * 64, "64 rotary frequencies per layer are stored"),
    "meta-llama/Llama-2-70b-hf": (80 * 64, "64 rotary frequencies per layer are stored"),
    "Qwen/Qwen3-0.6B": (151936 * 1024, "the head is stored beside the embedding that it is"),
    "mistralai/Mixtral-8x22B-v0.1": (2 * 768 * 6144, "the tuned one has 768 more words"),
    "tiiuae/falcon-7b": (65024 * 4544, "the head is stored beside the embedding that it is"),
    "facebook/opt-125m": (-2 * 768, "Keras leaves out the two positions of padding"),
    "facebook/opt-1.3b": (-2 * 2048, "Keras leaves out the two positions of padding"),
}
"""What is printed more than the model has parameters, and why."""
