"""Zamba 2: Mamba-2 layers, and a few blocks of attention and MLP that many layers share.

A shared block reads hidden state and embedding side by side, so its attention is 2 h wide. Each use of a block has
its own adapters and projection. FLOPs count every use, parameters every block once. Sources: Zamba2
(arXiv:2411.15242), and the model classes in Hugging Face transformers.
"""

from __future__ import annotations

from collections.abc import Iterator

from ofu_exporter.flops.encoder_stack import useful
from ofu_exporter.flops.families.mamba import decoder_of
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import core, linear, reused, vector
from ofu_exporter.flops.shapes import Layer, Mamba2
from ofu_exporter.flops.terms import Extent, Part, Per, Term

ARCHITECTURES = ("Zamba2ForCausalLM",)

NEUTRAL = listed(
    """
    chunk_size hybrid_layer_ids kv_channels mamba_expand max_position_embeddings num_logits_to_keep num_query_groups
    time_step_floor time_step_limit time_step_max time_step_min use_conv_bias use_long_context use_mamba_kernels
    use_mem_eff_path use_mem_rope
    """
)

MAMBA = ("linear_attention", "mamba")


def read(fields: Fields, architecture: str) -> Model:
    """A decoder of Mamba-2 layers with shared blocks between them."""
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    mixer = Mamba2(
        heads=fields.size("n_mamba_heads"),
        head_dim=fields.size("mamba_headdim"),
        groups=fields.size("mamba_ngroups"),
        state=fields.size("mamba_d_state"),
        kernel=fields.size("mamba_d_conv"),
        bias=fields.flag("add_bias_linear", default=False),
    )
    shape = decoder_of(fields, hidden, [Layer(mixer, None, hidden)] * number, tied=True)
    uses = fields.words("layers_block_type", (*MAMBA, "hybrid"), number).count("hybrid")
    blocks = min(fields.size("num_mem_blocks", default=1), uses)
    terms = useful(_shared(fields, hidden, blocks, uses)) if uses else ()
    return Model("zamba", architecture, shape, terms, layers=number)


def _shared(fields: Fields, hidden: int, blocks: int, uses: int) -> Iterator[Term]:
    wide = fields.size("attention_hidden_size", default=2 * hidden)
    heads, head_dim = fields.size("num_attention_heads"), fields.size("attention_head_dim")
    groups, part = fields.size("num_key_value_heads", default=heads), Part.PROJECTION
    width, bias = fields.size("intermediate_size"), fields.flag("add_bias_linear", default=False)
    query, key, rank = heads * head_dim, groups * head_dim, fields.size("adapter_rank")
    if wide != 2 * hidden:
        raise fields.error("attention_hidden_size", f"must be twice the hidden size {hidden}")
    for name, outputs in (("q_proj", query), ("k_proj", key), ("v_proj", key)):
        yield reused(f"shared.{name}", part, wide, outputs, blocks, uses)
    yield core(query, query, uses, Extent(Per.PAIR, causal=True), "shared.core")
    yield reused("shared.o_proj", part, query, hidden, blocks, uses)
    yield reused("shared.gate_up_proj", Part.MLP, hidden, 2 * width, blocks, uses)
    yield reused("shared.down_proj", Part.MLP, width, hidden, blocks, uses)
    yield vector("shared.vectors", blocks * (wide + hidden + bias * (2 * width + hidden)))
    if fields.flag("use_shared_attention_adapter", default=False):
        yield linear("shared.adapters_down", part, wide, rank, times=3 * uses)
        yield linear("shared.adapters_up", part, rank, wide, times=3 * uses)
    yield linear("shared.mlp_adapter_down", Part.MLP, hidden, rank, times=uses)
    yield linear("shared.mlp_adapter_up", Part.MLP, rank, 2 * width, times=uses)
    yield linear("shared.linear", part, hidden, hidden, times=uses)
