"""DiT: a diffusion transformer over latents alone, conditioned on a class.

Per layer 4 h^2 + 8 h^2 multiply-adds per token, every pair, and per sample 6 h^2 of modulation and a time embedding of
its own (256 h + h^2), the first of which runs once more before the output. There is no prompt stream: a class is a
table that is looked up. Sources: DiT (arXiv:2212.09748), diffusers `dit_transformer_2d.py`. The tokens of a sample
follow from the configuration, so a batch is a number of samples.
"""

from __future__ import annotations

from dataclasses import replace

from ofu_exporter.flops import diffusion as d
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.neutral_fields import listed
from ofu_exporter.flops.products import core, embedding
from ofu_exporter.flops.terms import Part, Term, merge

ARCHITECTURES = ("DiTTransformer2DModel",)

NEUTRAL = listed("activation_fn norm_eps norm_num_groups norm_elementwise_affine upcast_attention")


def read(fields: Fields, architecture: str) -> Model:
    """The transformer of a DiT pipeline."""
    heads, head_dim = fields.size("num_attention_heads"), fields.size("attention_head_dim")
    hidden, number, patch = heads * head_dim, fields.size("num_layers"), fields.size("patch_size")
    fields.word("norm_type", ("ada_norm_zero",), "ada_norm_zero")
    if not fields.flag("attention_bias", default=True):
        raise fields.error("attention_bias", "false is not known; known: true")
    side = fields.size("sample_size")
    if side % patch:
        raise fields.contradiction("the patches must divide", "sample_size", "patch_size")
    channels = fields.size("in_channels")
    outputs = patch**2 * fields.size("out_channels", default=channels)
    wide = d.MLP_RATIO * hidden
    terms = (
        d.outside("pos_embed.proj", Part.PROJECTION, channels * patch**2, hidden, d.PER_LATENT),
        *_conditions(fields, hidden, number),
        *d.stream_attention("attention", hidden, hidden, number, d.PER_LATENT),
        core(hidden, hidden, number, d.SELF),
        d.output("attention", hidden, hidden, number, d.PER_LATENT),
        *d.mlp("mlp", hidden, wide, number, d.PER_LATENT),
        d.per_sample("proj_out_1", hidden, 2 * hidden),
        d.outside("proj_out_2", Part.HEAD, hidden, outputs, d.PER_LATENT),
    )
    return Model(
        "dit",
        architecture,
        terms=merge(terms),
        layers=number,
        counted=(d.LATENT,),
        lengths={d.LATENT: (side // patch) ** 2},
        streams=(),
    )


def _conditions(fields: Fields, hidden: int, number: int) -> tuple[Term, ...]:
    """Time and class embeddings of every layer, and the first layer's time embedding again for the output."""
    classes = fields.size("num_embeds_ada_norm") + 1
    table = embedding("embed_classes", number * classes, hidden)
    first = d.per_sample("time_embed.linear_1", d.TIME_CHANNELS, hidden, number)
    second = d.per_sample("time_embed.linear_2", hidden, hidden, number)
    before_output = (
        replace(term, name=f"{term.name} (output)", parameters=0, active=0, in_layers=False)
        for term in d.embedding("time_embed", d.TIME_CHANNELS, hidden)
    )
    return (
        table,
        first,
        second,
        *before_output,
        d.per_sample("modulation", hidden, 6 * hidden, number),
    )
