"""Flux: dual-stream layers, then single-stream layers over latent and prompt tokens together.

A single layer projects every token of both streams once: 3 h^2 for query, key and value, 4 h^2 into the feed-forward
width and 5 h^2 out of both. Sources: diffusers `transformer_flux.py`, MM-DiT (arXiv:2403.03206); torchtitan counts
half of the attention, which is not causal.
"""

from __future__ import annotations

from ofu_exporter.flops import diffusion as d
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.products import core, linear, vector
from ofu_exporter.flops.terms import Part, Term, merge

ARCHITECTURES = ("FluxTransformer2DModel",)

NEUTRAL = frozenset({"axes_dims_rope"})


def read(fields: Fields, architecture: str) -> Model:
    """The transformer of a Flux.1 pipeline."""
    heads, head_dim = fields.size("num_attention_heads"), fields.size("attention_head_dim")
    hidden, double = heads * head_dim, fields.size("num_layers")
    single = fields.size("num_single_layers", least=0)
    channels = fields.size("in_channels")
    outputs = fields.size("patch_size") ** 2 * fields.size("out_channels", default=channels)
    prompt, pooled = fields.size("joint_attention_dim"), fields.size("pooled_projection_dim")
    guidance = d.embedding("guidance_embed", d.TIME_CHANNELS, hidden)
    terms = (
        d.outside("x_embedder", Part.PROJECTION, channels, hidden, d.PER_LATENT),
        d.outside("context_embedder", Part.PROJECTION, prompt, hidden, d.PER_PROMPT),
        *d.embedding("time_embed", d.TIME_CHANNELS, hidden),
        *(guidance if fields.flag("guidance_embeds", default=False) else ()),
        *d.embedding("text_embed", pooled, hidden),
        *_double(hidden, head_dim, double),
        *_single(hidden, head_dim, single),
        d.per_sample("norm_out", hidden, 2 * hidden),
        d.outside("proj_out", Part.HEAD, hidden, outputs, d.PER_LATENT),
    )
    return Model(
        "flux",
        architecture,
        terms=merge(term for term in terms if term.parameters or term.flops),
        layers=double + single,
        counted=(d.LATENT,),
        streams=(d.LATENT, d.PROMPT),
    )


def _double(hidden: int, head_dim: int, times: int) -> tuple[Term, ...]:
    return (
        d.per_sample("img_mod", hidden, 6 * hidden, times),
        d.per_sample("txt_mod", hidden, 6 * hidden, times),
        *d.stream_attention("img_attention", hidden, hidden, times, d.PER_LATENT),
        *d.stream_attention("txt_attention", hidden, hidden, times, d.PER_PROMPT),
        core(hidden, hidden, times, d.JOINT),
        d.output("img_attention", hidden, hidden, times, d.PER_LATENT),
        d.output("txt_attention", hidden, hidden, times, d.PER_PROMPT),
        vector("attention.norms", 4 * head_dim * times),
        *d.mlp("img_mlp", hidden, d.MLP_RATIO * hidden, times, d.PER_LATENT),
        *d.mlp("txt_mlp", hidden, d.MLP_RATIO * hidden, times, d.PER_PROMPT),
    )


def _single(hidden: int, head_dim: int, times: int) -> tuple[Term, ...]:
    wide = d.MLP_RATIO * hidden
    return (
        d.per_sample("single_mod", hidden, 3 * hidden, times),
        *d.stream_attention("single_attention", hidden, hidden, times, d.PER_BOTH),
        core(hidden, hidden, times, d.JOINT, "single_attention.core"),
        vector("single_attention.norms", 2 * head_dim * times),
        linear(
            "single_mlp.up_proj", Part.MLP, hidden, wide, times=times, bias=True, extent=d.PER_BOTH
        ),
        linear(
            "single.proj_out",
            Part.PROJECTION,
            hidden + wide,
            hidden,
            times=times,
            bias=True,
            extent=d.PER_BOTH,
        ),
    )
