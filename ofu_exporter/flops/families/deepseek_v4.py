"""DeepSeek-V4: windows beside compressed keys, parallel residual streams, experts in every layer.

A layer attends to a window alone, to all compressed keys of its past (of 128 tokens each), or to the best of those of 4
tokens, which an indexer finds by scoring all. Terms and formulas are those of `mixers.CompressedAttention`. Sources:
DeepSeek-V4 (model card), hyper-connections (arXiv:2409.19606), and the model class in Hugging Face transformers.
"""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.mixers import CompressedAttention, Indexer
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.products import outside, vector
from ofu_exporter.flops.shapes import Layer
from ofu_exporter.flops.terms import PER_TOKEN, Part

ARCHITECTURES = ("DeepseekV4ForCausalLM",)
NEAR, SPARSE, HEAVY = (
    "sliding_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
)
RATES = {NEAR: 0, SPARSE: 4, HEAVY: 128}
"""Tokens of a compressed key of each kind of layer: chosen keys, and keys that are not."""
MOST_TOKENS = 1 << 20


def read(fields: Fields, architecture: str) -> Model:
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    kinds = _kinds(fields, number)
    mixers = {kind: _attention(fields, kind) for kind in RATES}
    block = hf_config.experts(fields, "moe_intermediate_size", "n_routed_experts")
    shared = fields.size("n_shared_experts", default=1, least=0) * block.width
    routed = replace(block, shared_width=shared, correction_bias=True)
    hashed = replace(routed, correction_bias=False)  # a table chooses by the token
    first = fields.size("num_hash_layers", default=3, least=0)
    if fields.has("mlp_layer_types"):
        first = fields.words("mlp_layer_types", ("hash_moe", "moe"), number).count("hash_moe")
    layers = [
        Layer(mixers[kind], hashed if index < first else routed, 2 * hidden)
        for index, kind in enumerate(kinds)
    ]
    shape = hf_config.decoder_of(fields, hidden, layers[:number])
    shape = replace(shape, prediction_layers=tuple(layers[number:][:1]))
    streams = mixers[NEAR].streams
    terms = (
        outside("streams.head", Part.PROJECTION, streams * hidden, streams, PER_TOKEN),
        vector("streams.head_scale", 1, in_layers=False),
    )
    return Model("deepseek_v4", architecture, shape, terms, layers=number)


def _kinds(fields: Fields, number: int) -> list[str]:
    """The kind of each layer, by numbers in the published file, which go on with the predictions, or by words."""
    if fields.has("layer_types"):
        return [*fields.words("layer_types", RATES, number)]
    kind_of = {rate: kind for kind, rate in RATES.items()}
    rates = fields.sizes("compress_ratios", least=0)
    predictions = fields.size("num_nextn_predict_layers", default=0, least=0)
    if len(rates) not in (number, number + predictions) or not {*rates} <= kind_of.keys():
        wrong = f"must be one of {[*kind_of]} for each layer"
        raise fields.contradiction(wrong, "compress_ratios", "num_hidden_layers")
    return [kind_of[rate] for rate in rates]


def _attention(fields: Fields, kind: str) -> CompressedAttention:
    fields.refuse(True, "attention_bias", "mlp_bias")
    heads, groups = fields.size("num_attention_heads"), fields.size("o_groups")
    if fields.size("num_key_value_heads", default=1) != 1 or heads % groups:
        names = ("num_attention_heads", "num_key_value_heads", "o_groups")
        raise fields.contradiction("one key is for all heads, which groups divide", *names)
    keys, small = fields.size("index_topk"), fields.size("index_n_heads")
    indexer = Indexer(small, fields.size("index_head_dim"))
    rates = fields.mapping("compress_rates") if fields.has("compress_rates") else {}
    rate = rates.get(kind, RATES[kind])
    if type(rate) is not int or not 0 <= rate <= MOST_TOKENS:
        raise fields.error("compress_rates", f"{rate!r} is not a number of tokens")
    return CompressedAttention(
        heads,
        fields.size("head_dim"),
        query_rank=fields.size("q_lora_rank"),
        output_groups=groups,
        output_rank=fields.size("o_lora_rank"),
        window=fields.size("sliding_window"),
        streams=fields.size("hc_mult"),
        rate=rate or None,
        keys=keys if kind == SPARSE else None,
        indexer=indexer if kind == SPARSE else None,
    )
