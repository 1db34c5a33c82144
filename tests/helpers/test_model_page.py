"""The page of models says what the code answers, and its rows are read back as they were written."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest

from ofu_exporter.flops import families
from tests.helpers.model_page import BOTH, FORWARD, PAGE, Row, page, read

ROWS = [
    Row("bert", "BertForMaskedLM", 109_514_298, 109_514_298, BOTH, "torch 2.15.0; 2026-11-22"),
    Row("mamba", "MambaForCausalLM", 8, 7, FORWARD, "torch 2.13.0; 2026-11-21", "", "backward: no"),
    Row("qwen3_vl", "Qwen3VLForConditionalGeneration", None, 5, BOTH, "", "widths differ", "slow"),
    Row("bark", "BarkModel", why="it could not be run"),
    Row("dbrx", "DbrxForCausalLM", why="transformers 5.23.0 cannot build it"),
]


def test_rows_are_read_back_as_they_were_written() -> None:
    assert read(page(ROWS)) == ROWS


def test_the_rows_are_counted() -> None:
    text = page(ROWS)
    assert "`ofu-exporter flops config.json`): 3 of 5. Of 1 of them" in text
    assert (
        "answers for 3 of the 4 that their library builds: 2 forward and backward, 1 forward"
        in text
    )
    assert "- 2 of 5 have no answer here." in text


def test_the_page_is_what_the_command_writes() -> None:
    written = PAGE.read_text()
    assert page(read(written)) == written


def test_a_row_has_a_closed_form_where_a_family_reads_its_class() -> None:
    known = families.architectures()
    wrong = [
        each.kind for each in read(PAGE.read_text()) if each.closed != (each.architecture in known)
    ]
    assert wrong == [], "run `python -m tests.helpers.model_table --closed-form`"


@pytest.mark.parametrize("name", ["flops-own.md"])
def test_other_pages_say_how_many_models_are_answered_as_this_page_does(name: str) -> None:
    answered = re.search(r"answers for (\d+) of the (\d+) that", PAGE.read_text())
    assert answered
    text = " ".join((PAGE.parent / name).read_text().split())
    assert f"{answered[1]} of the {answered[2]}" in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_closed_forms_are_those_of_the_code() -> None:
    """Of each row that has one, from the default configuration of transformers or diffusers."""
    for library in ("torch", "transformers", "diffusers"):
        pytest.importorskip(library, reason="pip install .[test-torch]")
    version = importlib.import_module("transformers").__version__
    if f"transformers {version}, " not in PAGE.read_text():
        pytest.skip(f"the page is of another transformers than {version}")
    again: Any = importlib.import_module("tests.helpers.model_table").closed_form_again
    closed = [each for each in read(PAGE.read_text()) if each.closed]
    assert [again(each) for each in closed] == closed
