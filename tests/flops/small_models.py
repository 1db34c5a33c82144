"""Small models of every architecture that has a closed form, with the inputs that each is run on."""

from __future__ import annotations

from typing import Any

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
SPEECH: list[Small] = [Small("WhisperForConditionalGeneration", WHISPER, {"target": 9})]
SHORT: dict[str, Any] = {"tokens": 16}
ENCODERS: list[Small] = [
    Small("ElectraForPreTraining", {**ENCODER, "embedding_size": 24}, SHORT),
    Small("ElectraForMaskedLM", {**ENCODER, "embedding_size": 24}, SHORT),
    Small("ElectraModel", {**ENCODER, "embedding_size": 32}, SHORT),
    *(
        Small(name, ENCODER, SHORT)
        for name in (
            "BertForMaskedLM",
            "BertForPreTraining",
            "RobertaForMaskedLM",
            "CamembertForMaskedLM",
        )
    ),
    Small("ModernBertForMaskedLM", MODERN, SHORT),
    *(
        Small(name, fields, {"source": 16, "target": 9})
        for name, fields in (
            ("T5ForConditionalGeneration", T5),
            ("MT5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu"}),
            ("BartForConditionalGeneration", BART),
        )
    ),
]

SMALL: list[Small] = [*TEXT, *TOWERS, *SPEECH, *ENCODERS]
