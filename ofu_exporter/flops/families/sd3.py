"""Stable Diffusion 3: a dual-stream diffusion transformer whose last layer drops the prompt stream.

The model is like Qwen-Image, with a pooled text embedding per sample, a last layer without projection and
feed-forward block for the prompt, and (SD 3.5 medium) a second attention among the latents in some layers. Sources:
MM-DiT (arXiv:2403.03206), diffusers `transformer_sd3.py`.
"""

from __future__ import annotations

from ofu_exporter.flops import diffusion as d
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.products import core, vector
from ofu_exporter.flops.terms import Part, Term, merge

ARCHITECTURES = ("SD3Transformer2DModel",)

NEUTRAL = frozenset({"sample_size", "pos_embed_max_size"})


def read(fields: Fields, architecture: str) -> Model:
    """The transformer of an SD 3 or 3.5 pipeline."""
    heads, head_dim = fields.size("num_attention_heads"), fields.size("attention_head_dim")
    hidden, number, patch = heads * head_dim, fields.size("num_layers"), fields.size("patch_size")
    if fields.size("caption_projection_dim") != hidden:
        raise fields.contradiction(
            f"the prompt is projected to the hidden size {hidden}",
            "caption_projection_dim",
            "num_attention_heads",
            "attention_head_dim",
        )
    channels = fields.size("in_channels")
    outputs = patch**2 * fields.size("out_channels", default=channels)
    last = number - 1
    terms = (
        d.outside("pos_embed.proj", Part.PROJECTION, channels * patch**2, hidden, d.PER_LATENT),
        d.outside(
            "context_embedder",
            Part.PROJECTION,
            fields.size("joint_attention_dim"),
            hidden,
            d.PER_PROMPT,
        ),
        *d.embedding("time_embed", d.TIME_CHANNELS, hidden),
        *d.embedding("text_embed", fields.size("pooled_projection_dim"), hidden),
        *_second(fields, hidden, head_dim, number),
        d.per_sample("txt_mod", hidden, 6 * hidden, last),
        d.per_sample("txt_mod (last)", hidden, 2 * hidden),
        *d.stream_attention("img_attention", hidden, hidden, number, d.PER_LATENT),
        *d.stream_attention("txt_attention", hidden, hidden, number, d.PER_PROMPT),
        core(hidden, hidden, number, d.JOINT),
        d.output("img_attention", hidden, hidden, number, d.PER_LATENT),
        d.output("txt_attention", hidden, hidden, last, d.PER_PROMPT),
        vector("attention.norms", 4 * head_dim * number * _norms(fields)),
        *d.mlp("img_mlp", hidden, d.MLP_RATIO * hidden, number, d.PER_LATENT),
        *d.mlp("txt_mlp", hidden, d.MLP_RATIO * hidden, last, d.PER_PROMPT),
        d.per_sample("norm_out", hidden, 2 * hidden),
        d.outside("proj_out", Part.HEAD, hidden, outputs, d.PER_LATENT),
    )
    return Model(
        "sd3",
        architecture,
        terms=merge(term for term in terms if term.parameters or term.flops),
        layers=number,
        counted=(d.LATENT,),
        streams=(d.LATENT, d.PROMPT),
    )


def _norms(fields: Fields) -> int:
    return int(fields.has("qk_norm") and fields.word("qk_norm", ("rms_norm",)) == "rms_norm")


def _second(fields: Fields, hidden: int, head_dim: int, number: int) -> list[Term]:
    """Modulation of the latents, 9 times the hidden size wide in layers with a second attention, else 6 times."""
    named = (
        fields.sizes("dual_attention_layers", least=0)
        if fields.has("dual_attention_layers")
        else ()
    )
    if any(index >= number for index in named):
        raise fields.contradiction(
            "a layer that is not there", "dual_attention_layers", "num_layers"
        )
    second = len({*named})
    plain = d.per_sample("img_mod", hidden, 6 * hidden, number - second)
    if not second:
        return [plain]
    return [
        plain,
        d.per_sample("img_mod (dual)", hidden, 9 * hidden, second),
        *d.stream_attention("img_attention_2", hidden, hidden, second, d.PER_LATENT),
        core(hidden, hidden, second, d.SELF, "img_attention_2.core"),
        d.output("img_attention_2", hidden, hidden, second, d.PER_LATENT),
        vector("img_attention_2.norms", 2 * head_dim * second * _norms(fields)),
    ]
