"""The rows of architectures say what the code answers, and are what their command writes."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from ofu_exporter.flops import architectures, families
from ofu_exporter.flops.architectures import (
    FILE,
    ArchitectureRow,
    known_architectures,
    read,
    summary,
)
from tests.helpers.model_table import text

ROWS = [
    ArchitectureRow(
        "bert", "BertForMaskedLM", 109_514_298, 109_514_298, "forward and backward", "0"
    ),
    ArchitectureRow("mamba", "MambaForCausalLM", 8, 7, "forward", "0.02", why="backward, no"),
    ArchitectureRow(
        "qwen3_vl", "Qwen3VLForConditionalGeneration", None, 5, "forward", refusal='"widths" differ'
    ),
    ArchitectureRow("bark", "BarkModel", why="it could not be run"),
    ArchitectureRow("dbrx", "DbrxForCausalLM", why="transformers 5.23.0 cannot build it"),
]


def test_rows_are_read_back_as_they_were_written() -> None:
    assert read(text(ROWS)) == ROWS


def test_the_rows_are_counted() -> None:
    assert summary(ROWS, ["BertForMaskedLM", "BarkModel", "Other"]) == [
        "3 architectures have a closed form.",
        "torch executes 3 of the 4 of 5 model types that their library builds of its default configuration.",
        "Recipes were made of 2 of them: 1 are exact where they were not fitted, 1 within 1 %.",
        "4 of 5 have an answer.",
    ]


def test_the_file_is_what_the_command_writes() -> None:
    assert text(known_architectures()) == FILE.read_text()
    assert len({each.kind for each in known_architectures()}) == len(known_architectures()) > 600


def test_a_row_has_a_closed_form_where_a_family_reads_its_class() -> None:
    closed = families.architectures()
    wrong = [
        each.kind for each in known_architectures() if each.closed != (each.architecture in closed)
    ]
    assert wrong == [], "run `python -m tests.helpers.model_table --closed-form`"


def test_recipes_are_within_a_hundredth_where_they_were_not_fitted() -> None:
    off = {each.kind: float(each.recipe) for each in known_architectures() if each.recipe}
    assert sum(abs(each) <= 0.01 for each in off.values()) >= 0.9 * len(off)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_closed_forms_are_those_of_the_code() -> None:
    """Of each row that has one, from the default configuration of transformers or diffusers."""
    for library in ("torch", "transformers", "diffusers"):
        pytest.importorskip(library, reason="pip install --group test-torch")
    version = importlib.import_module("transformers").__version__
    if f"transformers {version}, " not in FILE.read_text():
        pytest.skip(f"the rows are of another transformers than {version}")
    again: Any = importlib.import_module("tests.helpers.model_table").closed_form_again
    closed = [each for each in architectures.known_architectures() if each.closed]
    assert [again(each) for each in closed] == closed
