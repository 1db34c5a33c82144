"""Small models of every architecture that has a closed form, with the inputs that each is run on."""

from __future__ import annotations

from typing import Any

from tests.flops.small_decoders import ENCODER, IMAGE, MODERN
from tests.flops.small_texts import TEXT, Small

__all__ = ["SMALL", "Small"]

PIXELS: dict[str, int] = {}
TOWERS: list[Small] = [
    Small(name, {**IMAGE, "num_labels": 10}, PIXELS)
    for name in ("ViTForImageClassification", "ViTModel", "DeiTForImageClassification")
]
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
]

SMALL: list[Small] = [*TEXT, *TOWERS, *ENCODERS]
