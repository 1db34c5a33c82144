"""MiMo-V2-Flash: windows of 128 tokens in most layers, values narrower than keys, sparse layers.

Layers with a window have a learned sink for each head and twice the key/value heads. Sources: MiMo-V2-Flash
(model card), MiMo (arXiv:2505.07608), and the model class in Hugging Face transformers.
"""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.mixers import GroupedAttention
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.shapes import Layer, Mlp

ARCHITECTURES = ("MiMoV2FlashForCausalLM",)


def read(fields: Fields, architecture: str) -> Model:
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    full, local = _attention(fields, hidden), _windowed(fields, hidden)
    experts = replace(
        hf_config.experts(fields, "moe_intermediate_size", "n_routed_experts", "num_local_experts"),
        shared_width=fields.size("n_shared_experts", default=0, least=0)
        * fields.size("moe_intermediate_size"),
        correction_bias=True,
    )
    dense = Mlp(fields.size("intermediate_size"), gated=True)
    slides = _kinds(fields, "hybrid_layer_pattern", "layer_types", "sliding_attention", number)
    sparse = _kinds(fields, "moe_layer_freq", "mlp_layer_types", "sparse", number)
    layers = [
        Layer(local if windowed else full, experts if routed else dense, 2 * hidden)
        for windowed, routed in zip(slides, sparse, strict=True)
    ]
    return Model("mimo", architecture, hf_config.decoder_of(fields, hidden, layers), layers=number)


def _attention(fields: Fields, hidden: int) -> GroupedAttention:
    mixer = GroupedAttention(
        *hf_config.heads(fields, hidden),
        qkv_bias=fields.flag("attention_bias", default=False),
        value_head_dim=fields.optional("v_head_dim"),
    )
    return _with_sinks(fields, mixer, "add_full_attention_sink_bias", default=False)


def _windowed(fields: Fields, hidden: int) -> GroupedAttention:
    heads, groups, head_dim = hf_config.heads(fields, hidden)
    value = fields.size("v_head_dim", default=head_dim)
    mixer = GroupedAttention(
        fields.size("swa_num_attention_heads", default=heads),
        fields.size("swa_num_key_value_heads", default=2 * groups),
        fields.size("swa_head_dim", default=head_dim),
        qkv_bias=fields.flag("attention_bias", default=False),
        window=fields.size("sliding_window", "sliding_window_size"),
        value_head_dim=fields.size("swa_v_head_dim", default=value),
    )
    if mixer.heads % mixer.groups:
        names = ("swa_num_attention_heads", "swa_num_key_value_heads")
        raise fields.contradiction("the groups must divide the heads", *names)
    return _with_sinks(fields, mixer, "add_swa_attention_sink_bias", default=True)


def _with_sinks(
    fields: Fields, mixer: GroupedAttention, name: str, *, default: bool
) -> GroupedAttention:
    sinks = mixer.heads * fields.flag(name, default=default)
    return replace(mixer, norm_parameters=mixer.norm_parameters + sinks)


def _kinds(fields: Fields, bits: str, words: str, word: str, number: int) -> list[bool]:
    """Which layers are of a kind: by 0 and 1 in the published file, or by transformers' words."""
    if fields.has(words):
        kinds = ("full_attention", "sliding_attention", "dense", "sparse")
        return [each == word for each in fields.words(words, kinds, number)]
    listed = fields.sizes(bits, least=0)
    if len(listed) != number or not {*listed} <= {0, 1}:
        raise fields.error(bits, f"must have 0 or 1 for each of {number} layers")
    return [bool(each) for each in listed]
