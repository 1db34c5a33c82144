"""Small models of every architecture that has a closed form, with the inputs that each is run on."""

from __future__ import annotations

from typing import Any

from tests.flops.small_composed import COMPOSED, MOBILE
from tests.flops.small_decoders import BART, ENCODER, IMAGE, MODERN, T5
from tests.flops.small_texts import TEXT, Small

__all__ = ["SMALL", "Small"]

V2: dict[str, Any] = {name: value for name, value in IMAGE.items() if name != "intermediate_size"}
PIXELS: dict[str, int] = {}
TOWERS: list[Small] = [
    *(
        Small(name, {**IMAGE, "num_labels": 10}, PIXELS)
        for name in (
            "ViTForImageClassification",
            "ViTModel",
            "DeiTForImageClassification",
            "CLIPVisionModel",
            "SiglipVisionModel",
        )
    ),
    *(
        Small(name, {"vision_config": {**IMAGE}, "num_labels": 10}, PIXELS)
        for name in ("CLIPForImageClassification", "SiglipForImageClassification")
    ),
    Small("Dinov2Model", {**V2, "mlp_ratio": 3}, PIXELS),
    Small("Dinov2ForImageClassification", {**V2, "num_labels": 10}, PIXELS),
    Small("Dinov2WithRegistersModel", {**V2, "num_register_tokens": 3}, PIXELS),
    Small("Dinov2WithRegistersForImageClassification", {**V2, "num_labels": 10}, PIXELS),
    Small("DINOv3ViTModel", {**IMAGE, "num_register_tokens": 3}, PIXELS),
]
WHISPER: dict[str, Any] = {
    **BART,
    "num_mel_bins": 10,
    "max_source_positions": 20,
    "max_target_positions": 30,
}
WHISPER |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
SOUND: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 50,
}
SOUND |= {"intermediate_size": 80, "conv_dim": [12, 16, 16, 16, 16, 16, 20]}
SOUND |= {"num_conv_pos_embedding_groups": 4, "num_conv_pos_embeddings": 8}
LAYERED: dict[str, Any] = {
    **SOUND,
    "feat_extract_norm": "layer",
    "conv_bias": True,
    "do_stable_layer_norm": True,
}
SPEECH: list[Small] = [
    Small("WhisperForConditionalGeneration", WHISPER, {"target": 9}),
    Small("Wav2Vec2ForCTC", SOUND, {"audio": 4003}),
    Small("Wav2Vec2Model", LAYERED, {"audio": 4003}),
    Small("HubertForCTC", LAYERED, {"audio": 4003}),
    Small("HubertModel", {**SOUND, "num_conv_pos_embeddings": 7}, {"audio": 4003}),
]
TEXT_TOWER: dict[str, Any] = {**ENCODER, "max_position_embeddings": 40, "num_hidden_layers": 3}
PAIR: dict[str, Any] = {"tokens": 16}
GIVEN: dict[str, Any] = {"tokens": 16, "images": 1}
SWIN: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": [2, 1],
    "num_heads": [2, 4],
}
SWIN |= {"window_size": 5, "mlp_ratio": 3.0}
V3: dict[str, Any] = {
    **ENCODER,
    "relative_attention": True,
    "position_buckets": 8,
    "pos_att_type": ["p2c", "c2p"],
}
V3 |= {"share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False}
V3 |= {"type_vocab_size": 0, "max_position_embeddings": 64}
V1: dict[str, Any] = {**ENCODER, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
V1 |= {"max_position_embeddings": 64, "position_biased_input": False, "type_vocab_size": 0}
PAIRS: list[Small] = [
    Small(
        "CLIPModel",
        {"text_config": TEXT_TOWER, "vision_config": IMAGE, "projection_dim": 24},
        PAIR,
        given=GIVEN,
    ),
    Small(
        "SiglipModel",
        {"text_config": {**TEXT_TOWER, "projection_size": 32}, "vision_config": IMAGE},
        PAIR,
        given=GIVEN,
    ),
    Small("CLIPTextModel", TEXT_TOWER, PAIR),
    Small("SiglipTextModel", {**TEXT_TOWER, "projection_size": 24}, PAIR),
    Small("SwinModel", SWIN, PIXELS),
    Small("SwinForImageClassification", {**SWIN, "num_labels": 10, "window_size": 4}, PIXELS),
    Small("DebertaV2ForMaskedLM", {**V3, "conv_kernel_size": 3}, PAIR),
    Small(
        "DebertaV2ForMaskedLM",
        {**V3, "share_att_key": False, "pos_att_type": ["c2p"]},
        PAIR,
        variant="c2p",
    ),
    Small("DebertaV2Model", V3, PAIR),
    *(
        Small(name, {**V1, "max_relative_positions": span}, PAIR, variant=f"to {span}")
        for name in ("DebertaForMaskedLM", "DebertaModel")
        for span in (7, 24)
    ),
    Small("ElectraForPreTraining", {**ENCODER, "embedding_size": 24}, PAIR),
    Small("ElectraForMaskedLM", {**ENCODER, "embedding_size": 24}, PAIR),
    Small("ElectraModel", {**ENCODER, "embedding_size": 32}, PAIR),
    *(
        Small(name, ENCODER, PAIR)
        for name in (
            "BertForMaskedLM",
            "BertForPreTraining",
            "RobertaForMaskedLM",
            "CamembertForMaskedLM",
        )
    ),
    Small("ModernBertForMaskedLM", MODERN, PAIR),
    *(
        Small(name, fields, {"source": 16, "target": 9})
        for name, fields in (
            ("T5ForConditionalGeneration", T5),
            ("MT5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu"}),
            ("BartForConditionalGeneration", BART),
        )
    ),
]

SMALL: list[Small] = [*TEXT, *TOWERS, *COMPOSED, *MOBILE, *SPEECH, *PAIRS]
