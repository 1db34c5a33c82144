"""Hybrids: layers of attention, Mamba, gated delta nets, dense and sparse blocks in any order.

Every layer is counted as its own kind. Counting all as attention and MLP is one of the two errors in section V-C of
arXiv:2605.20799. Terms and formulas are those of `mixers`. Sources: Nemotron-H (arXiv:2504.03624), Jamba
(arXiv:2403.19887), Bamba, Qwen3-Next and Qwen3.5 (model cards), and the model classes in Hugging Face transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.families.mamba import mixer, plain_mixer
from ofu_exporter.flops.fields import MOST_LAYERS, Fields
from ofu_exporter.flops.hf_config import decoder_of
from ofu_exporter.flops.mixers import DeltaNet, GroupedAttention, Mamba1, Mamba2, Mixer
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.shapes import Decoder, Experts, FeedForward, Layer, Mlp

LETTERS = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
"""The letters of hybrid_override_pattern, which are Megatron-LM's."""
RENAMED = {"mamba": "linear_attention", "attention": "full_attention"}
BLOCKS = (*LETTERS.values(), *RENAMED)


def nemotron(fields: Fields) -> Decoder:
    """Nemotron-H: one block per layer, of a kind that the configuration names; ungated feed-forward blocks."""
    hidden = fields.size("hidden_size")
    makers: dict[str, Callable[[], Layer]] = {
        "linear_attention": lambda: Layer(_nemotron_mamba(fields), None, hidden),
        "full_attention": lambda: Layer(_nemotron_attention(fields, hidden), None, hidden),
        "mlp": lambda: Layer(None, _mlp(fields, gated=False), hidden),
        "moe": lambda: Layer(None, _nemotron_experts(fields), hidden),
    }
    # Layers are made only of the kinds that occur, so that a dense model needs no field of experts.
    kinds = _nemotron_kinds(fields)
    predicts = fields.size("num_nextn_predict_layers", default=0, least=0)
    predicted = _predicted(fields) if predicts else []
    layer_of = {kind: makers[kind]() for kind in dict.fromkeys([*kinds, *predicted])}
    shape = decoder_of(fields, hidden, [layer_of[kind] for kind in kinds])
    return replace(shape, prediction_layers=tuple(layer_of[kind] for kind in predicted))


def _predicted(fields: Fields) -> list[str]:
    """The layers of one depth of multi-token prediction, in words or in Megatron-LM's letters."""
    if fields.has("mtp_hybrid_override_pattern"):
        return _lettered(fields, "mtp_hybrid_override_pattern")
    return _kinds(fields, "mtp_layers_block_type")


def _lettered(fields: Fields, name: str) -> list[str]:
    pattern = fields.text(name)
    if unknown := "".join(sorted({*pattern} - {*LETTERS})):
        message = f"{unknown!r} is not known; known: {' '.join(LETTERS)}"
        raise fields.error(name, message)
    return [LETTERS[letter] for letter in pattern]


def _nemotron_kinds(fields: Fields) -> list[str]:
    if fields.has("hybrid_override_pattern"):
        kinds = _lettered(fields, "hybrid_override_pattern")
    else:
        kinds = _kinds(fields, "layers_block_type")
    if len(kinds) > MOST_LAYERS:
        raise fields.error("the pattern", f"has more than {MOST_LAYERS} layers")
    if not kinds or fields.size("num_hidden_layers", default=len(kinds)) != len(kinds):
        raise fields.contradiction(f"the pattern has {len(kinds)} layers", "num_hidden_layers")
    return kinds


def _kinds(fields: Fields, name: str, number: int | None = None) -> list[str]:
    return [RENAMED.get(kind, kind) for kind in fields.words(name, BLOCKS, number)]


def _nemotron_mamba(fields: Fields) -> Mamba2:
    fields.size("expand", default=2)  # superseded by heads times head dimension
    return plain_mixer(fields, "mamba_num_heads", "mamba_head_dim", "ssm_state_size")


def _nemotron_attention(fields: Fields, hidden: int) -> GroupedAttention:
    window = fields.optional("sliding_window")
    return replace(hf_config.grouped_attention(fields, hidden), window=window)


def _mlp(fields: Fields, gated: bool) -> Mlp:
    bias = fields.flag("mlp_bias", default=False)
    return Mlp(fields.size("intermediate_size"), gated, bias)


def _nemotron_experts(fields: Fields) -> Experts:
    shared = fields.size("moe_shared_expert_intermediate_size", default=0, least=0)
    return replace(
        hf_config.experts(fields, "moe_intermediate_size", "n_routed_experts", "num_local_experts"),
        gated=False,
        shared_width=shared * fields.size("n_shared_experts", default=1, least=0),
        outer_bias=fields.flag("mlp_bias", default=False),
        correction_bias=True,
    )


def jamba(fields: Fields) -> Decoder:
    """Jamba: Mamba-1 or attention, then a dense or sparse block, each at its own period."""
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    attention = GroupedAttention(*hf_config.heads(fields, hidden))
    rank = fields.size("mamba_dt_rank", default=-(-hidden // 16))
    mamba = Mamba1(
        inner=fields.size("mamba_expand") * hidden,
        state=fields.size("mamba_d_state"),
        kernel=fields.size("mamba_d_conv"),
        step_rank=rank,
        conv_bias=fields.flag("mamba_conv_bias", default=True),
        bias=fields.flag("mamba_proj_bias", default=False),
        inner_norms=True,
    )
    width = fields.size("intermediate_size")
    dense, (experts, used) = Mlp(width, gated=True), hf_config.experts_used(fields, "num_experts")
    sparse = Experts(experts, used, width, gated=True) if experts > 1 else dense
    attends, routes = _period(fields, "attn_layer"), _period(fields, "expert_layer")
    mixers = [attention if attends(index) else mamba for index in range(number)]
    blocks = [sparse if routes(index) else dense for index in range(number)]
    return _decoder(fields, hidden, mixers, blocks)


def _decoder(
    fields: Fields, hidden: int, mixers: Iterable[Mixer], blocks: Iterable[FeedForward]
) -> Decoder:
    """A decoder whose layers have a mixer and a block each, with a norm before both."""
    pairs = zip(mixers, blocks, strict=True)
    return decoder_of(fields, hidden, [Layer(*pair, 2 * hidden) for pair in pairs])


def granite(fields: Fields) -> Decoder:
    """Granite 4: Mamba-2 or attention, then experts, if there are any, and a block that every token goes to."""
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    attention = hf_config.grouped_attention(fields, hidden)
    attends = [kind == hf_config.FULL for kind in _kinds(fields, "layer_types", number)]
    mamba = attention if all(attends) else mixer(fields, fields.size("mamba_expand") * hidden)
    block: FeedForward = Mlp(fields.size("shared_intermediate_size"), gated=True)
    used = fields.size("num_experts_per_tok", default=2)
    if fields.size("num_local_experts", default=8, least=0):
        experts, used = hf_config.experts_used(fields, "num_local_experts")
        block = Experts(experts, used, fields.size("intermediate_size"), True, block.width)
    mixers = [attention if full else mamba for full in attends]
    return _decoder(fields, hidden, mixers, [block] * number)


def _period(fields: Fields, name: str) -> Callable[[int], bool]:
    period, offset = fields.size(f"{name}_period"), fields.size(f"{name}_offset", least=0)
    if offset >= period:
        names = (f"{name}_offset", f"{name}_period")
        raise fields.contradiction("the offset must be below the period", *names)
    return lambda index: index % period == offset


def bamba(fields: Fields) -> Decoder:
    """Bamba: Mamba-2 or attention, then a dense block."""
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    attention = hf_config.grouped_attention(fields, hidden)
    mamba = mixer(fields, fields.size("mamba_expand") * hidden)
    attends = fields.places("attn_layer_indices", number, "num_hidden_layers")
    mixers = [attention if index in attends else mamba for index in range(number)]
    return _decoder(fields, hidden, mixers, [_mlp(fields, gated=True)] * number)


def qwen3_next(fields: Fields) -> Decoder:
    """Qwen3-Next and Qwen3.5-MoE: gated delta nets, every fourth layer gated attention, shared and routed experts."""
    return _delta_nets(fields, _qwen3_next_blocks(fields))


def qwen3_5(fields: Fields) -> Decoder:
    """Qwen3.5: the same mixers, dense blocks."""
    block = Mlp(fields.size("intermediate_size"), gated=True)
    return _delta_nets(fields, [block] * fields.size("num_hidden_layers"))


def _delta_nets(fields: Fields, blocks: list[FeedForward]) -> Decoder:
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    fields.refuse(True, "use_sliding_window")
    attention = hf_config.grouped_attention(fields, hidden)
    attention = replace(attention, norm_parameters=2 * attention.head_dim, gated=True)
    delta = DeltaNet(
        key_heads=fields.size("linear_num_key_heads"),
        value_heads=fields.size("linear_num_value_heads"),
        key_head_dim=fields.size("linear_key_head_dim"),
        value_head_dim=fields.size("linear_value_head_dim"),
        kernel=fields.size("linear_conv_kernel_dim"),
    )
    every = fields.size("full_attention_interval", default=4)
    kinds = hf_config.layer_kinds(fields, "linear_attention", number, every)
    mixers = [attention if kind == hf_config.FULL else delta for kind in kinds]
    return _decoder(fields, hidden, mixers, blocks)


def _qwen3_next_blocks(fields: Fields) -> list[FeedForward]:
    number = fields.size("num_hidden_layers")
    sparse = replace(
        hf_config.experts(fields, "moe_intermediate_size", "num_experts", "num_local_experts"),
        shared_width=fields.size("shared_expert_intermediate_size"),
        shared_gate=True,
    )
    named = hf_config.dense_indices(fields, number)
    if not named:
        return [sparse] * number
    dense = Mlp(fields.size("intermediate_size"), gated=True)
    return [dense if index in named else sparse for index in range(number)]


def falcon_h1(fields: Fields) -> Decoder:
    """Falcon-H1: Mamba-2 and attention side by side, then a dense block (arXiv:2507.22448)."""
    hidden = fields.size("hidden_size")
    attention = hf_config.grouped_attention(fields, hidden)
    fields.refuse(True, "projectors_bias")
    inner = fields.size("mamba_d_ssm", default=fields.size("mamba_expand", default=2) * hidden)
    mamba = mixer(fields, inner, gate_norm=fields.flag("mamba_rms_norm", default=True))
    mamba = replace(mamba, out_bias=False)
    pair = [Layer(mamba, None), Layer(attention, _mlp(fields, gated=True), 2 * hidden)]
    return decoder_of(fields, hidden, pair * fields.size("num_hidden_layers"))


ARCHITECTURES: dict[str, Callable[[Fields], Decoder]] = {
    "NemotronHForCausalLM": nemotron,
    "JambaForCausalLM": jamba,
    "BambaForCausalLM": bamba,
    "Qwen3NextForCausalLM": qwen3_next,
    "Qwen3_5ForCausalLM": qwen3_5,
    "Qwen3_5MoeForCausalLM": qwen3_next,
    "GraniteMoeHybridForCausalLM": granite,
    "FalconH1ForCausalLM": falcon_h1,
}


def read(fields: Fields, architecture: str) -> Model:
    shape = ARCHITECTURES[architecture](fields)
    number = fields.size("num_hidden_layers", default=len(shape.layers))
    return Model("hybrid", architecture, shape, layers=number)
