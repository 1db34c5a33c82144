"""Every closed form counts what torch executed, also where torch is not installed: its numbers are kept in a file.

`python -m tests.helpers.torch_counts` makes the file: the small models of tests/flops/small_models.py, and each with
one field changed at a time.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import pytest

from ofu_exporter.flops import families
from tests.flops.executions import Execution, difference, recorded
from tests.flops.small_models import SMALL

RECORDED = [*recorded()]
NAMES = [*dict.fromkeys(each.name for each in RECORDED)]
WITH_INPUTS_OF_THEIR_OWN = {"modules", "qwen_image", "wan"}
"""Families that tests/flops/test_executed.py runs by itself: denoisers, and lists of modules."""
OTHERWISE = {
    "DeciLMForCausalLM",
    "DeepseekV4ForCausalLM",
    "DeiTForImageClassificationWithTeacher",
    "Gemma4ForConditionalGeneration",
    "KimiK25ForConditionalGeneration",
    "Llama4ForConditionalGeneration",
    "MiMoForCausalLM",
    "Step3p7FlashForCausalLM",
    "Qwen2VLForConditionalGeneration",
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
}
"""Architectures that tests/flops/test_executed.py or tests/flops/trace/test_from_config.py runs by itself, and those
whose counts tests/flops/families/ writes out."""


def of(name: str) -> list[Execution]:
    return [each for each in RECORDED if each.name == name]


@pytest.mark.parametrize("name", NAMES)
def test_parameters_and_products_are_those_that_torch_executed(name: str) -> None:
    """Exactly, with every change of a field that is not refused."""
    differences = {str(each.changed): difference(each, each.config) for each in of(name)}
    assert {change: text for change, text in differences.items() if text} == {}


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("GraniteMoeForCausalLM 49", {"position_embedding_type": "rope"}),
        ("GraniteMoeSharedForCausalLM 50", {"position_embedding_type": "rope"}),
        ("ModernBertForMaskedLM", {"global_attn_every_n_layers": 3}),
        ("ViTForImageClassification", {"tie_word_embeddings": True}),
    ],
)
def test_fields_that_other_releases_write_change_nothing(name: str, fields: dict[str, Any]) -> None:
    """What to_json_string(use_diff=False) of transformers 4.57.1 or 5.0.0 has for the same model beside the rest."""
    executed = of(name)[0]
    assert difference(executed, {**executed.config, **fields}) == ""


def test_every_architecture_is_held_to_what_torch_executed() -> None:
    """A classifier by its decoder."""
    held = {each.name.split()[0] for each in RECORDED} | OTHERWISE
    held |= {name.replace("ForCausalLM", "ForSequenceClassification") for name in held}
    missing = {
        architecture
        for architecture, family in families.architectures().items()
        if family not in WITH_INPUTS_OF_THEIR_OWN
        and not architecture.startswith(("Bert", "Roberta"))
    } - held
    assert missing - {"ModernBertModel", "XLMRobertaForMaskedLM"} == set(), (
        "a new one is the last row of a list in small_decoders.py, or has a test of its own"
    )


def test_the_small_models_are_those_that_torch_executed() -> None:
    """Many are numbered: one that is not the last of its list would take the names of those after it."""
    assert {each.name for each in SMALL} ^ {*NAMES} == set(), (
        "where torch is installed: `python -m tests.helpers.torch_counts --missing`"
    )


def test_a_wrong_count_would_be_seen() -> None:
    """One product more or less than torch executed, one parameter more, and it is said."""
    right = of("LlamaForCausalLM 0")[0]
    assert difference(right, right.config) == ""
    more = replace(right, forward={**right.forward, "mm": right.forward["mm"] + 2})
    assert difference(more, right.config).startswith("FLOPs")
    assert difference(replace(right, parameters=right.parameters + 1), right.config) == (
        f"parameters {right.parameters} or {right.parameters} for {right.parameters + 1}"
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [each.name for each in SMALL])
def test_the_numbers_kept_are_those_of_torch(name: str) -> None:
    """The file is what its command makes: every model anew, without its changes."""
    for library in ("torch", "transformers"):
        pytest.importorskip(library, reason="pip install --group test-torch")
    counts = importlib.import_module("tests.helpers.torch_counts")
    small = next(each for each in SMALL if each.name == name)
    anew = counts.execution(small, counts.config_of(small), {})
    kept = of(name)[0]
    assert (anew.parameters, anew.forward) == (kept.parameters, kept.forward)
