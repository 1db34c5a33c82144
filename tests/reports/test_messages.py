"""What a job may send: every field that cannot be is refused, and named."""

from __future__ import annotations

import json
import math
from itertools import product
from typing import Any

import pytest
from pydantic import ValidationError

from ofu_exporter.hardware.gpu_models import PRECISIONS
from ofu_exporter.ofu.divergence import compare_sums
from ofu_exporter.reports.messages import MOST_FIELDS, Comparison, MfuReport
from ofu_exporter.values.reported import Compared, ErrorMethod, Verdict
from tests.flops.counting import config
from tests.flops.test_recipes import RECIPE
from tests.helpers.desk import said
from tests.helpers.every import every

MODEL = {"config": {"hidden_size": 64}, "seq_len": 128}


def refused(**fields: Any) -> tuple[tuple[int | str, ...], str]:
    """Where, and why."""
    with pytest.raises(ValidationError) as error:
        said(**fields)
    first = error.value.errors()[0]
    return first["loc"], first["msg"].removeprefix("Value error, ")


def test_a_refusal_says_what_is_wrong_with_a_value() -> None:
    assert refused(mfu=True) == (("mfu",), "is not a number")
    assert refused(job_id="1\n2", mfu=0.4) == (("job_id",), "has characters that are not printable")


NUMBERS = ("mfu", "model_flops_per_second", "tflops_per_gpu", "tokens_per_second")
NO_NUMBERS = ["0.4", True, False, [0.4], {}, math.nan, math.inf, -math.inf, 10**400]


@every(product(NUMBERS, NO_NUMBERS))
def test_what_is_no_number_is_refused(field: str, wrong: object) -> None:
    assert refused(**{field: wrong})[0] == (field,)


@every(product(["start", "end", "peak_tflops", "tile_overhead", "flops_per_token"], NO_NUMBERS))
def test_nor_is_it_taken_beside_an_mfu(field: str, wrong: object) -> None:
    assert refused(mfu=0.4, **{field: wrong})[0] == (field,)


@every(
    [
        ({"mfu": -0.01}, "mfu"),
        ({"model_flops_per_second": -1}, "model_flops_per_second"),
        ({"tflops_per_gpu": -1}, "tflops_per_gpu"),
        ({"tokens_per_second": -0.5}, "tokens_per_second"),
        ({"tokens_per_second": 1.0, "flops_per_token": 0}, "flops_per_token"),
        ({"mfu": 0.4, "job_id": ""}, "job_id"),
        ({"mfu": 0.4, "job_id": "x" * 257}, "job_id"),
        ({"mfu": 0.4, "job_id": "a\nb"}, "job_id"),
        ({"mfu": 0.4, "job_id": "\ud800"}, "job_id"),
        ({"mfu": 0.4, "job_id": 7}, "job_id"),
        ({"mfu": 0.4, "start": -1}, "start"),
        ({"mfu": 0.4, "start": 1e11}, "start"),
        ({"mfu": 0.4, "end": 1_800_000_000_000}, "end"),  # milliseconds
        ({"mfu": 0.4, "start": 20.0, "end": 10.0}, "end"),
        ({"mfu": 0.4, "start": 20.0, "end": 20.0}, "end"),
        ({"mfu": 0.4, "step": -1}, "step"),
        ({"mfu": 0.4, "step": 1.5}, "step"),
        ({"mfu": 0.4, "step": True}, "step"),
        ({"mfu": 0.4, "gpus": 0}, "gpus"),
        ({"mfu": 0.4, "gpus": 10**30}, "gpus"),
        ({"mfu": 0.4, "gpus": "8"}, "gpus"),
        ({"mfu": 0.4, "peak_tflops": 0}, "peak_tflops"),
        ({"mfu": 0.4, "peak_tflops": 5e-324}, "peak_tflops"),
        ({"mfu": 0.4, "peak_tflops": 989.4e12}, "peak_tflops"),  # FLOP/s
        ({"mfu": 0.4, "precision": "bf17"}, "precision"),
        ({"mfu": 0.4, "precision": 16}, "precision"),
        ({"mfu": 0.4, "precision": ["bf16"]}, "precision"),
        ({"mfu": 0.4, "precision": {"bf16": 1.5}}, "precision"),
        ({"mfu": 0.4, "precision": {"bf16": 0}}, "precision"),
        ({"mfu": 0.4, "precision": {"bf16": True}}, "precision"),
        ({"mfu": 0.4, "precision": {"bf17": 1.0}}, "precision"),
        ({"mfu": 0.4, "recompute": "some"}, "recompute"),
        ({"mfu": 0.4, "accumulation": 0}, "accumulation"),
        ({"mfu": 0.4, "pack_length": "8k"}, "pack_length"),
        ({"mfu": 0.4, "framework": "x" * 65}, "framework"),
        ({"mfu": 0.4, "framework": "a\tb"}, "framework"),
        ({"mfu": 0.4, "tile_overhead": -0.1}, "tile_overhead"),
        ({"mfu": 0.4, "tile_overhead": 10}, "tile_overhead"),
        ({"mfu": 0.4, "tile_overhead": 0.1, "tile_overhead_bound": "upper"}, "tile_overhead_bound"),
        ({"mfu": 0.4, "modell": {}}, "modell"),
        ({"mfu": 0.4, "model": 5}, "model"),
    ]
)
def test_what_cannot_be_is_refused_and_named(fields: dict[str, Any], field: str) -> None:
    assert refused(**fields)[0][0] == field


@every(
    [
        ({"seq_len": 0}, "seq_len"),
        ({"seq_len": 128.0}, "seq_len"),
        ({"seq_len": 1 << 40}, "seq_len"),
        ({"batch_size": 0}, "batch_size"),
        ({"forward_only": 1}, "forward_only"),
        ({"mtp": "yes"}, "mtp"),
        ({"lora_rank": 0}, "lora_rank"),
        ({"freeze": ["x"] * 17}, "freeze"),
        ({"ignore_fields": ["x"] * 65}, "ignore_fields"),
        ({"config": []}, "config"),
        ({"other": 1}, "other"),
    ]
)
def test_so_is_what_cannot_be_of_a_model(wrong: dict[str, Any], field: str) -> None:
    assert refused(mfu=0.4, model={**MODEL, **wrong})[0] == ("model", field)


@every(
    [
        ({"seq_len": 8}, "give config or recipe"),
        ({**MODEL, "recipe": "own"}, "give config or recipe"),
        ({**MODEL, "lengths": {"tokens": 8}}, "give seq_len or lengths.tokens"),
        ({**MODEL, "lora_targets": ["q_proj"]}, "lora_targets needs lora_rank"),
    ]
)
def test_a_model_is_a_configuration_or_a_recipe(model: dict[str, Any], why: str) -> None:
    assert refused(mfu=0.4, model=model) == (("model",), why)


@every(["../own", "a/b", "", ".own", "o" * 101, "own\n"])
def test_a_recipes_name_leads_nowhere_but_into_its_folder(name: str) -> None:
    assert refused(mfu=0.4, model={"recipe": name})[0][:2] == ("model", "recipe")


@every(
    [
        (7, "is neither a recipe nor the name of one"),
        ("../../etc/passwd", "a name has up to 100 letters, digits, dots, dashes and underscores"),
    ]
)
def test_what_is_no_recipe_has_one_problem(wrong: object, why: str) -> None:
    assert problems(recipe=wrong) == [(("model", "recipe"), why)]


@every(
    [
        ("layers", {"layers": math.nan}, "Input should be a valid integer"),
        ("", {"recipe_version": True}, "recipe_version: 'True' cannot be read here"),
        ("", {"terms": [{**RECIPE["terms"][1], "forward": {"tokens": -1}}]}, "below 0"),
    ]
)
def test_the_problem_of_a_recipe_is_where_it_is(
    field: str, wrong: dict[str, Any], why: str
) -> None:
    ((where, what),) = problems(recipe={**RECIPE, **wrong})
    assert where == ("model", "recipe", *([field] if field else []))
    assert why in what


def problems(**model: Any) -> list[tuple[tuple[int | str, ...], str]]:
    """Every problem of a report with a model: where, and why."""
    with pytest.raises(ValidationError) as error:
        said(mfu=0.4, model=model)
    return [
        (each["loc"], each["msg"].removeprefix("Value error, ")) for each in error.value.errors()
    ]


def test_a_name_of_a_wrong_length_is_told_in_characters() -> None:
    assert refused(mfu=0.4, job_id="") == (("job_id",), "String should have at least 1 character")
    assert refused(mfu=0.4, framework="x" * 65)[1] == "String should have at most 64 characters"


def test_a_percentage_is_named_as_the_likely_slip() -> None:
    where, why = refused(mfu=54.27)
    assert where == ("mfu",)
    assert why == "54.27 is out of range; write 0.5427 or 54.27%"
    assert said(mfu="54.27%").mfu == pytest.approx(0.5427)
    assert refused(mfu=1.7)[1].endswith("write 0.017 or 1.7%, or 170% if it is above 100 %")
    assert refused(mfu=0.4, tile_overhead=2)[1].startswith("2 is out of range; write 0.02 or 2%")
    assert said(mfu="330%", tile_overhead="2%").mfu == pytest.approx(3.3)


def test_a_rate_in_another_unit_is_named() -> None:
    assert "if it is FLOP/s, give 989.4" in refused(mfu=0.4, peak_tflops=989.4e12)[1]
    assert "if it is FLOP/s, give 410" in refused(tflops_per_gpu=4.1e14)[1]
    assert "if it is TFLOP/s, give 4.1e+14" in refused(model_flops_per_second=410)[1]


@every(["full", "selective"])
def test_a_forward_only_job_recomputes_nothing(recompute: str) -> None:
    forward = {**MODEL, "forward_only": True}
    why = "recompute: a forward-only pass has no activations to compute again"
    assert refused(mfu=0.4, recompute=recompute, model=forward)[1] == why
    before = said(mfu=0.4, recompute=recompute, model=MODEL)
    assert said(mfu=0.4, model=forward).with_facts(before).recompute is None


def test_a_precision_that_is_none_is_told_which_there_are() -> None:
    assert refused(mfu=0.4, precision="bf17")[1].endswith(f"known: {', '.join(PRECISIONS)}")


def test_one_precision_is_all_of_the_flops() -> None:
    assert said(mfu=0.4, precision="fp8").shares() == {"fp8": 1.0}
    assert said(mfu=0.4, precision={"bf16": 0.3, "fp8": 0.7}).shares() == {"bf16": 0.3, "fp8": 0.7}
    assert said(mfu=0.4).shares() is None
    every = dict.fromkeys(PRECISIONS, 1 / len(PRECISIONS))
    assert said(mfu=0.4, precision=every).shares() == every
    why = "is neither a precision nor shares of several"
    assert refused(mfu=0.4, precision=16)[1] == why


@every(
    [
        ({}, "give one of mfu, model_flops_per_second, tflops_per_gpu, tokens_per_second"),
        ({"event": "evaluation"}, "event needs start"),
        ({"event": "evaluation", "start": 5.0, "mfu": 0.4}, "event has no rate"),
        ({"start": 5.0}, "give one of"),
        ({"mfu": 0.4, "tflops_per_gpu": 400}, "not mfu and tflops_per_gpu"),
        ({"flops_per_token": 6e9}, "flops_per_token needs tokens_per_second"),
        ({"mfu": 0.4, "tokens_per_second": 1.0, "flops_per_token": 6e9}, "no meaning beside mfu"),
    ]
)
def test_it_says_how_fast_the_job_goes_in_one_way(fields: dict[str, Any], why: str) -> None:
    where, message = refused(**fields)
    assert where == ()
    assert why in message


@every(NUMBERS[:3])
def test_tokens_and_a_model_may_stand_beside_as_facts(way: str) -> None:
    value = 4e8 if way == "model_flops_per_second" else 0.4
    facts: dict[str, Any] = {way: value, "tokens_per_second": 1e5, "model": MODEL}
    assert not said(**facts).counts_model
    assert said(tokens_per_second=1e5, model=MODEL).counts_model
    assert not said(tokens_per_second=1e5, flops_per_token=6e9).counts_model


def test_a_step_alone_or_an_event_is_a_report() -> None:
    assert said(step=7).facts_only
    assert said(step=7, end=5.0, run="llama-7").facts_only
    assert said(event="checkpoint", start=5.0, end=9.0, step=7).facts_only
    assert refused(event="lunch", start=5.0)[0] == ("event",)
    assert refused(step=7, run="")[0] == ("run",)


def test_facts_alone_are_a_report() -> None:
    assert said(gpus=64).facts_only
    assert not said(gpus=64, mfu=0.4).facts_only


def test_a_bound_is_of_an_overhead() -> None:
    assert refused(mfu=0.4, tile_overhead_bound="lower")[1] == (
        "tile_overhead_bound needs tile_overhead"
    )
    before = said(tile_overhead=0.02, tile_overhead_bound="lower")
    assert said(mfu=0.4).with_facts(before).tile_overhead_bound == "lower"
    assert said(mfu=0.4, tile_overhead=0.03).with_facts(before).tile_overhead_bound is None


def test_a_pack_holds_at_least_one_sequence() -> None:
    assert refused(mfu=0.4, pack_length=64, model=MODEL)[1].endswith("is shorter than a sequence")
    assert said(mfu=0.4, pack_length=1 << 20, model=MODEL).pack_length == 1 << 20


def test_what_was_said_before_holds_until_it_is_said_again() -> None:
    first = said(mfu=0.4, gpus=64, precision="bf16", model=MODEL, step=1)
    later = said(mfu=0.5, precision="fp8").with_facts(first)
    assert (later.mfu, later.gpus, later.shares(), later.step) == (0.5, 64, {"fp8": 1.0}, None)
    assert later.model == first.model


def test_a_peak_holds_no_longer_than_its_precision() -> None:
    before = said(mfu=0.4, precision="bf16", peak_tflops=900)
    assert said(mfu=0.4).with_facts(before).peak_tflops == 900
    assert said(mfu=0.4, precision="bf16").with_facts(before).peak_tflops == 900
    assert said(mfu=0.4, precision="fp8").with_facts(before).peak_tflops is None
    assert said(mfu=0.4, precision="fp8", peak_tflops=1900).with_facts(before).peak_tflops == 1900


def test_the_configuration_of_every_model_that_is_known_is_taken() -> None:
    for name in ("deepseek-v3", "nemotron-h-8b", "wan2.2-t2v-a14b", "qwen2.5-vl-7b"):
        assert said(mfu=0.4, model={**MODEL, "config": config(name)}).model is not None


def test_thousands_of_fields_are_one_problem() -> None:
    """Each that is told of takes time and room."""
    many = {f"x{number}": 1 for number in range(9_000)}
    assert refused(mfu=0.4, **many) == ((), "has 9002 fields")
    assert refused(mfu=0.4, precision=many)[0] == ("precision",)
    assert refused(mfu=0.4, model={**MODEL, **many})[0] == ("model",)
    fields = {f"x{number}": 1 for number in range(MOST_FIELDS - 2)}
    assert refused(mfu=0.4, **fields)[0] == ("x0",), "each of these is told of"


def test_a_comparison_says_how_far_apart_and_how_sure() -> None:
    sums = Compared(0.5 * 0.5, 0.4 * 0.5, 0.5, variance=(0.01 * 0.5) ** 2)
    found = Comparison.of(10.0, 20.0, sums, compare_sums(sums))
    assert found.model_dump() == {
        "start": 10.0,
        "end": 20.0,
        "mfu": pytest.approx(0.5),
        "ofu": pytest.approx(0.4),
        "observed_seconds": 0.5,
        "difference": pytest.approx(0.1),
        "relative": pytest.approx(0.25),
        "stderr": pytest.approx(0.01),
        "stderr_method": ErrorMethod.MEASURED,
        "overstated": 0.0,
        "verdict": Verdict.INSUFFICIENT_DATA,
    }


def test_where_nothing_was_observed_nothing_is_known_of_it() -> None:
    found = Comparison.of(10.0, 20.0, Compared(), None)
    assert (found.mfu, found.ofu, found.difference, found.relative, found.stderr) == (None,) * 5
    assert found.verdict is Verdict.INSUFFICIENT_DATA


def test_a_report_is_what_its_schema_says() -> None:
    schema = json.dumps(MfuReport.model_json_schema())
    for field in MfuReport.model_fields:
        assert f'"{field}"' in schema
    assert MfuReport.model_json_schema()["additionalProperties"] is False


@every([("accumulation", 1 << 20), ("gpus", 10_000_000), ("tile_overhead", 0.999)])
def test_a_fact_is_taken_up_to_its_limit(name: str, most: float) -> None:
    """A plain overhead of 1 is more likely 1 %."""
    assert getattr(MfuReport.model_validate({"job_id": "7", name: most}), name) == most
    beyond = most + 1 if isinstance(most, int) else 1.0
    with pytest.raises(ValidationError):
        MfuReport.model_validate({"job_id": "7", name: beyond})
