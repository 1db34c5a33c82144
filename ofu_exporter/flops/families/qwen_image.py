"""Qwen-Image: a dual-stream diffusion transformer with joint attention.

Per layer 12 h^2 multiply-adds per latent token and per prompt token, joint full attention over both, and 12 h^2 of
modulation per sample; around the layers the two input projections, the output projection and the time embedding.
Sources: VeRL-Omni `verl_omni/utils/mfu/qwen_image.py`, which leaves out the time embedding and norm_out, 256 h + 3 h^2
per sample; diffusers `transformer_qwenimage.py`; Qwen-Image (arXiv:2508.02324).
"""

from __future__ import annotations

from ofu_exporter.flops import diffusion as d
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.products import core, outside, vector
from ofu_exporter.flops.terms import Part

ARCHITECTURES = ("QwenImageTransformer2DModel",)


def read(fields: Fields, architecture: str) -> Model:
    heads, head_dim = fields.size("num_attention_heads"), fields.size("attention_head_dim")
    hidden, number, patch = heads * head_dim, fields.size("num_layers"), fields.size("patch_size")
    channels = fields.size("in_channels")
    outputs = patch**2 * fields.size("out_channels", default=channels)
    prompt = fields.size("joint_attention_dim")
    fields.refuse(True, "zero_cond_t", "use_additional_t_cond")
    terms = (
        outside("img_in", Part.PROJECTION, channels, hidden, d.PER_LATENT),
        vector("txt_norm", prompt, in_layers=False),
        outside("txt_in", Part.PROJECTION, prompt, hidden, d.PER_PROMPT),
        *d.embedding("time_embed", d.TIME_CHANNELS, hidden),
        d.per_sample("img_mod", hidden, 6 * hidden, number),
        d.per_sample("txt_mod", hidden, 6 * hidden, number),
        *d.queries("img_attention", hidden, number, d.PER_LATENT),
        *d.queries("txt_attention", hidden, number, d.PER_PROMPT),
        core(hidden, hidden, number, d.JOINT),
        d.square("img_attention.o_proj", hidden, number, d.PER_LATENT),
        d.square("txt_attention.o_proj", hidden, number, d.PER_PROMPT),
        vector("attention.norms", 4 * head_dim * number),
        *d.mlp("img_mlp", hidden, d.MLP_RATIO * hidden, number, d.PER_LATENT),
        *d.mlp("txt_mlp", hidden, d.MLP_RATIO * hidden, number, d.PER_PROMPT),
        d.per_sample("norm_out", hidden, 2 * hidden),
        outside("proj_out", Part.HEAD, hidden, outputs, d.PER_LATENT),
    )
    return d.model("qwen_image", architecture, terms, number)
