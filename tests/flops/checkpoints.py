"""Sizes of public checkpoints, with the number of parameters that their authors publish.

The sizes are those of each model's own card (`config.json` under its id), the number is that of its safetensors
index, or of the table in the card or paper. A head that is stored twice, once as the embedding, counts once. They
were noted down from memory: what checks a row of checkpoints.csv is that sizes and number, noted apart, agree to the
last digit. Of nine in ten the number was compared with what is `printed` elsewhere, and `where`. The sizes were not
compared with the cards, nor the numbers of the rest. A row that fails is to be compared first.

What others print was read in public copies of these pages, not in the pages themselves. HUB is `safetensors.total`
that the Hub's API (https://huggingface.co/api/models/ID) gives, as two public lists of September and October 2026
quote it; LLMFIT (https://github.com/AlexsJones/llmfit, data/hf_models.json, commit 4d3ab0e, parameters_raw) and KVFIT
(https://github.com/debaditc/kvfit, scripts/build_registry.py) are lists that were taken from there too. LLMFIT also
has rows written by hand, without downloads: none of these is here. Where a list has only the checkpoint tuned for
instructions, its base has the same sizes, or OTHERWISE says what differs. KERAS is `params` in a `*_presets.py` of
https://github.com/keras-team/keras-hub (keras_hub/src/models), which its authors take from the converted weights.
PYTHIA and BLOOM are the cards of EleutherAI/pythia-12b and bigscience/bloom, TENSORS docs/source/metadata_parsing.mdx
of https://github.com/huggingface/safetensors, CALFLOPS the README of
https://github.com/MrYxJ/calculate-flops.pytorch, ROCM blogs/artificial-intelligence/mamba of
https://github.com/ROCm/rocm-blogs, and MOE docs/validation.md of https://github.com/A3S-Lab/MoE. Of the rest no exact
number was found in a place that can be named.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


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


FORMS: dict[str, Callable[..., dict[str, Any]]] = {
    "llama": _llama,
    "gpt2": _gpt2,
    "neox": _neox,
    "bloom": _bloom,
    "opt": _opt,
    "mamba": _mamba,
    "bert": _bert,
    "": dict,
}


class Checkpoint(NamedTuple):
    """A row: what the model is, its parameters, and what somebody else prints of it, None where nobody does."""

    name: str
    kind: str
    sizes: dict[str, Any]
    parameters: int
    printed: int | None
    where: str


def _rows() -> Iterator[Checkpoint]:
    with Path(__file__).with_suffix(".csv").open() as file:
        for row in csv.DictReader(file):
            pairs = (each.split("=") for each in row["more"].split())
            sizes = {
                **FORMS[row["form"]](*map(int, row["sizes"].split())),
                **{name: json.loads(value) for name, value in pairs},
            }
            numbers = int(row["parameters"]), int(row["printed"]) if row["printed"] else None
            yield Checkpoint(row["id"], row["kind"], sizes, *numbers, row["where"])


CHECKPOINTS = list(_rows())
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
HEADS = {"GPT2": "LMHeadModel", "Roberta": "ForMaskedLM"}
"""The ending of the class of a kind of model, where that is not ForCausalLM."""


def checkpoint(kind: str, sizes: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a checkpoint."""
    return {**sizes, "architectures": [kind + HEADS.get(kind, "ForCausalLM")]}
