"""Small texts of every architecture that has a closed form: sizes that differ wherever they can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.flops.small_decoders import DECODERS, GROUPED, HYBRIDS, LATENT, WIDE


@dataclass(frozen=True)
class Small:
    """A small model and the inputs that it is run on."""

    architecture: str
    fields: Mapping[str, Any]
    streams: Mapping[str, int] = field(default_factory=lambda: {"tokens": 32})
    scans: bool = False
    given: Mapping[str, int] = field(default_factory=dict)
    """The inputs of the run, where they have other names than the streams of the count."""
    unused: int = 0
    """Parameters that transformers stores and never uses."""
    variant: str = ""
    fixed: tuple[str, ...] = ()
    """Fields that no change is tried of, because torch then executes something else than the model needs."""

    @property
    def name(self) -> str:
        return f"{self.architecture} {self.variant}".strip()


HYBRID: dict[str, Any] = {**GROUPED, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 32}
HYBRID |= {"layer_types": ["mamba", "attention"] * 2}
SPARSE: dict[str, Any] = {
    **LATENT,
    "n_group": 1,
    "topk_group": 1,
    "index_n_heads": 3,
    "index_head_dim": 20,
}
SPARSE |= {"index_topk": 16}
LLAMA4: dict[str, Any] = {**WIDE, "intermediate_size_mlp": 200, "attention_chunk_size": 8}
EVERY_EXPERT = ("num_local_experts", "num_experts_per_tok")
# transformers runs each token through every expert, and multiplies by 0.
LLAMA4 |= {"num_local_experts": 4, "num_experts_per_tok": 4, "interleave_moe_layer_step": 2}

GEMMA4: dict[str, Any] = {
    **WIDE,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "sliding_window": 16,
    "global_head_dim": 40,
    "num_global_key_value_heads": 1,
    "attention_k_eq_v": True,
    "hidden_size_per_layer_input": 0,
}
# Every expert is used, as above.
GEMMA4_SPARSE: dict[str, Any] = {
    **GEMMA4,
    "enable_moe_block": True,
    "num_experts": 4,
    "top_k_experts": 4,
    "moe_intermediate_size": 48,
}
MIMO2: dict[str, Any] = {
    **WIDE,
    "num_key_value_heads": 1,
    "v_head_dim": 16,
    "layer_types": ["full_attention", "sliding_attention"] * 2,
    "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    "sliding_window": 16,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
}

TEXT: list[Small] = [
    *(
        Small(architecture, fields, variant=str(n))
        for n, (architecture, fields) in enumerate(DECODERS)
    ),
    *(
        Small(architecture, fields, scans=True, variant=str(n))
        for n, (architecture, fields, _) in enumerate(HYBRIDS)
    ),
    Small(
        "FalconMambaForCausalLM",
        {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 320, "state_size": 16},
        scans=True,
    ),
    Small(
        "GraniteMoeHybridForCausalLM",
        {
            **HYBRID,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 96,
        },
        scans=True,
    ),
    Small(
        "GraniteMoeHybridForCausalLM",
        {**HYBRID, "num_local_experts": 0, "shared_intermediate_size": 96},
        scans=True,
        variant="dense",
    ),
    Small("HunYuanMoEV1ForCausalLM", {**WIDE, "num_experts": 8, "moe_topk": 2}),
    Small("Llama4ForCausalLM", LLAMA4, fixed=EVERY_EXPERT),
    Small("Glm4MoeLiteForCausalLM", {**LATENT, "n_group": 1, "topk_group": 1}),
    Small("DeepseekV32ForCausalLM", SPARSE),
    Small("Gemma4ForCausalLM", GEMMA4, variant="0"),
    Small("Gemma4ForCausalLM", GEMMA4_SPARSE, variant="1", fixed=("num_experts", "top_k_experts")),
    Small("MiMoV2FlashForCausalLM", MIMO2),
    Small("GlmMoeDsaForCausalLM", {**SPARSE, "indexer_types": ["full", "shared", "full", "full"]}),
]
