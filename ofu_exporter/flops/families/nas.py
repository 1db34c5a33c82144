"""DeciLM, such as Llama-3.3-Nemotron-Super: a Llama each of whose layers was searched for, with blocks left out.

`block_configs` says for each layer how many heads share a key, and how wide the feed-forward block is: ffn_mult times
2/3 of the hidden size, up to the next multiple of 256. A block that is a no-op has neither weights nor a norm.
Sources: Puzzle (arXiv:2411.19146), and `modeling_decilm.py` of the published models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.hf_config import decoder_of
from ofu_exporter.flops.mixers import GroupedAttention
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.shapes import Layer, Mlp

ARCHITECTURES = ("DeciLMForCausalLM",)
MULTIPLE = 256
KNOWN = {"attention": {"n_heads_in_group", "no_op"}, "ffn": {"ffn_mult", "no_op"}}
"""What a block says; anything else that is set makes another block of it."""


def read(fields: Fields, architecture: str) -> Model:
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    blocks = fields.items("block_configs")
    if len(blocks) != number:
        raise fields.error("block_configs", f"has {len(blocks)} entries for {number} layers")
    layers = [_layer(fields, block, hidden) for block in blocks]
    return Model("nas", architecture, decoder_of(fields, hidden, layers), layers=number)


def _layer(fields: Fields, block: object, hidden: int) -> Layer:
    mixer, width = _attention(fields, block, hidden), _width(fields, block, hidden)
    mlp = None if width is None else Mlp(width, True, fields.flag("mlp_bias", default=False))
    norms = hidden * ((mixer is not None) + (mlp is not None))
    return Layer(mixer, mlp, norms)


def _attention(fields: Fields, block: object, hidden: int) -> GroupedAttention | None:
    stated, heads = _part(fields, block, "attention"), fields.size("num_attention_heads")
    if stated.get("no_op"):
        return None
    shared = stated.get("n_heads_in_group")
    if type(shared) is not int or shared < 1 or heads % shared or hidden % heads:
        raise fields.error(
            "block_configs", f"n_heads_in_group={shared!r} must divide {heads} heads"
        )
    bias = fields.flag("attention_bias", default=False)
    return GroupedAttention(heads, heads // shared, hidden // heads, qkv_bias=bias, out_bias=bias)


def _width(fields: Fields, block: object, hidden: int) -> int | None:
    stated = _part(fields, block, "ffn")
    if stated.get("no_op"):
        return None
    ratio = stated.get("ffn_mult")
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio < MULTIPLE:
        raise fields.error("block_configs", f"ffn_mult={ratio!r} is not a ratio above 0")
    return -(-int(2 * ratio * hidden / 3) // MULTIPLE) * MULTIPLE


def _part(fields: Fields, block: object, name: str) -> Mapping[str, Any]:
    stated = block.get(name) if isinstance(block, Mapping) else None
    if not isinstance(stated, Mapping):
        raise fields.error("block_configs", f"a layer has no {name}")
    if others := sorted(key for key, value in stated.items() if value and key not in KNOWN[name]):
        raise fields.error("block_configs", f"{name}.{others[0]} is not known")
    return stated
