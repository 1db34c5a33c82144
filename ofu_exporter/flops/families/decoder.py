"""Dense decoders like Llama: one attention and one feed-forward block per layer.

With `ForSequenceClassification` instead of `ForCausalLM`, the head is a classifier on every token (reward models).

Terms and formulas are those of `shapes.Decoder`; the table has the differences between the architectures.
Sources: Llama (arXiv:2302.13971), Mistral (arXiv:2310.06825), Qwen2 (arXiv:2407.10671), Qwen3
(arXiv:2505.09388), MiMo (arXiv:2505.07608), Gemma 1-3 (arXiv:2403.08295, 2408.00118, 2503.19786), Phi
(arXiv:2309.05463), OLMo 2 (arXiv:2501.00656), StarCoder2 (arXiv:2402.19173), Nemotron-4 (arXiv:2402.16819), Apertus
(arXiv:2509.14233), Command R (model card), StableLM 2 (arXiv:2402.17834), EXAONE 4 (arXiv:2507.11407), and the model
classes in transformers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ofu_exporter.flops import hf_config
from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.mixers import GroupedAttention
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.products import Norms, layer_norm, no_norm, rms_norm
from ofu_exporter.flops.shapes import Layer, Mlp


@dataclass(frozen=True, slots=True)
class DecoderPlan:
    """What the class of an architecture fixes and no field of the configuration says."""

    tied: bool = False
    """The meaning of an absent tie_word_embeddings."""
    gated: bool = True
    norm: Norms = rms_norm
    norms: int = 2
    """Norms of the hidden size per layer."""
    query_key_norm: str = ""
    norm_field: str = "qk_layernorm"
    """The flag that adds norms of queries and keys if the class has none by default."""
    optional_norm: str = "head"
    """What these norms go over."""
    norm_biases: bool | None = None
    """Whether they have biases; None = like the layer's norms."""
    bias: bool = False
    """Whether query, key and value have biases if attention_bias does not say."""
    bias_field: str = "attention_bias"
    output_bias: bool | None = None
    """The same for the output projection; None = like the others."""
    mlp_bias: bool = False
    head_bias: bool = False
    activation_parameters: int = 0
    """Learned parameters of the activation in each layer."""
    full_every: int = 0
    """Every layer whose number is a multiple of this attends without the window; 0 = none does."""


COHERE = DecoderPlan(tied=True, norms=1, norm_field="use_qk_norm", optional_norm="all")
"""Attention and MLP side by side after one norm without bias."""
GLM = DecoderPlan(bias=True, output_bias=False)

ARCHITECTURES = {
    "LlamaForCausalLM": DecoderPlan(),
    "MistralForCausalLM": DecoderPlan(),
    "Qwen2ForCausalLM": DecoderPlan(bias=True, output_bias=False),
    "Qwen3ForCausalLM": DecoderPlan(query_key_norm="head"),
    "MiMoForCausalLM": DecoderPlan(bias=True, output_bias=False),
    "SeedOssForCausalLM": DecoderPlan(bias=True, output_bias=False),
    "GraniteForCausalLM": DecoderPlan(),
    "GemmaForCausalLM": DecoderPlan(tied=True),
    "Gemma2ForCausalLM": DecoderPlan(tied=True, norms=4, full_every=2),
    "Gemma3ForCausalLM": DecoderPlan(tied=True, norms=4, query_key_norm="head", full_every=6),
    "Olmo2ForCausalLM": DecoderPlan(query_key_norm="all"),
    "Olmo3ForCausalLM": DecoderPlan(query_key_norm="all", full_every=4),
    "OlmoForCausalLM": DecoderPlan(norm=no_norm),
    "SmolLM3ForCausalLM": DecoderPlan(tied=True),
    "MinistralForCausalLM": DecoderPlan(),
    "Ministral3ForCausalLM": DecoderPlan(),
    "Exaone4ForCausalLM": DecoderPlan(query_key_norm="head", full_every=4),
    "HunYuanDenseV1ForCausalLM": DecoderPlan(query_key_norm="head"),
    "Ernie4_5ForCausalLM": DecoderPlan(tied=True, bias_field="use_bias"),
    "CohereForCausalLM": COHERE,
    "Cohere2ForCausalLM": replace(COHERE, full_every=4),
    "GlmForCausalLM": GLM,
    "Glm4ForCausalLM": replace(GLM, norms=4),
    "ArceeForCausalLM": DecoderPlan(gated=False),
    "NemotronForCausalLM": DecoderPlan(gated=False, norm=layer_norm),
    "ApertusForCausalLM": DecoderPlan(gated=False, query_key_norm="head", activation_parameters=2),
    "StableLmForCausalLM": DecoderPlan(
        norm=layer_norm,
        bias_field="use_qkv_bias",
        output_bias=False,
        optional_norm="all",
        norm_biases=False,
    ),
    "PhiForCausalLM": DecoderPlan(
        gated=False, norm=layer_norm, norms=1, bias=True, mlp_bias=True, head_bias=True
    ),
    "Phi3ForCausalLM": DecoderPlan(),
    "Starcoder2ForCausalLM": DecoderPlan(
        tied=True, gated=False, norm=layer_norm, bias=True, bias_field="use_bias", mlp_bias=True
    ),
}
CLASSIFIER = "ForSequenceClassification"
"""The ending of the same architectures with a classifier (reward models): its labels instead of the vocabulary."""
ARCHITECTURES |= {
    name.replace("ForCausalLM", CLASSIFIER): replace(plan, head_bias=False)
    for name, plan in ARCHITECTURES.items()
}


def read(fields: Fields, architecture: str) -> Model:
    plan = ARCHITECTURES[architecture]
    if fields.flag("use_bidirectional_attention", default=False):
        raise fields.error("use_bidirectional_attention", "true makes it an encoder; known: false")
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    mixer, block = attention(fields, plan, hidden), _mlp(fields, plan)
    # Attention and MLP side by side have one norm.
    norms = 1 if fields.flag("use_parallel_residual", default=False) else plan.norms
    mixers = hf_config.windowed(fields, mixer, number, plan.full_every)
    layers = [Layer(each, block, norms * plan.norm(hidden)) for each in mixers]
    shape = replace(
        hf_config.decoder_of(fields, hidden, layers, tied=plan.tied, norm=plan.norm),
        head_bias=fields.flag("lm_head_bias", default=plan.head_bias),
        labels=hf_config.labels(fields) if architecture.endswith(CLASSIFIER) else None,
    )
    return Model("decoder", architecture, shape, layers=number)


def attention(fields: Fields, plan: DecoderPlan, hidden: int) -> GroupedAttention:
    """The attention of a layer, as the class and the configuration have it."""
    bias = fields.flag(plan.bias_field, default=plan.bias)
    output = bias if plan.output_bias is None else plan.output_bias
    mixer = GroupedAttention(
        *hf_config.heads(fields, hidden),
        qkv_bias=bias,
        out_bias=fields.flag("attention_out_bias", default=output),
    )
    added = fields.flag(plan.norm_field, default=False)
    kind = plan.query_key_norm or (plan.optional_norm if added else "")
    scale = plan.norm(1) if plan.norm_biases is None else 1 + plan.norm_biases
    return replace(mixer, norm_parameters=hf_config.query_key_norm(kind, mixer) * scale)


def _mlp(fields: Fields, plan: DecoderPlan) -> Mlp:
    fields.refuse(False, "use_gated_activation")
    bias = plan.mlp_bias
    if plan.bias_field == "use_bias":
        bias = fields.flag("use_bias", default=plan.bias)
    bias = fields.flag("mlp_bias", default=bias)
    return Mlp(fields.size("intermediate_size"), plan.gated, bias, plan.activation_parameters)
