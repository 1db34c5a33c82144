"""Wan: latents attend to themselves, then to the prompt.

Per layer 4 h^2 and 2 h^2 per latent token for self and cross attention, 2 h^2 per prompt token, 2 h f feed-forward;
cores over n^2 and n t pairs; one modulation 6 h^2 per sample that all layers share (the class in VeRL-Omni's page
counts one per layer). Sources: Wan (arXiv:2503.20314), diffusers `transformer_wan.py`, Megatron-Bridge
`flop_utils.py`, which leaves out the time embedding, 256 h + 7 h^2 per sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ofu_exporter.flops import diffusion as d
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.products import core, outside, vector
from ofu_exporter.flops.terms import Part, Term

ARCHITECTURES = ("WanTransformer3DModel",)


def read(fields: Fields, architecture: str) -> Model:
    """A transformer of a Wan 2.1 or 2.2 text-to-video or image-to-video pipeline without image encoder."""
    heads, head_dim = fields.size("num_attention_heads"), fields.size("attention_head_dim")
    hidden, number, width = heads * head_dim, fields.size("num_layers"), fields.size("ffn_dim")
    patch, text = prod(fields.sizes("patch_size", sides=3)), fields.size("text_dim")
    for name in ("image_dim", "added_kv_proj_dim", "pos_embed_seq_len"):
        if fields.has(name):
            raise fields.error(name, "of an image encoder is not known; known: null")
    channels, outputs = fields.size("in_channels"), fields.size("out_channels")
    terms = (
        outside("patch_embedding", Part.PROJECTION, channels * patch, hidden, d.PER_LATENT),
        *d.embedding("time_embed", fields.size("freq_dim"), hidden),
        d.per_sample("time_proj", hidden, 6 * hidden),
        outside("text_embed.linear_1", Part.PROJECTION, text, hidden, d.PER_PROMPT),
        outside("text_embed.linear_2", Part.PROJECTION, hidden, hidden, d.PER_PROMPT),
        *_layers(hidden, number),
        *d.mlp("ffn", hidden, width, number, d.PER_LATENT),
        *_norms(fields, hidden, number),
        outside("proj_out", Part.HEAD, hidden, outputs * patch, d.PER_LATENT),
    )
    return d.model("wan", architecture, terms, number)


def _layers(hidden: int, times: int) -> Iterator[Term]:
    yield from d.queries("self_attention", hidden, times, d.PER_LATENT)
    yield core(hidden, hidden, times, d.SELF, "self_attention.core")
    yield d.square("self_attention.o_proj", hidden, times, d.PER_LATENT)
    yield d.square("cross_attention.q_proj", hidden, times, d.PER_LATENT)
    yield d.square("cross_attention.k_proj", hidden, times, d.PER_PROMPT)
    yield d.square("cross_attention.v_proj", hidden, times, d.PER_PROMPT)
    yield core(hidden, hidden, times, d.CROSS, "cross_attention.core")
    yield d.square("cross_attention.o_proj", hidden, times, d.PER_LATENT)


def _norms(fields: Fields, hidden: int, times: int) -> tuple[Term, ...]:
    fields.word("qk_norm", ("rms_norm_across_heads",))
    crossed = 2 * hidden if fields.flag("cross_attn_norm") else 0
    return (
        vector("layers.vectors", (4 * hidden + crossed + 6 * hidden) * times),
        vector("scale_shift_table", 2 * hidden, in_layers=False),
    )
