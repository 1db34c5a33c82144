"""Of a model that a job reported, its numbers are kept, and its text as far as that is short."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ofu_exporter.errors import ReportError
from ofu_exporter.reports.kept_model import MOST_KEPT_BYTES, KeptModel, completed, keep_model
from ofu_exporter.reports.messages import ModelBody
from ofu_exporter.reports.stated import Hardware, flops_per_token
from ofu_exporter.values.reasons import ReportRejection
from tests.flops.counting import config
from tests.helpers.desk import said

LLAMA = {"config": config("llama-3-8b"), "seq_len": 8192}
PEAK = 1e15
ONE = Hardware(1, peaks={"bf16": PEAK})
Count = Callable[[ModelBody], KeptModel]


def never(model: ModelBody) -> KeptModel:
    raise AssertionError(f"counted again: {model}")


def test_a_model_that_is_repeated_or_left_out_is_not_counted_again() -> None:
    _, first, stated = completed(said(tokens_per_second=1e4, gpus=1, model=LLAMA), None, ONE, None)
    per_token = flops_per_token(ModelBody.model_validate(LLAMA))
    assert stated.mfu == pytest.approx(1e4 * per_token / PEAK)
    assert first.facts.model is None, "the body itself is not kept"
    for report in (said(tokens_per_second=2e4, model=LLAMA), said(tokens_per_second=2e4)):
        _, later, stated = completed(report, first, ONE, None, never)
        assert stated.mfu == pytest.approx(2e4 * per_token / PEAK)
        assert later.model == first.model


def test_a_model_that_cannot_be_counted_may_be_all_that_a_report_has() -> None:
    only = said(model={"config": config("llama-3-8b")})  # without a length
    _, known, stated = completed(only, None, ONE, None)
    assert (known.model, stated.mfu) == (None, None)
    assert "tokens" in stated.warnings[0]


def test_another_batch_is_another_model() -> None:
    first = completed(said(mfu=0.4, model=LLAMA), None, ONE, None).known
    other = completed(said(mfu=0.4, model={**LLAMA, "batch_size": 2}), first, ONE, None).known
    assert other.model != first.model


def test_the_text_of_a_model_comes_back_as_it_was() -> None:
    body = ModelBody.model_validate({**LLAMA, "forward_only": True})
    kept = keep_model(body)
    assert kept.body() == body
    assert kept.forward_only
    assert len(kept.text) < 1000


def test_a_text_too_long_to_keep_leaves_its_numbers() -> None:
    digits = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=90_000))
    noise = {f"_{place}": digits[place : place + 9000] for place in range(0, 90_000, 9000)}
    body = ModelBody.model_validate({**LLAMA, "config": {**config("llama-3-8b"), **noise}})
    kept = keep_model(body)
    assert (kept.text, kept.body()) == (b"", None)
    assert len(digits) > MOST_KEPT_BYTES
    assert kept.flops_per_token == flops_per_token(ModelBody.model_validate(LLAMA))


def test_a_model_for_which_there_is_no_time_is_told_and_not_taken_for_a_wrong_one() -> None:
    def busy(model: ModelBody) -> KeptModel:
        raise ReportError(ReportRejection.TOO_MANY, "", "later", retry_after=1.0)

    with pytest.raises(ReportError) as error:
        completed(said(mfu=0.4, model=LLAMA), None, ONE, None, busy)
    assert error.value.reason is ReportRejection.TOO_MANY
