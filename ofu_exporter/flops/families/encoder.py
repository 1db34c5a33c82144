"""Encoder-only transformers like BERT: attention in both directions, a head over the vocabulary.

Per token 4 h^2 + 2 h f multiply-adds per layer, every pair of the sequence, and for masked-language models h^2 + h V on
every token (frameworks that gather the masked ones first execute less; VeRL and Megatron-LM do not). Sources: BERT
(arXiv:1810.04805), RoBERTa (arXiv:1907.11692), ELECTRA (arXiv:2003.10555), ModernBERT (arXiv:2412.13663), and the model
classes in Hugging Face transformers. Counting half of the pairs, as Megatron-LM does for every model, is wrong here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ofu_exporter.flops.fields import Fields
from ofu_exporter.flops.hf_config import FULL, SLIDING, multi_head
from ofu_exporter.flops.models import Model
from ofu_exporter.flops.products import embedding, layer_norm, outside, vector
from ofu_exporter.flops.shapes import Layer, Mlp, encoder
from ofu_exporter.flops.terms import PER_SEQUENCE, Part, Term, merge


@dataclass(frozen=True, slots=True)
class EncoderPlan:
    """What the class of an architecture fixes and no field of the configuration says."""

    predicts: bool = False
    """Whether the model has a head over the vocabulary."""
    pooler: bool = False
    pairs: bool = False
    """Whether the model predicts if two sentences follow each other (BERT's pre-training)."""
    modern: bool = False
    narrow: bool = False
    """Whether the embedding has a width of its own (ELECTRA)."""
    tells: bool = False
    """Whether the model tells for each token if it was replaced (ELECTRA)."""


ARCHITECTURES = {
    "BertModel": EncoderPlan(pooler=True),
    "BertForMaskedLM": EncoderPlan(predicts=True),
    "BertForPreTraining": EncoderPlan(predicts=True, pooler=True, pairs=True),
    "RobertaModel": EncoderPlan(pooler=True),
    "RobertaForMaskedLM": EncoderPlan(predicts=True),
    "XLMRobertaForMaskedLM": EncoderPlan(predicts=True),
    "CamembertForMaskedLM": EncoderPlan(predicts=True),
    "ElectraModel": EncoderPlan(narrow=True),
    "ElectraForMaskedLM": EncoderPlan(predicts=True, narrow=True),
    "ElectraForPreTraining": EncoderPlan(tells=True, narrow=True),
    "ModernBertModel": EncoderPlan(modern=True),
    "ModernBertForMaskedLM": EncoderPlan(predicts=True, modern=True),
}


def read(fields: Fields, architecture: str) -> Model:
    plan = ARCHITECTURES[architecture]
    hidden, number = fields.size("hidden_size"), fields.size("num_hidden_layers")
    fields.refuse(True, "is_decoder", "add_cross_attention")
    tied = fields.flag("tie_word_embeddings", default=True)
    parts = (_modern if plan.modern else _classic)(fields, plan, hidden, number)
    terms = [_tied(term) if tied and term.name == "lm_head" else term for term in parts]
    return Model("encoder", architecture, terms=merge(terms), layers=number)


def _classic(fields: Fields, plan: EncoderPlan, hidden: int, number: int) -> Iterator[Term]:
    vocab = fields.size("vocab_size")
    width = fields.size("embedding_size", default=hidden) if plan.narrow else hidden
    yield embedding("embed_tokens", vocab, width)
    yield embedding("embed_positions", fields.size("max_position_embeddings"), width)
    yield embedding("embed_types", fields.size("type_vocab_size"), width)
    yield vector("embed_norm", layer_norm(width), in_layers=False)
    if width != hidden:
        yield outside("embed_project", Part.PROJECTION, width, hidden)
    block = Mlp(fields.size("intermediate_size"), gated=False, bias=True)
    attention = multi_head(fields, hidden, "num_attention_heads")
    layer = Layer(attention, block, 2 * layer_norm(hidden))
    yield from encoder(hidden, (layer,) * number)
    if plan.pooler:
        yield outside("pooler", Part.HEAD, hidden, hidden, PER_SEQUENCE)
    if plan.pairs:
        yield outside("next_sentence", Part.HEAD, hidden, 2, PER_SEQUENCE)
    if plan.tells:
        yield outside("replaced.dense", Part.HEAD, hidden, hidden)
        yield outside("replaced", Part.HEAD, hidden, 1)
    if plan.predicts:
        yield outside("lm_head.dense", Part.HEAD, hidden, width)
        yield vector("lm_head.norm", layer_norm(width), in_layers=False)
        yield outside("lm_head", Part.HEAD, width, vocab)


def _modern(fields: Fields, plan: EncoderPlan, hidden: int, number: int) -> Iterator[Term]:
    vocab, scale = fields.size("vocab_size"), 1 + fields.flag("norm_bias", default=False)
    yield embedding("embed_tokens", vocab, hidden)
    # The first layer has no norm before its attention: it uses the embedding's.
    yield vector("norms", (2 * number + 1) * scale * hidden, in_layers=False)
    bias = fields.flag("attention_bias", default=False)
    mixer = multi_head(fields, hidden, "num_attention_heads", bias=bias)
    block = Mlp(fields.size("intermediate_size"), True, fields.flag("mlp_bias", default=False))
    windows = _windows(fields, number)
    layers = tuple(Layer(replace(mixer, window=window), block) for window in windows)
    yield from encoder(hidden, layers)
    output = fields.flag("decoder_bias", default=True)
    head_bias = fields.flag("classifier_bias", default=False)
    if plan.predicts:
        yield outside("lm_head.dense", Part.HEAD, hidden, hidden, bias=head_bias)
        yield vector("lm_head.norm", scale * hidden, in_layers=False)
        yield outside("lm_head", Part.HEAD, hidden, vocab, bias=output)


def _windows(fields: Fields, number: int) -> list[int | None]:
    """local_attention W lets a token see W/2 to each side; every global_attn_every_n_layers-th layer sees all."""
    window = 2 * (fields.size("local_attention") // 2) + 1
    every = fields.size("global_attn_every_n_layers", default=3)
    if fields.has("layer_types"):  # transformers 5 writes both, and reads these
        kinds = fields.words("layer_types", (FULL, SLIDING), number)
        return [window if kind == SLIDING else None for kind in kinds]
    return [window if index % every else None for index in range(number)]


def _tied(head: Term) -> Term:
    """A head whose matrix is the embedding's, so its own parameters are at most a bias."""
    assert head.linear is not None
    bias = head.parameters - head.linear.inputs * head.linear.outputs
    return replace(head, parameters=bias, active=bias)
