"""Gemma 4: windows in most layers, wide heads whose keys are the values in the others, dense and sparse side by side.

Every layer has an MLP; with enable_moe_block routed experts run beside it, so it counts as their shared expert.
Embeddings for each layer and layers that share keys (E2B, E4B) are refused. Sources: Gemma 4 (model card), Gemma 3
(arXiv:2503.19786) for the windows, and the model class in Hugging Face transformers.
"""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.mixers import GroupedAttention
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.shapes import Experts, FeedForward, Layer, Mlp

ARCHITECTURES = ("Gemma4ForCausalLM",)
NORMS, SPARSE_NORMS = 4, 8
"""Vectors of the hidden size in a layer: around attention and MLP; with experts three norms and the router's scale
more."""


def read(fields: Fields, architecture: str) -> Model:
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    for name in ("hidden_size_per_layer_input", "num_kv_shared_layers"):
        if fields.size(name, default=0, least=0):
            raise fields.error(name, "above 0 is not known; known: 0")
    if fields.has("use_bidirectional_attention"):
        fields.word("use_bidirectional_attention", ("vision",))
    local, full = _attentions(fields, hidden)
    kinds = fields.words("layer_types", (hf_config.FULL, hf_config.SLIDING), number)
    block, norms = _block(fields)
    layers = [
        Layer(full if kind == hf_config.FULL else local, block, norms * hidden) for kind in kinds
    ]
    shape = hf_config.decoder_of(fields, hidden, layers, tied=True)
    return Model("gemma4", architecture, shape, layers=number)


def _attentions(fields: Fields, hidden: int) -> tuple[GroupedAttention, GroupedAttention]:
    """The attention of layers with a window, and of the others."""
    mixer = hf_config.grouped_attention(fields, hidden)
    mixer = replace(mixer, norm_parameters=2 * mixer.head_dim)
    alike = fields.flag("attention_k_eq_v", default=False)
    wide, groups = _global_heads(fields, mixer, alike)
    if mixer.heads % groups:
        names = ("num_attention_heads", "num_global_key_value_heads")
        raise fields.contradiction("the groups must divide the heads", *names)
    full = replace(
        mixer, groups=groups, head_dim=wide, norm_parameters=2 * wide, values_are_keys=alike
    )
    return replace(mixer, window=fields.size("sliding_window")), full


def _global_heads(fields: Fields, mixer: GroupedAttention, alike: bool) -> tuple[int, int]:
    """Head dimension and groups of layers without a window, as the published file or transformers writes them."""
    if fields.has("per_layer_config"):
        stated = [*fields.mapping("per_layer_config").values()]
        if not stated or any(each != stated[0] for each in stated):
            raise fields.error(
                "per_layer_config", "must say the same of all layers without a window"
            )
        whole = Fields(stated[0] if isinstance(stated[0], dict) else {}, where="per_layer_config.")
        sizes = whole.size("head_dim", default=512)
        groups = whole.size("num_key_value_heads", default=mixer.groups)
        whole.finish()
        return sizes, groups
    groups = fields.size("num_global_key_value_heads", default=mixer.groups)
    return fields.size("global_head_dim", default=512), groups if alike else mixer.groups


def _block(fields: Fields) -> tuple[FeedForward, int]:
    """The feed-forward block of a layer, and how many vectors of the hidden size it has."""
    dense = Mlp(fields.size("intermediate_size"), gated=True)
    fields.has("use_double_wide_mlp")  # of layers that share keys
    if not fields.flag("enable_moe_block", default=False):
        return dense, NORMS
    number, used = fields.size("num_experts"), fields.size("top_k_experts")
    if used > number:
        raise fields.contradiction("more experts than there are", "num_experts", "top_k_experts")
    width = fields.size("moe_intermediate_size", "expert_intermediate_size")
    # Each expert has a scale of its own.
    block = Experts(number, used, width, gated=True, shared_width=dense.width, correction_bias=True)
    return block, SPARSE_NORMS
