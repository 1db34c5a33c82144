"""Writes and reads docs/models.md: a row for each model type, and counts of the rows before them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ofu_exporter.flops import families

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
BOTH, FORWARD = "forward and backward", "forward"
REFUSED = "closed form; the default configuration is refused: "
NOT_BUILT = ("no default configuration", " cannot build ")
"""Words of the reasons that lie before any model is there."""
TRAINED: dict[str, str] = {
    "Qwen3-VL": "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration",
    "Qwen3.5": "Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration Qwen3_5ForCausalLM",
    "Gemma 3": "Gemma3ForConditionalGeneration Gemma3ForCausalLM",
    "Gemma 3n": "Gemma3nForConditionalGeneration Gemma3nForCausalLM",
    "Gemma 4": "Gemma4ForConditionalGeneration Gemma4ForCausalLM",
    "Llama 4": "Llama4ForConditionalGeneration Llama4ForCausalLM",
    "DeepSeek V3.2": "DeepseekV32ForCausalLM",
    "GLM-5": "GlmMoeDsaForCausalLM",
    "Kimi Linear": "KimiLinearForCausalLM",
    "Kimi K2.5": "Kimi_K25ForConditionalGeneration",
    "Mistral 3": "Mistral3ForConditionalGeneration",
    "Ministral 3": "Ministral3ForCausalLM",
    "OLMo 3": "Olmo3ForCausalLM",
    "SmolLM3": "SmolLM3ForCausalLM",
    "LLaVA": "LlavaForConditionalGeneration LlavaNextForConditionalGeneration "
    "LlavaOnevisionForConditionalGeneration VipLlavaForConditionalGeneration VideoLlavaForConditionalGeneration",
    "InternVL": "InternVLForConditionalGeneration",
    "PaliGemma": "PaliGemmaForConditionalGeneration",
    "Idefics3": "Idefics3ForConditionalGeneration",
    "SmolVLM": "SmolVLMForConditionalGeneration",
    "Llama 3.2 Vision": "MllamaForConditionalGeneration",
    "MiniMax M2": "MiniMaxM2ForCausalLM",
    "GLM-4": "Glm4ForCausalLM",
    "GLM-4.5": "Glm4MoeForCausalLM",
    "GLM-4V": "Glm4vForConditionalGeneration Glm4vMoeForConditionalGeneration",
    "ERNIE 4.5": "Ernie4_5ForCausalLM Ernie4_5_MoeForCausalLM",
    "Hunyuan": "HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM",
    "Granite MoE": "GraniteMoeForCausalLM GraniteMoeSharedForCausalLM",
    "Granite 4": "GraniteMoeHybridForCausalLM",
    "Falcon-H1": "FalconH1ForCausalLM",
    "Mamba": "MambaForCausalLM",
    "Mamba 2": "Mamba2ForCausalLM",
    "Zamba 2": "Zamba2ForCausalLM",
    "LFM2": "Lfm2ForCausalLM Lfm2MoeForCausalLM",
    "Whisper": "WhisperForConditionalGeneration",
    "wav2vec 2.0": "Wav2Vec2ForCTC",
    "DINOv2": "Dinov2Model",
    "DINOv3": "DINOv3ViTModel",
    "Swin": "SwinForImageClassification",
    "CLIP": "CLIPModel",
    "SigLIP": "SiglipModel",
    "DeBERTa": "DebertaForMaskedLM DebertaV2ForMaskedLM",
    "ELECTRA": "ElectraForMaskedLM",
    "EXAONE 4": "Exaone4ForCausalLM",
    "Cohere 2": "Cohere2ForCausalLM",
    "Phi-MoE": "PhimoeForCausalLM",
    "Nemotron": "NemotronForCausalLM NemotronHForCausalLM",
    "Apertus": "ApertusForCausalLM",
    "Arcee": "ArceeForCausalLM",
    "StableLM": "StableLmForCausalLM",
    "Falcon": "FalconForCausalLM",
    "MPT": "MptForCausalLM",
}
"""Families whose closed form was wanted first, and their classes: one counts where all of its classes are read."""


@dataclass(frozen=True)
class Row:
    """What is known of one kind of model."""

    kind: str
    architecture: str
    ours: int | None = None
    theirs: int | None = None
    executed: str = ""
    run: str = ""
    refusal: str = ""
    why: str = ""

    @property
    def closed(self) -> bool:
        """Whether a family reads the class, though it may refuse the default configuration."""
        return self.ours is not None or bool(self.refusal)

    @property
    def built(self) -> bool:
        """Whether the library builds the model of its default configuration."""
        return bool(self.executed) or not any(words in self.why for words in NOT_BUILT)


def page(rows: list[Row]) -> str:
    """The page."""
    runs = sorted({each.run for each in rows if each.run})
    letters = {run: chr(ord("a") + number) for number, run in enumerate(runs)}
    lines = [
        "# Which models have an answer",
        "",
        "Every model type of transformers, and the denoisers of diffusers that people train, each of its default "
        "configuration.",
        "",
        *_counts(rows),
        "",
        "Runs, by the letters in the column `run`:",
        "",
        *(f"- {letter}: {run}" for run, letter in letters.items()),
        "",
        "`python -m tests.helpers.model_table` writes this page; `--renew NAME ...` runs single rows again, "
        "`--closed-form` counts",
        "the closed forms of all rows anew.",
        "",
        "| model type | class | closed form: parameters | torch: parameters | executed | run "
        "| why not, or what differs |",
        "|---|---|---:|---:|---|---|---|",
        *(cells(each, letters) for each in rows),
    ]
    return "\n".join(lines) + "\n"


def _counts(rows: list[Row]) -> Iterator[str]:
    """What the rows come to."""
    closed = [each for each in rows if each.closed]
    refused = sum(bool(each.refusal) for each in closed)
    built = [each for each in rows if each.built]
    executed = [each for each in built if each.executed]
    forward = sum(each.executed == FORWARD for each in executed)
    neither = sum(not each.closed for each in rows if not each.executed)
    known = families.architectures()
    trained = sum({*names.split()} <= {*known} for names in TRAINED.values())
    yield (
        f"- Closed form (`ofu-exporter flops config.json`): {len(closed)} of {len(rows)}. Of {refused} of them the "
        "default configuration contradicts itself or lacks a field, so that no number stands here."
    )
    yield (
        f"- {trained} of {len(TRAINED)} families that people train (`TRAINED` in `tests/helpers/model_page.py`) "
        "have a closed form."
    )
    yield (
        f"- `--executed` answers for {len(executed)} of the {len(built)} that their library builds: "
        f"{len(executed) - forward} forward and backward, {forward} forward only, "
        "because the backward pass fails or because the run tried none."
    )
    yield f"- {len(rows) - len(built)} are not built of their default configuration by the library itself."
    yield f"- {neither} of {len(rows)} have no answer here."


def cells(each: Row, letters: dict[str, str] | None = None) -> str:
    """The row of the table."""
    ours, theirs = ("" if number is None else f"{number:,}" for number in (each.ours, each.theirs))
    ours = "yes" if each.refusal else ours
    notes = [REFUSED + each.refusal] if each.refusal else []
    notes += [each.why] if each.why else []
    if each.ours is not None and each.theirs is not None and each.ours != each.theirs:
        notes.append(f"{each.ours - each.theirs:+,}")
    run = (letters or {}).get(each.run, each.run)
    columns = (each.kind, each.architecture, ours, theirs, each.executed, run, "; ".join(notes))
    return f"| {' | '.join(columns)} |"


def read(text: str) -> list[Row]:
    """The rows of a page."""
    runs = dict(re.findall(r"^- ([a-z]): (.+)$", text, re.MULTILINE))
    lines = [line for line in text.splitlines() if line.startswith("| ")][1:]
    return [_row(line, runs) for line in lines]


def _row(line: str, runs: dict[str, str]) -> Row:
    kind, architecture, ours, theirs, executed, run, notes = map(str.strip, line[1:-1].split("|"))
    refusal = ""
    if notes.startswith(REFUSED):
        refusal, _, notes = notes.removeprefix(REFUSED).partition("; ")
    notes = re.sub(r"(^|; )[+-][\d,]+$", "", notes)
    return Row(
        kind,
        architecture,
        _number(ours),
        _number(theirs),
        executed,
        runs.get(run, ""),
        refusal,
        notes,
    )


def _number(cell: str) -> int | None:
    digits = cell.replace(",", "")
    return int(digits) if digits.isdigit() else None
