"""Reads the fields that configurations of Hugging Face transformers have in common, for every family.

Each function names the fields that it reads. An absent field has the default of the model class in transformers
(`configuration_*.py`), which the function states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.mixers import GroupedAttention
from ofu_exporter.flops.products import Norms, rms_norm
from ofu_exporter.flops.shapes import Decoder, Experts, Layer

MOST_KINDS = 32
"""Most different layers of a model. Each has terms of its own, and an explanation counts them a hundred times."""
FULL = "full_attention"
SLIDING = "sliding_attention"


def heads(fields: Fields, hidden: int) -> tuple[int, int, int]:
    """Heads, key/value groups and head dimension.

    num_key_value_heads absent: as many as heads. head_dim absent: hidden_size / num_attention_heads, which must
    divide. Raises ConfigError for heads that the groups do not divide.
    """
    number = fields.size("num_attention_heads")
    groups = fields.size("num_key_value_heads", default=number)
    if number % groups:
        names = ("num_attention_heads", "num_key_value_heads")
        raise fields.contradiction("the groups must divide the heads", *names)
    head_dim = fields.optional("head_dim", "attention_head_dim")
    if head_dim is None and hidden % number:
        wrong = "the heads must divide the hidden size, or head_dim be given"
        raise fields.contradiction(wrong, "hidden_size", "num_attention_heads")
    return number, groups, head_dim or hidden // number


def grouped_attention(fields: Fields, hidden: int) -> GroupedAttention:
    """Attention with biases everywhere or nowhere, as attention_bias says; absent: nowhere."""
    bias = fields.flag("attention_bias", default=False)
    return GroupedAttention(*heads(fields, hidden), qkv_bias=bias, out_bias=bias)


def multi_head(
    fields: Fields, hidden: int, *names: str, bias: bool = True, out_bias: bool | None = None
) -> GroupedAttention:
    """Attention whose heads share no keys and are as wide as the hidden size together; `names` are the fields that
    say how many there are. The output projection has a bias like the others unless `out_bias` says otherwise."""
    heads = fields.size(*names)
    if hidden % heads:
        raise fields.error(names[0], f"{heads} must divide the width {hidden}")
    out = bias if out_bias is None else out_bias
    return GroupedAttention(heads, heads, hidden // heads, qkv_bias=bias, out_bias=out)


def query_key_norm(kind: str, attention: GroupedAttention) -> int:
    """Parameters of the norms of queries and keys: one per `head` dimension, or over `all` heads."""
    if kind == "head":
        return 2 * attention.head_dim
    return attention.query_dim + attention.key_dim if kind == "all" else 0


def windowed(
    fields: Fields, mixer: GroupedAttention, number: int, full_every: int
) -> list[GroupedAttention]:
    """The attention of each layer, in a sliding window or over everything.

    sliding_window absent, null or (Qwen) use_sliding_window false: no windows. layer_types says which layers have
    the window; absent, every layer has it but each `full_every`-th (0 = every layer), from max_window_layers on.
    """
    window = fields.size("sliding_window", default=0, least=0)
    used = fields.flag("use_sliding_window", default=bool(window))
    first = fields.size("max_window_layers", default=0, least=0)
    patterns = ("sliding_window_pattern", "_sliding_window_pattern")
    if fields.has("layer_types"):
        for each in patterns:  # one may be in letters, such as EXAONE's LLLG
            fields.has(each)
        kinds = fields.words("layer_types", (FULL, SLIDING), number)
        if SLIDING in kinds and not window:
            names = ("layer_types", "sliding_window")
            raise fields.contradiction("sliding layers without a window", *names)
        slides = [kind == SLIDING for kind in kinds]
    elif used and not window:
        raise fields.contradiction("no window to slide", "use_sliding_window", "sliding_window")
    else:
        first = first if fields.has("use_sliding_window") else 0
        every = fields.size(*patterns, default=full_every, least=0)
        full = range(every - 1, number, every) if every else ()
        slides = [used and index >= first and index not in full for index in range(number)]
    return [replace(mixer, window=window) if each else mixer for each in slides]


def layer_kinds(fields: Fields, other: str, number: int, full_every: int) -> tuple[str, ...]:
    """The kind of each layer, full attention or another: layer_types; absent, each `full_every`-th is the former."""
    if fields.has("layer_types"):
        return fields.words("layer_types", (FULL, other), number)
    return tuple(other if (index + 1) % full_every else FULL for index in range(number))


def chunked(fields: Fields, mixer: GroupedAttention, number: int) -> list[GroupedAttention]:
    """The attention of each layer, inside chunks or over everything; without layer_types, each fourth sees all."""
    local = replace(mixer, chunk=fields.size("attention_chunk_size"))
    kinds = layer_kinds(fields, "chunked_attention", number, 4)
    return [mixer if kind == FULL else local for kind in kinds]


def decoder_of(
    fields: Fields,
    hidden: int,
    layers: Sequence[Layer],
    *,
    tied: bool = False,
    norm: Norms = rms_norm,
) -> Decoder:
    """A decoder of layers, equal ones as one object; `tied` is the meaning of an absent tie_word_embeddings."""
    same = {layer: layer for layer in layers}
    if len(same) > MOST_KINDS:
        raise ConfigError(f"{len(same)} layers differ from each other, more than {MOST_KINDS}")
    return Decoder(
        hidden=hidden,
        vocab=fields.size("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=tied),
        layers=tuple(same[layer] for layer in layers),
        final_norm_parameters=norm(hidden),
        predictions=fields.size("num_nextn_predict_layers", "num_mtp_modules", default=0, least=0),
    )


def per_layer(fields: Fields, name: str, number: int) -> tuple[int, ...]:
    """A size for each layer: from a list, or one for all. Raises ConfigError for a list of another length."""
    if not fields.is_list(name):
        return (fields.size(name),) * number
    sizes = fields.sizes(name)
    if len(sizes) != number:
        raise fields.error(name, f"has {len(sizes)} entries for {number} layers")
    return sizes


def dense_indices(fields: Fields, layers: int) -> set[int]:
    """Layers without experts in Qwen's words: mlp_only_layers, and all but each decoder_sparse_step-th."""
    step = fields.size("decoder_sparse_step", default=1)
    is_named = fields.has("mlp_only_layers")
    named = (
        fields.places("mlp_only_layers", layers, "num_hidden_layers") if is_named else frozenset()
    )
    return {index for index in range(layers) if index in named or (index + 1) % step}


def experts_used(fields: Fields, *names: str) -> tuple[int, int]:
    """How many routed experts there are, and how many a token goes to."""
    number = fields.size(*names)
    used = fields.size("num_experts_per_tok", "experts_per_token", "num_experts_per_token")
    if used > number:
        wrong = "a token cannot go to more experts than there are"
        raise fields.contradiction(wrong, names[0], "num_experts_per_tok")
    return number, used


def experts(fields: Fields, width: str, *names: str) -> Experts:
    """Gated experts of a width, as many as the first of some fields says.

    `moe_latent_size` is Megatron-LM's and Nemotron's field: activations are projected to that width before them.
    """
    number, used = experts_used(fields, *names)
    latent = fields.optional("moe_latent_size")
    return Experts(number, used, fields.size(width), gated=True, latent=latent)


def labels(fields: Fields) -> int:
    """How many labels a classifier has: num_labels, or the length of id2label. Absent, the class would take 2."""
    if fields.has("id2label"):
        number = len(fields.mapping("id2label"))
        if number and fields.size("num_labels", default=number) == number:
            return number
        raise fields.contradiction(f"id2label has {number} labels", "num_labels")
    return fields.size("num_labels")
