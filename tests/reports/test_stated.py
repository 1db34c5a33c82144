"""The MFU that a report comes to: whichever way it is said, against the right dense peak."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError, ReportError
from ofu_exporter.flops import recipes
from ofu_exporter.flops.config_file import read_configuration, ready_recipes
from ofu_exporter.hardware.gpu_models import rate
from ofu_exporter.reports.kept_model import completed
from ofu_exporter.reports.messages import ModelBody
from ofu_exporter.reports.stated import (
    Hardware,
    counted_step,
    flops_per_token,
    named_recipe,
    stated_mfu,
    with_recipe,
)
from ofu_exporter.values.reasons import ReportRejection
from tests.flops.counting import config
from tests.flops.test_recipes import RECIPE
from tests.helpers.desk import hardware_of, said
from tests.helpers.every import every
from tests.helpers.values import H100, gpu

A100 = "NVIDIA A100-SXM4-80GB"
PEAK, FP8, TF32 = (flops.dense_peak(H100, name) for name in ("bf16", "fp8", "tf32"))
LLAMA = {"config": config("llama-3-8b"), "seq_len": 8192}


EIGHT = hardware_of(*(gpu(index) for index in range(8)))


def mfu(on: Hardware = EIGHT, **fields: Any) -> float:
    found = stated_mfu(said(**fields), on).mfu
    assert found is not None
    return found


def refused(on: Hardware = EIGHT, **fields: Any) -> tuple[ReportRejection, str]:
    with pytest.raises(ReportError) as error:
        stated_mfu(said(**fields), on)
    return error.value.reason, error.value.field


def test_every_way_to_say_it_comes_to_the_same() -> None:
    per_token = (
        flops.count(
            flops.read(config("llama-3-8b")), flops.fixed(1, tokens=8192)
        ).model_flops_per_step
        / 8192
    )
    rate_ = 0.4 * 64 * PEAK
    ways: list[dict[str, Any]] = [
        {"mfu": 0.4},
        {"model_flops_per_second": rate_},
        {"tflops_per_gpu": 0.4 * PEAK / 1e12},
        {"tokens_per_second": rate_ / 6e10, "flops_per_token": 6e10},
        {"tokens_per_second": rate_ / float(per_token), "model": LLAMA},
    ]
    for way in ways:
        assert mfu(gpus=64, precision="bf16", **way) == pytest.approx(0.4), way


def test_without_a_world_size_the_gpus_on_this_node_are_taken_for_all() -> None:
    found = stated_mfu(said(model_flops_per_second=0.4 * 8 * PEAK), EIGHT)
    assert found.mfu == pytest.approx(0.4)
    assert "assuming that the job has only its 8 on this node" in found.warnings[0]


def test_a_job_without_gpus_here_has_to_say_how_many_it_has() -> None:
    nothing = hardware_of()
    assert nothing == Hardware()
    one = {"peak_tflops": 989.4, "model_flops_per_second": 0.4 * 989.4e12}
    assert refused(nothing, **one) == (ReportRejection.OUT_OF_RANGE, "gpus")
    assert mfu(nothing, **one, gpus=1) == pytest.approx(0.4)


@every(
    [
        (2 * PEAK, "the sparse (2:4) peak of bf16"),
        (TF32, "the tf32 peak"),
        (123e12, "none of its dense peaks"),
    ]
)
def test_an_mfu_against_another_peak_is_converted_and_the_peak_is_named(
    peak: float, name: str
) -> None:
    found = stated_mfu(said(mfu=0.2, peak_tflops=peak / 1e12, precision="bf16"), EIGHT)
    assert found.mfu == pytest.approx(0.2 * peak / PEAK)
    assert found.peak_flops == pytest.approx(PEAK)
    assert name in found.warnings[0]
    assert "converted to the dense peak of 989.4 TFLOP/s" in found.warnings[1]


@every([PEAK / 1e12, 989, 989.5, 990])
def test_the_right_peak_in_three_digits_is_the_right_one(peak: float) -> None:
    found = stated_mfu(said(mfu=0.4, peak_tflops=peak), EIGHT)
    assert found.mfu == pytest.approx(0.4, rel=1e-3)
    assert found.warnings == ()


def test_the_peak_of_mixed_precision_is_the_harmonic_mean_by_flops() -> None:
    """arXiv:2605.20799, eq. 12."""
    found = stated_mfu(said(mfu=0.3, precision={"bf16": 0.3, "fp8": 0.7}), EIGHT)
    assert found.peak_flops == pytest.approx(1 / (0.3 / PEAK + 0.7 / FP8))
    assert found.mfu == 0.3
    throughput = 0.3 * 8 * (found.peak_flops or 0.0)
    assert mfu(
        model_flops_per_second=throughput, gpus=8, precision={"bf16": 0.3, "fp8": 0.7}
    ) == pytest.approx(0.3)


def test_a_job_that_changes_its_precision_is_measured_against_the_new_peak() -> None:
    before = said(tflops_per_gpu=400, precision="bf16")
    after = said(tflops_per_gpu=400, precision="fp8").with_facts(before)
    one, other = stated_mfu(before, EIGHT), stated_mfu(after, EIGHT)
    assert one.peak_flops == pytest.approx(PEAK)
    assert other.peak_flops == pytest.approx(FP8)
    assert one.mfu == pytest.approx(2 * (other.mfu or 0.0))


def test_who_does_not_say_the_precision_computes_in_bf16() -> None:
    assert stated_mfu(said(mfu=0.4), EIGHT).peak_flops == pytest.approx(PEAK)
    volta = hardware_of(replace(gpu(name="Tesla V100-SXM2-32GB"), sm_count=80))
    assert "bf16" not in volta.peaks
    assert stated_mfu(said(mfu=0.4), volta).peak_flops == volta.peaks["fp16"]


def test_a_precision_that_the_gpus_lack_is_refused() -> None:
    assert refused(mfu=0.4, precision="fp4") == (ReportRejection.OUT_OF_RANGE, "precision")


@every([{"bf16": 0.5}, {"bf16": 0.6, "fp8": 0.6}, {}])
def test_shares_that_are_not_all_of_the_flops_are_refused(shares: dict[str, float]) -> None:
    assert refused(mfu=0.4, precision=shares) == (ReportRejection.OUT_OF_RANGE, "precision")


UNKNOWN = replace(gpu(name="NVIDIA Q999"), max_sm_clock_hz=2e9)


def test_gpus_of_which_no_peak_is_known_are_measured_against_the_one_that_is_said() -> None:
    on = hardware_of(UNKNOWN)
    assert on.peaks == {}
    assert not on.is_in_table
    assert stated_mfu(said(mfu=0.4), on).peak_flops is None
    found = stated_mfu(said(tflops_per_gpu=100, peak_tflops=250), on)
    assert found.mfu == pytest.approx(0.4)
    assert found.peak_flops == 250e12
    assert refused(on, tflops_per_gpu=100) == (ReportRejection.OUT_OF_RANGE, "peak_tflops")


def test_a_mig_instance_has_the_peak_of_its_share() -> None:
    whole = gpu()
    parts = [
        replace(whole, instance=str(number), profile="3g.40gb", sm_count=60) for number in (1, 2)
    ]
    rating = rate(parts[0])
    assert rating is not None
    on = hardware_of(*parts)
    assert on.number == 2
    assert on.peaks == dict(sorted(rating.peak_flops.items()))


def test_gpus_of_two_models_have_the_mean_of_the_peaks_that_both_have() -> None:
    other = replace(gpu(1, name=A100), sm_count=108, compute_capability=(8, 0))
    on = hardware_of(gpu(0), other)
    assert on.name == ""
    assert on.peaks["bf16"] == pytest.approx((PEAK + flops.dense_peak(A100, "bf16")) / 2)
    assert "fp8" not in on.peaks
    assert not on.is_in_table
    assert refused(on, mfu=0.4, precision="fp8")[1] == "precision"


@every(
    [
        {"tflops_per_gpu": 9e5},
        {"model_flops_per_second": 1e308, "gpus": 1},
        {"tokens_per_second": 1e300, "flops_per_token": 1e300},
        {"mfu": "900%", "peak_tflops": 999999.0},
    ]
)
def test_what_makes_an_mfu_that_cannot_be_is_named(fields: dict[str, Any]) -> None:
    assert refused(**fields) == (ReportRejection.OUT_OF_RANGE, next(iter(fields)))
    with pytest.raises(
        ReportError, match=r"makes an MFU of \S+ on this hardware, which is impossible"
    ):
        stated_mfu(said(**fields), EIGHT)


@every(product([5e-324, 1e-300, 999999.0], [EIGHT, hardware_of(UNKNOWN), Hardware()]))
def test_whatever_is_said_the_mfu_is_a_number(peak: float, on: Hardware) -> None:
    found = stated_mfu(said(mfu=0, peak_tflops=peak), on)
    assert found.mfu == 0.0
    assert found.peak_flops is None or math.isfinite(found.peak_flops)


def test_an_mfu_above_one_is_taken_and_doubted() -> None:
    found = stated_mfu(said(mfu=1.2), EIGHT)
    assert found.mfu == 1.2
    assert "over 100 % is impossible" in found.warnings[0]


def test_facts_alone_come_to_no_mfu() -> None:
    assert stated_mfu(said(gpus=64, precision="fp8"), EIGHT).mfu is None


def test_a_model_that_cannot_be_counted_is_named() -> None:
    model = {"config": {"architectures": ["NoSuchModel"]}, "seq_len": 8192}
    assert refused(tokens_per_second=1e5, model=model) == (ReportRejection.OUT_OF_RANGE, "model")


def test_a_model_that_breaks_whoever_counts_it_is_refused_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No such configuration is known; the text is the reporter's own, and so is the fault."""

    def broken(*_: object) -> None:
        raise RecursionError("round and round")

    monkeypatch.setattr(flops, "read", broken)
    model = {"config": {"architectures": ["Breaks"]}, "seq_len": 8}
    with pytest.raises(ReportError, match="cannot be counted: RecursionError: round and round"):
        stated_mfu(said(tokens_per_second=1e5, model=model), EIGHT)


def test_tokens_alone_say_nothing() -> None:
    assert refused(tokens_per_second=1e5) == (ReportRejection.OUT_OF_RANGE, "tokens_per_second")
    with pytest.raises(ReportError, match="needs flops_per_token or model"):
        stated_mfu(said(tokens_per_second=1e5), EIGHT)


def test_flops_of_a_token_in_gflops_are_warned_about() -> None:
    """51.47 GFLOPs of an 8B model, written without the thousand million; it makes an MFU of nearly 0."""
    found = stated_mfu(said(tokens_per_second=1e5, flops_per_token=51.47, gpus=8), EIGHT)
    assert any(
        "flops_per_token: 51.47 is fewer than any model needs; in GFLOPs it is 5.147e+10" in each
        for each in found.warnings
    )
    right = stated_mfu(said(tokens_per_second=1e5, flops_per_token=51.47e9, gpus=8), EIGHT)
    assert not any("flops_per_token" in each for each in right.warnings)


def test_a_throughput_of_one_gpu_is_noticed_where_the_job_says_how_many_it_has() -> None:
    one: dict[str, Any] = {"model_flops_per_second": 0.4 * PEAK}
    (warning,) = stated_mfu(said(gpus=64, **one), EIGHT).warnings
    assert "MFU would be 40.0% if the throughput were of one GPU: is it of all 64" in warning
    (assumed,) = stated_mfu(said(**one), EIGHT).warnings
    assert "assuming that the job has only its 8 on this node" in assumed


def test_a_gpu_that_is_not_rated_has_no_peak_and_takes_it_from_the_others() -> None:
    unrated = replace(gpu(1, name="NVIDIA Q999"), max_sm_clock_hz=None)
    assert hardware_of(unrated) == Hardware(1, "NVIDIA Q999")
    assert hardware_of(gpu(0), unrated) == Hardware(2, "")
    assert hardware_of(gpu(0), gpu(1)).name == H100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.json").write_text(json.dumps(RECIPE))
    return tmp_path


def test_a_named_recipe_is_read_from_the_folder_as_it_is_now(folder: Path) -> None:
    report, problem = with_recipe(said(mfu=0.4, model={"recipe": "own"}), folder)
    assert problem is None
    assert report.model is not None
    assert report.model.recipe == recipes.read(RECIPE)
    (folder / "own.json").write_text(json.dumps({**RECIPE, "architecture": "Newer"}))
    assert named_recipe(folder, "own").architecture == "Newer"


def test_a_report_that_has_its_mfu_needs_no_recipe(folder: Path) -> None:
    report, problem = with_recipe(said(mfu=0.4, model={"recipe": "other"}), folder)
    assert report.model is None
    assert report.mfu == 0.4
    assert problem is not None
    assert problem.startswith("model: the recipe ")
    assert problem.endswith("No such file or directory; it explains nothing")


def test_a_report_of_tokens_needs_its_recipe(folder: Path) -> None:
    told = said(tokens_per_second=5.0, model={"recipe": "other"})
    with pytest.raises(ReportError, match=r"other\.json: No such file"):
        with_recipe(told, folder)
    with pytest.raises(ReportError, match="this agent has no folder of recipes"):
        with_recipe(told, None)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "is not JSON"),
        (b"[]", ": the top level is not a configuration"),
        (b"\xff", "is not UTF-8"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"recipe_version": 2}', "'2' cannot be read here; this version reads 1"),
        (b"{}", "'None' cannot be read here"),
        (b'{"recipe_version": 1, "recipe_version": 1}', "the key 'recipe_version' is there twice"),
        (b" " * (300 << 10), "is larger than 256 KiB"),
        (json.dumps({**RECIPE, "terms": 5}).encode(), "terms: "),
    ],
)
def test_what_is_no_recipe_is_a_sentence(folder: Path, content: bytes, text: str) -> None:
    (folder / "odd.json").write_bytes(content)
    with pytest.raises(ConfigError, match=text) as caught:
        named_recipe(folder, "odd")
    assert "odd.json" in str(caught.value)
    assert str(folder) not in str(caught.value), "nothing that a job has to know"
    assert "\n" not in str(caught.value)


def test_a_pipe_in_the_folder_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.json")
    with pytest.raises(ConfigError, match=r"pipe\.json: it is not a file"):
        named_recipe(folder, "pipe")


def test_a_sites_recipe_does_not_replace_the_packages(folder: Path) -> None:
    (folder / "dinov2-base.json").write_text(json.dumps({**RECIPE, "architecture": "Sites"}))
    assert named_recipe(folder, "dinov2-base") == named_recipe(None, "dinov2-base")
    assert named_recipe(folder, "dinov2-base").architecture != "Sites"


def test_recipes_that_come_with_the_package_need_no_folder() -> None:
    """Each is exact, or within a thousandth, and has the parameters of the published checkpoint."""
    published = {
        "clip-vit-large-patch14": 427_616_513,
        "deberta-v3-base": 183_831_552,
        "dinov2-base": 86_580_480,
        "dit-xl-2-256": 749_826_464,
        "flux.1-dev": 11_901_408_320,
        "gemma-3-12b": 12_187_325_040,
        "gemma-3-27b": 27_432_406_640,
        "gemma-3-4b": 4_300_079_472,
        "lfm2-1.2b": 1_170_340_608,
        "llama-3.2-11b-vision": 10_642_941_475,
        "llava-1.5-7b": 7_063_427_072,
        "paligemma-3b-pt-224": 2_923_466_480,
        "siglip-base-patch16-224": 203_155_970,
        "stable-diffusion-3.5-large": 8_056_627_520,
        "swin-base-patch4-window7-224": 87_768_224,
        "t5-3b": 2_851_598_336,
        "wav2vec2-base": 94_396_320,
        "whisper-large-v3": 1_543_490_560,
    }
    for name in ready_recipes():
        found = named_recipe(None, name)
        assert found == recipes.read(read_configuration(Path(name)))
        assert sum(term.parameters for term in found.terms) == published[name]
        assert found.fit.recipe_flops == pytest.approx(found.fit.executed_flops, rel=1e-3)
    assert {*ready_recipes()} == published.keys()


def model(body: dict[str, Any]) -> ModelBody:
    found = said(mfu=0.4, model=body).model
    assert found is not None
    return found


def warnings(body: ModelBody) -> tuple[str, ...]:
    """What is said of a model beside an MFU that does not need it."""
    report = said(mfu=0.4).model_copy(update={"model": body})
    return completed(report, None, EIGHT, None).stated.warnings


def test_a_token_costs_what_the_formulas_count() -> None:
    counted = flops.count(flops.read(config("llama-3-8b")), flops.fixed(1, tokens=8192))
    found = flops_per_token(model(LLAMA))
    assert found == pytest.approx(float(counted.model_flops_per_step) / 8192)
    assert warnings(model(LLAMA)) == ()


def test_the_parts_of_a_model_count() -> None:
    def count(**changes: Any) -> float:
        return flops_per_token(model({**LLAMA, **changes}))

    assert count(forward_only=True) == pytest.approx(count() / 3)
    assert count(batch_size=16) == pytest.approx(count())
    assert count(lora_rank=8) < count()
    assert count(seq_len=16384) > count()


@every(
    [
        {},
        {"architectures": ["NoSuchModel"]},
        {**config("llama-3-8b"), "hidden_size": 0},
        {**config("llama-3-8b"), "hidden_size": "wide"},
        {**config("llama-3-8b"), "num_hidden_layers": None},
        {**config("llama-3-8b"), "num_attention_heads": -1},
        {**config("llama-3-8b"), "num_key_value_heads": 0},
        config("wan2.2-t2v-a14b"),  # seq_len does not say how long its two streams are
        config("vit-l-16"),  # its configuration fixes the patches of an image
        config("qwen2.5-vl-7b"),  # its text may have images, of unknown size
    ]
)
def test_a_configuration_that_cannot_be_counted_is_named(wrong: dict[str, Any]) -> None:
    body = model({"config": wrong, "seq_len": 8192})
    for count in (flops_per_token, counted_step):
        with pytest.raises(ReportError) as error:
            count(body)
        assert (error.value.reason, error.value.field) == (ReportRejection.OUT_OF_RANGE, "model")
    assert warnings(body)[0].startswith("model: ")


def test_other_streams_are_given_by_name() -> None:
    """As `flops --length` takes them; the sequence has the image's tokens in it."""
    read = config("qwen2.5-vl-7b")
    body = {"config": read, "seq_len": 1536, "lengths": {"image": 4096}}
    counted = flops.count(flops.read(read), flops.fixed(1, tokens=1536, image=4096))
    assert flops_per_token(model(body)) == pytest.approx(float(counted.model_flops_per_token))
    read = config("wan2.2-t2v-a14b")
    video = {"config": read, "lengths": {"latent": 4096, "prompt": 512}}
    counted = flops.count(flops.read(read), flops.fixed(1, latent=4096, prompt=512))
    assert flops_per_token(model(video)) == pytest.approx(float(counted.model_flops_per_token))
    image = {"config": config("vit-l-16")}
    counted = flops.count(flops.read(config("vit-l-16")), flops.fixed(1))
    assert flops_per_token(model(image)) == pytest.approx(float(counted.model_flops_per_token))


def test_a_recipe_is_counted_at_its_own_lengths_or_at_others() -> None:
    recipe = {**RECIPE, "lengths": {"tokens": 64, "images": 1}}
    own = flops.count(flops.read(recipe), flops.fixed(1, tokens=64, images=1))
    assert flops_per_token(model({"recipe": recipe})) == pytest.approx(
        float(own.model_flops_per_token)
    )
    other = flops.count(flops.read(recipe), flops.fixed(1, tokens=32, images=0))
    body = {"recipe": recipe, "seq_len": 32, "lengths": {"images": 0}}
    assert flops_per_token(model(body)) == pytest.approx(float(other.model_flops_per_token))
    assert "has no stream 'audio'" in warnings(model({**body, "lengths": {"audio": 5}}))[0]


def test_a_recipe_that_comes_to_nothing_is_refused() -> None:
    terms = [{"name": "x", "part": "mlp", "tower": "language", "forward": {"tokens": 0}}]
    body = model({"recipe": {**RECIPE, "terms": terms}})
    assert "has no FLOPs at these lengths" in warnings(body)[0]
