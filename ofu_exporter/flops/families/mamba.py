"""Mamba and Mamba-2: a mixer with a state in every layer, no attention, no feed-forward block.

Terms and formulas are those of `mixers`. Sources: Mamba (arXiv:2312.00752), Mamba-2 (arXiv:2405.21060), Falcon
Mamba (arXiv:2410.05355), and the model classes in Hugging Face transformers. Other families use the mixer, too.
"""

from __future__ import annotations

from collections.abc import Callable

from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.hf_config import decoder_of
from ofu_exporter.flops.mixers import Mamba1, Mamba2
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.shapes import Decoder, Layer


def mamba(fields: Fields) -> Decoder:
    """Mamba: a mixer and a norm in every layer, no feed-forward block (arXiv:2312.00752)."""
    hidden = fields.size("hidden_size")
    mixer = Mamba1(
        inner=fields.size("intermediate_size", default=fields.size("expand", default=2) * hidden),
        state=fields.size("state_size"),
        kernel=fields.size("conv_kernel"),
        step_rank=fields.size("time_step_rank", default=-(-hidden // 16)),
        conv_bias=fields.flag("use_conv_bias", default=True),
        bias=fields.flag("use_bias", default=False),
    )
    layers = [Layer(mixer, None, hidden)] * fields.size("num_hidden_layers")
    return decoder_of(fields, hidden, layers, tied=True)


def mamba_2(fields: Fields) -> Decoder:
    """Mamba-2: the same with its mixer (arXiv:2405.21060)."""
    hidden = fields.size("hidden_size")
    mixer = plain_mixer(fields, "num_heads", "head_dim", "state_size")
    if mixer.inner != fields.size("expand", default=2) * hidden:
        names = ("num_heads", "head_dim", "expand")
        raise fields.contradiction("heads must fill the inner width", *names)
    layers = [Layer(mixer, None, hidden)] * fields.size("num_hidden_layers")
    return decoder_of(fields, hidden, layers)


ARCHITECTURES: dict[str, Callable[[Fields], Decoder]] = {
    "MambaForCausalLM": mamba,
    "FalconMambaForCausalLM": mamba,
    "Mamba2ForCausalLM": mamba_2,
}


def read(fields: Fields, architecture: str) -> Model:
    shape = ARCHITECTURES[architecture](fields)
    return Model("mamba", architecture, shape, layers=len(shape.layers))


def plain_mixer(fields: Fields, heads: str, head_dim: str, state: str) -> Mamba2:
    """The Mamba-2 mixer of a model that has one in every layer, or of Nemotron-H: the names of three fields differ."""
    return Mamba2(
        heads=fields.size(heads),
        head_dim=fields.size(head_dim),
        groups=fields.size("n_groups"),
        state=fields.size(state),
        kernel=fields.size("conv_kernel"),
        conv_bias=fields.flag("use_conv_bias", default=True),
        bias=fields.flag("use_bias", default=False),
    )


def mixer(fields: Fields, inner: int, gate_norm: bool = True) -> Mamba2:
    """The Mamba-2 mixer of a hybrid; a head dimension that is absent, or "auto", is the inner width over the heads."""
    heads = fields.size("mamba_n_heads")
    return Mamba2(
        heads=heads,
        head_dim=fields.size("mamba_d_head", default=inner // heads),
        groups=fields.size("mamba_n_groups"),
        state=fields.size("mamba_d_state"),
        kernel=fields.size("mamba_d_conv"),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
        bias=fields.flag("mamba_proj_bias", default=False),
        gate_norm=gate_norm,
    )
