"""Lists the fields of public configurations that change no matrix product, so that no family has to read them.

A family adds the fields that only it has. A field that can change the count must never be listed here.
"""

from __future__ import annotations

import re


def listed(text: str) -> frozenset[str]:
    """The names in a text, separated by white space."""
    return frozenset(text.split())


HARMLESS = re.compile(
    r"""
    (.*_)?(act|activation|act_fn|activation_fn|activation_function|hidden_act)   # the name of an activation
    | (.*_)?(dropout|pdrop|droppath|drop_path)(_(p|prob|rate|ratio))?
    | (.*_)?token(_ids?|_index)?
    | (initializer|init)_\w+ | (.*_)?(init_std|initializer|init_method|init_scale)
    | (rope|rotary)_\w+ | (.*_)?(rope_theta|rope_scaling|rotary_emb|rotary_pct|rotary_base|rotary_fraction)
    """,
    re.VERBOSE,
)
"""Names of fields that can't change a count: activations, dropout, tokens, initialisers, rotary positions."""
SIZES = listed(
    "dim dims rank heads head layers width hidden intermediate experts blocks num gated glu"
)
"""Words in the name of a field that may be a size, whatever else the name says (rope_head_dim)."""


def is_harmless(name: str, value: object) -> bool:
    """Whether an unknown field can't change a count, by its name and its value.

    An activation called swiglu or geglu has a gate, which is a third matrix, so its name is not harmless.
    """
    gate = isinstance(value, str) and re.search("glu|gate", value.lower())
    sized = SIZES & {*name.split("_")} and name != "rotary_dim"
    return not gate and not sized and HARMLESS.fullmatch(name) is not None


NEUTRAL = listed(
    """
    activation_dropout activation_function architectures attention_dropout attention_multiplier
    attention_probs_dropout_prob attn_implementation attn_logit_softcapping attn_pdrop auto_map
    begin_suppress_tokens bos_token_id cache_implementation chunk_size_feed_forward classifier_dropout cls_token_id
    decoder_start_token_id diversity_penalty do_sample dropout dtype early_stopping embd_pdrop embedding_dropout
    embedding_multiplier encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty
    final_logit_softcapping finetuning_task forced_bos_token_id forced_eos_token_id gradient_checkpointing
    hidden_act hidden_activation hidden_dropout hidden_dropout_prob id2label init_std initializer_factor
    initializer_range is_decoder is_encoder_decoder label2id layer_norm_eps layer_norm_epsilon layerdrop
    length_penalty logits_scaling max_length max_position_embeddings min_length model_type name_or_path
    no_repeat_ngram_size norm_eps norm_epsilon norm_topk_prob num_beam_groups num_beams num_labels
    num_return_sequences original_max_position_embeddings output_attentions output_hidden_states output_past
    output_router_logits output_scores pad_token_id partial_rotary_factor prefix pretraining_tp problem_type
    quantization_config query_pre_attn_scalar remove_invalid_values repetition_penalty resid_pdrop residual_dropout
    residual_multiplier return_dict return_dict_in_generate rms_norm_eps rope_interleave rope_local_base_freq
    rope_parameters rope_ratio rope_scaling rope_theta rotary_emb_base rotary_pct routed_scaling_factor
    router_aux_loss_coef router_jitter_noise scale_embedding sep_token_id sliding_window_size suppress_tokens
    task_specific_params temperature tf_legacy_loss tokenizer_class top_k top_p torch_dtype torchscript
    transformers_version typical_p unsloth_fixed unsloth_version use_bfloat16 use_cache use_mrope use_return_dict
    """
)
