"""Models of 2025 and 2026 by the numbers of their cards: what a forward pass costs, written out, and their fields.

Nothing of the package counts here. A mistaken count is a model with other numbers, or with a part left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Latent:
    """Latent attention: ranks and widths of a head; `keys` of the past that an indexer chooses, 0 = all."""

    query_rank: int
    rank: int
    nope: int
    rope: int
    value: int
    keys: int = 0
    index_heads: int = 0
    index_dim: int = 128


@dataclass(frozen=True)
class Vision:
    """The image tower of Qwen3-VL: 27 layers of 1152 with 16 heads, patches of 3 x 2 x 16 x 16, 4 of which merge."""

    patches: int = 4096
    images: int = 1
    deep: int = 0

    def forward(self, out: int) -> float:
        h, f = 1152, 4304
        block = 4 * h * h + 2 * h * f
        merger = (1 + self.deep) * h * (4 * h + out)
        per_patch = 3 * 2 * 16 * 16 * h + 27 * block + merger
        return self.images * (2 * self.patches * per_patch + 27 * 4 * h * self.patches**2)


@dataclass(frozen=True)
class Card:
    """A model, or what somebody takes it for."""

    name: str
    length: int
    layers: int
    hidden: int
    heads: int
    groups: int
    dim: int
    width: int
    vocab: int
    longest: int
    dense: int | None = None
    """Layers with a dense block; None = all."""
    experts: int = 0
    active: float = 0
    expert_width: int = 0
    shared_width: int = 0
    latent: Latent | None = None
    window: int = 0
    """Of every other layer."""
    depth: int = 0
    """Depths of multi-token prediction in the configuration."""
    vision: Vision | None = None
    tied: bool = False
    extra: tuple[tuple[str, Any], ...] = ()
    # How it is counted:
    matrices: int = 3
    causal: bool = True
    cores: bool = True
    head: bool = True
    embedding: bool = False
    predicts: bool = False

    def forward(self, length: int = 0) -> float:
        """FLOPs of a forward pass over one sequence: two for each multiply-add."""
        tokens = length or self.length
        layers = self.layers + self.predicts * self.depth
        dense = self.layers if self.dense is None else self.dense
        per_token = layers * self._projections() + dense * self.matrices * self.hidden * self.width
        per_token += (layers - dense) * self._experts()
        if self.predicts:
            per_token += self.depth * 2 * self.hidden**2
        heads = self.head * (1 + self.predicts * self.depth) + self.embedding
        per_token += heads * self.hidden * self.vocab
        language = 2 * tokens * per_token + layers * self._core(tokens)
        return language + (self.vision.forward(self.hidden) if self.vision else 0.0)

    def _experts(self) -> float:
        routed = self.active * 3 * self.hidden * self.expert_width
        return routed + 3 * self.hidden * self.shared_width + self.hidden * self.experts

    def _projections(self) -> float:
        h = self.hidden
        if not self.latent:
            return h * self.dim * (2 * self.heads + 2 * self.groups)
        of, a = self.latent, self.heads
        query = of.query_rank * (h + a * (of.nope + of.rope))
        keys = h * (of.rank + of.rope) + of.rank * a * (of.nope + of.value)
        indexer = of.query_rank * of.index_heads * of.index_dim
        indexer += h * (of.index_dim + of.index_heads) if of.index_heads else 0
        return query + keys + a * of.value * h + indexer

    def _core(self, length: int) -> float:
        """FLOPs of queries with keys, and of their weights with values, in one layer."""
        if not self.cores:
            return 0.0
        every = length**2 / 2 if self.causal else length**2
        if not self.latent:
            band = self.window * length - self.window * (self.window - 1) / 2
            pairs = (every + min(band, every)) / 2 if self.window else every
            return 4 * self.heads * self.dim * pairs
        of = self.latent
        keys = of.keys if self.causal else 0
        seen = min(every, keys * length - keys * (keys - 1) / 2) if keys else every
        wide = self.heads * (of.nope + of.rope + of.value)
        return 2 * wide * seen + 2 * of.index_heads * (of.index_dim + 1) * every

    def parameters(self) -> float:
        """Weights in matrices, the embedding's included; a tied head has none of its own."""
        dense = self.layers if self.dense is None else self.dense
        sparse = self.experts * 3 * self.expert_width + 3 * self.shared_width + self.experts
        blocks = dense * 3 * self.width + (self.layers - dense) * sparse
        tables = (1 if self.tied else 2) * self.vocab
        return self.layers * self._projections() + self.hidden * (blocks + tables)

    def config(self) -> dict[str, Any]:
        """Its configuration, as far as products depend on it."""
        text: dict[str, Any] = {
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.groups,
            "vocab_size": self.vocab,
            "intermediate_size": self.width,
            "max_position_embeddings": self.longest,
            "tie_word_embeddings": self.tied,
            **dict(self.extra),
        }
        if self.latent:
            text |= self._latent_fields(self.latent)
        else:
            text["head_dim"] = self.dim
        if not self.vision:
            return text
        names = text.pop("architectures")
        vision: Mapping[str, Any] = {
            **{"depth": 27, "hidden_size": 1152, "num_heads": 16, "intermediate_size": 4304},
            **{"in_channels": 3, "patch_size": 16, "temporal_patch_size": 2},
            **{"spatial_merge_size": 2, "num_position_embeddings": 2304},
            "out_hidden_size": self.hidden,
            "deepstack_visual_indexes": [8, 16, 24],
        }
        return {
            "architectures": names,
            "text_config": text,
            "vision_config": vision,
            "tie_word_embeddings": self.tied,
        }

    def _latent_fields(self, of: Latent) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "q_lora_rank": of.query_rank,
            "kv_lora_rank": of.rank,
            "qk_nope_head_dim": of.nope,
            "qk_rope_head_dim": of.rope,
            "v_head_dim": of.value,
            "first_k_dense_replace": self.dense,
            "n_routed_experts": self.experts,
            "num_experts_per_tok": int(self.active),
            "moe_intermediate_size": self.expert_width,
            "n_shared_experts": self.shared_width // self.expert_width,
            "num_nextn_predict_layers": self.depth,
        }
        if of.keys:
            fields |= {
                "index_topk": of.keys,
                "index_n_heads": of.index_heads,
                "index_head_dim": of.index_dim,
            }
        return fields


def _named(architecture: str, **fields: Any) -> tuple[tuple[str, Any], ...]:
    return (("architectures", [architecture]), *fields.items())


def _of_experts(number: int, active: int, width: int) -> dict[str, Any]:
    return {
        "num_experts": number,
        "num_experts_per_tok": active,
        "moe_intermediate_size": width,
        "decoder_sparse_step": 1,
    }


LLAMA = _named("LlamaForCausalLM")
QWEN = _named("Qwen3ForCausalLM")
V3 = _named("DeepseekV3ForCausalLM")

LLAMA_70B = Card("llama-3.1-70b", 8192, 80, 8192, 64, 8, 128, 28672, 128256, 131072, extra=LLAMA)
QWEN_8B = Card("qwen3-8b", 32768, 36, 4096, 32, 8, 128, 12288, 151936, 40960, extra=QWEN)
QWEN_A3B = Card(
    *("qwen3-30b-a3b", 4096, 48, 2048, 32, 4, 128, 6144, 151936, 40960),
    **{"dense": 0, "experts": 128, "active": 8, "expert_width": 768},  # type: ignore[arg-type]
    extra=_named("Qwen3MoeForCausalLM", **_of_experts(128, 8, 768)),
)
MIXTRAL_8X22B = Card(
    *("mixtral-8x22b", 8192, 56, 6144, 48, 8, 128, 16384, 32000, 65536),
    **{"dense": 0, "experts": 8, "active": 2, "expert_width": 16384},  # type: ignore[arg-type]
    extra=_named("MixtralForCausalLM", num_local_experts=8, num_experts_per_tok=2),
)
DEEPSEEK_V3 = Card(
    *("deepseek-v3", 4096, 61, 7168, 128, 128, 192, 18432, 129280, 163840),
    **{"dense": 3, "experts": 256, "active": 8, "expert_width": 2048},  # type: ignore[arg-type]
    shared_width=2048,
    latent=Latent(1536, 512, 128, 64, 128),
    depth=1,
    extra=V3,
)
DEEPSEEK_V32 = Card(
    *("deepseek-v3.2", 32768, 61, 7168, 128, 128, 192, 18432, 129280, 163840),
    **{"dense": 3, "experts": 256, "active": 8, "expert_width": 2048},  # type: ignore[arg-type]
    shared_width=2048,
    latent=Latent(1536, 512, 128, 64, 128, 2048, 64),
    depth=1,
    extra=_named("DeepseekV32ForCausalLM"),
)
VL_A3B = Card(
    *("qwen3-vl-30b-a3b", 4096, 48, 2048, 32, 4, 128, 6144, 151936, 262144),
    **{"dense": 0, "experts": 128, "active": 8, "expert_width": 768},  # type: ignore[arg-type]
    vision=Vision(4096, 2, 3),
    extra=_named("Qwen3VLMoeForConditionalGeneration", **_of_experts(128, 8, 768)),
)
TUNING = (LLAMA_70B, QWEN_8B, QWEN_A3B, MIXTRAL_8X22B, DEEPSEEK_V3, DEEPSEEK_V32, VL_A3B)
"""Models with which the causes were tuned."""

LLAMA_405B = Card(
    "llama-3.1-405b", 16384, 126, 16384, 128, 8, 128, 53248, 128256, 131072, extra=LLAMA
)
QWEN_32B = Card("qwen3-32b", 16384, 64, 5120, 64, 8, 128, 25600, 151936, 40960, extra=QWEN)
QWEN_A22B = Card(
    *("qwen3-235b-a22b", 8192, 94, 4096, 64, 4, 128, 12288, 151936, 40960),
    **{"dense": 0, "experts": 128, "active": 8, "expert_width": 1536},  # type: ignore[arg-type]
    extra=_named("Qwen3MoeForCausalLM", **_of_experts(128, 8, 1536)),
)
GPT_OSS_120B = Card(
    *("gpt-oss-120b", 16384, 36, 2880, 64, 8, 64, 2880, 201088, 131072),
    **{"dense": 0, "experts": 128, "active": 4, "expert_width": 2880},  # type: ignore[arg-type]
    window=128,
    extra=_named(
        "GptOssForCausalLM",
        num_local_experts=128,
        num_experts_per_tok=4,
        sliding_window=128,
        attention_bias=True,
    ),
)
KIMI_K2 = Card(
    *("kimi-k2", 8192, 61, 7168, 64, 64, 192, 18432, 163840, 131072),
    **{"dense": 1, "experts": 384, "active": 8, "expert_width": 2048},  # type: ignore[arg-type]
    shared_width=2048,
    latent=Latent(1536, 512, 128, 64, 128),
    extra=V3,
)
GLM_5 = Card(
    *("glm-5", 65536, 78, 6144, 64, 64, 64, 12288, 154880, 202752),
    **{"dense": 3, "experts": 256, "active": 8, "expert_width": 2048},  # type: ignore[arg-type]
    shared_width=2048,
    latent=Latent(2048, 512, 192, 64, 256, 2048, 32),
    depth=1,
    extra=_named("GlmMoeDsaForCausalLM"),
)
VL_2B = Card(
    *("qwen3-vl-2b", 8192, 28, 2048, 16, 8, 128, 6144, 151936, 262144),
    vision=Vision(8192, 2, 3),
    tied=True,
    extra=_named("Qwen3VLForConditionalGeneration"),
)
FINAL = (LLAMA_405B, QWEN_32B, QWEN_A22B, GPT_OSS_120B, KIMI_K2, GLM_5, VL_2B)
"""Models that were only counted at the end."""
