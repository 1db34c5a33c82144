"""Parameters are those of the published models."""

from __future__ import annotations

import pytest

from ofu_exporter import flops
from tests.flops.checkpoints import CHECKPOINTS, OTHERWISE, Checkpoint, checkpoint
from tests.flops.counting import NAMES, config, without

PUBLISHED = {
    "bert-base-uncased": 109_514_298,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v3": 671_026_419_200,
    "gemma-2-9b": 9_241_705_984,
    "gemma-7b": 8_537_680_896,
    "gpt-neox-20b": 20_554_567_680,
    "gpt-oss-20b": 20_914_757_184,
    "gpt2": 124_439_808,
    "gpt3-175b": 174_604_259_328,
    "jamba-v0.1": 51_570_323_328,
    "llama-3-70b": 70_553_706_496,
    "llama-3-8b": 8_030_261_248,
    "mistral-7b-v0.1": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "nemotron-3-nano-30b-a3b": 31_577_940_288,
    "nemotron-h-8b": 8_100_852_736,
    "nemotron-nano-9b-v2": 8_888_227_328,
    "olmoe-1b-7b": 6_919_161_856,
    "phi-2": 2_779_683_840,
    "qwen-image": 20_430_401_088,
    "qwen2-vl-7b": 8_291_375_616,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-vl-7b": 8_292_166_656,
    "qwen3-vl-8b": 8_767_123_696,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-8b": 8_190_735_360,
    "qwen3-next-80b-a3b": 79_674_391_296,
    "vit-l-16": 304_326_632,
    "wan2.1-t2v-1.3b": 1_418_996_800,
    "wan2.2-t2v-a14b": 14_288_491_584,
    "wan2.2-ti2v-5b": 4_999_787_712,
}


def parameters(name: str) -> flops.Parameters:
    model = flops.read(config(name))
    return flops.count(model, flops.fixed(1, **dict.fromkeys(model.streams, 8))).parameters


def test_every_configuration_has_a_published_number() -> None:
    assert sorted(PUBLISHED) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_total(name: str) -> None:
    assert parameters(name).total == PUBLISHED[name]


@pytest.mark.parametrize("row", CHECKPOINTS, ids=lambda row: row.name)
def test_public_checkpoints(row: Checkpoint) -> None:
    model = flops.read(checkpoint(row.kind, row.sizes))
    lengths = flops.fixed(1, **dict.fromkeys(model.streams, 8))
    assert flops.count(model, lengths).parameters.total == row.parameters


def test_at_least_sixty_checkpoints_are_held_to_their_published_number() -> None:
    assert len({name for name, *_ in CHECKPOINTS}) == len(CHECKPOINTS) >= 60


def test_nine_of_ten_checkpoints_were_compared_with_what_others_print() -> None:
    """A difference is written beside its reason: what is stored twice, or is no parameter."""
    checked = {row.name: row for row in CHECKPOINTS if row.printed is not None}
    assert OTHERWISE.keys() <= checked.keys()
    for name, row in checked.items():
        more = OTHERWISE.get(name, (0, ""))[0]
        assert row.parameters + more == row.printed, f"{name}: {row.where}"
    assert len(checked) >= len(CHECKPOINTS) * 0.9


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("mixtral-8x7b", 12.88),
        ("deepseek-v3", 37.55),
        ("deepseek-v2-lite", 2.66),
        ("qwen3-30b-a3b", 3.35),
        ("jamba-v0.1", 12.11),
        ("llama-3-8b", 8.03),
    ],
)
def test_active(name: str, billions: float) -> None:
    assert parameters(name).active / 1e9 == pytest.approx(billions, abs=0.01)


def test_deepseeks_685_billion_have_the_prediction_layer() -> None:
    """Its checkpoint shares embedding and head with it: 671.03B and 11.6B of one layer and its projection."""
    model = flops.read(config("deepseek-v3"))
    how = flops.How(counting=flops.Counting(predictions=True))
    counted = flops.count(model, flops.fixed(1, tokens=8), how)
    layer = counted.parameters.total - PUBLISHED["deepseek-v3"]
    own_tables = 2 * 129280 * 7168
    assert (PUBLISHED["deepseek-v3"] + layer + own_tables) / 1e9 == pytest.approx(684.49, abs=0.05)


def test_a_tied_head_is_the_embedding() -> None:
    tied, untied = parameters("gpt2"), flops.read(config("gpt2", tie_word_embeddings=False))
    counted = flops.count(untied, flops.fixed(1, tokens=8)).parameters
    assert counted.total - tied.total == 50257 * 768
    assert counted.embedding == tied.embedding == (50257 + 1024) * 768


def test_an_absent_tie_is_what_the_class_says() -> None:
    assert (
        flops.read(without("llama-3-8b", "tie_word_embeddings")).shape
        == flops.read(config("llama-3-8b")).shape
    )
    assert "tie_word_embeddings" not in config("gemma-7b")
