"""What a step runs: forward only, recomputation in HFU and not in MFU, frozen parts, adapters."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofu_exporter import flops
from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import Lora, Model, Part, Passes, Recompute, Term
from tests.flops.counting import NAMES, config, count, ratio, share


@pytest.mark.parametrize("name", NAMES)
def test_training_is_three_forwards(name: str) -> None:
    model = flops.read(config(name))
    lengths = flops.fixed(2, **dict.fromkeys(model.streams, 64))
    trained = flops.count(model, lengths)
    forward = flops.count(model, lengths, flops.How(passes=Passes(forward_only=True)))
    assert trained.model_flops_per_step == 3 * forward.model_flops_per_step
    assert trained.hardware_flops_per_step == trained.model_flops_per_step


def test_full_recomputation_is_a_third_more_of_the_layers() -> None:
    """HFU/MFU = (4 - share of the head)/3: the head's activations are kept."""
    counted = count("llama-3-8b", tokens=8192, passes=Passes(recompute=Recompute.FULL))
    for line in counted.lines:
        again = line.forward if line.term.in_layers else 0
        assert line.recomputed == again
        hardware = Fraction(line.model + line.recomputed, line.model)
        assert hardware == (Fraction(4, 3) if line.term.in_layers else 1)
    head = share(counted, flops.Part.HEAD)
    hardware_over_model = ratio(counted.hardware_flops_per_step, counted.model_flops_per_step)
    assert hardware_over_model == pytest.approx((4 - head) / 3)


@pytest.mark.parametrize("lora", [None, Lora(8)])
def test_a_reference_model_is_one_more_forward_without_adapters(lora: Lora | None) -> None:
    alone, beside = (
        count("llama-3-8b", tokens=64, passes=Passes(lora=lora, reference=reference))
        for reference in (False, True)
    )
    forward = count("llama-3-8b", tokens=64, passes=Passes(forward_only=True))
    more = beside.model_flops_per_step - alone.model_flops_per_step
    assert more == forward.model_flops_per_step


@pytest.mark.parametrize("convention", ["palm", "megatron", "kaplan", "chinchilla", "kempner"])
def test_full_recomputation_is_four_thirds_where_a_convention_has_it(convention: str) -> None:
    counted = count("llama-3-8b", convention, passes=Passes(recompute=Recompute.FULL))
    assert 3 * counted.hardware_flops_per_step == 4 * counted.model_flops_per_step


def test_recomputation_leaves_mfu_alone() -> None:
    for recompute in Recompute:
        counted = count("llama-3-8b", passes=Passes(recompute=recompute))
        assert counted.model_flops_per_step == count("llama-3-8b").model_flops_per_step


def test_selective_recomputation_runs_the_cores_again() -> None:
    """MFU/HFU = 3/(3 + share of the cores)."""
    counted = count("llama-3-8b", tokens=8192, passes=Passes(recompute=Recompute.SELECTIVE))
    cores = share(counted, flops.Part.CORE)
    less = ratio(counted.model_flops_per_step, counted.hardware_flops_per_step)
    assert less == pytest.approx(3 / (3 + cores))
    assert 0.75 <= less < 1


@given(st.integers(1, 32))
def test_recomputing_some_layers_costs_their_share(layers: int) -> None:
    full = count("llama-3-8b", passes=Passes(recompute=Recompute.FULL))
    some = count("llama-3-8b", passes=Passes(recompute=Recompute.FULL, recompute_layers=layers))
    extra = full.hardware_flops_per_step - full.model_flops_per_step
    assert some.hardware_flops_per_step - some.model_flops_per_step == extra * Fraction(layers, 32)


def test_adapters_cost_4_per_frozen_weight_and_6_of_their_own() -> None:
    """(6 P + C)/(4 P + 6 A + C), C the cores of every pair: Qwen3-8B, rank 64, 4096 tokens."""
    every = flops.Counting(causal=False)
    full = count("qwen3-8b", counting=every)
    tuned = count("qwen3-8b", counting=every, passes=Passes(lora=Lora(64)))
    per_layer = 64 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 12288))
    cores = 12 * 36 * 4096 * 4096
    products = (full.model_flops_per_token - cores) / 6
    assert tuned.model_flops_per_token == 4 * products + 6 * 36 * per_layer + cores
    over = ratio(full.model_flops_per_step, tuned.model_flops_per_step)
    assert over == pytest.approx(1.365, abs=5e-4)


def test_adapters_on_some_projections_only() -> None:
    tuned = count("qwen3-8b", passes=Passes(lora=Lora(8, ("q_proj", "v_proj"))))
    named = [line.term.name for line in tuned.lines if line.term.name.endswith(".lora")]
    assert named == ["attention.q_proj.lora", "attention.v_proj.lora"]


def test_experts_have_an_adapter_each_and_a_token_goes_through_its_own() -> None:
    tuned = count("mixtral-8x7b", tokens=1, passes=Passes(lora=Lora(8, ("up_proj",))))
    line = next(line for line in tuned.lines if line.term.name == "experts.up_proj.lora")
    assert line.term.parameters == 32 * 8 * 8 * (4096 + 14336)
    assert line.forward == 2 * 32 * 2 * 8 * (4096 + 14336)


def vision_language(passes: Passes) -> flops.Count:
    lengths = flops.fixed(2, tokens=1024) + flops.fixed(4, image=1024)
    return flops.count(flops.read(config("qwen2-vl-7b")), lengths, flops.How(passes=passes))


def costs(counted: flops.Count, tower: str) -> Fraction:
    lines = [line for line in counted.lines if line.term.tower == tower]
    return Fraction(sum(line.model for line in lines), sum(line.forward for line in lines))


def test_a_frozen_vision_encoder_runs_forward_only() -> None:
    counted = vision_language(Passes(frozen=frozenset({"vision"})))
    assert costs(counted, "vision") == 1
    assert costs(counted, "language") == 3


def test_a_frozen_language_model_still_passes_gradients_to_the_encoder() -> None:
    counted = vision_language(Passes(frozen=frozenset({"language"})))
    assert costs(counted, "vision") == 3
    weights = {line.term.name: line for line in counted.lines if line.term.tower == "language"}
    assert weights["mlp.up_proj"].backward == weights["mlp.up_proj"].forward
    assert weights["attention.core"].backward == 2 * weights["attention.core"].forward


def test_a_frozen_tower_beside_a_trained_one_runs_forward_only() -> None:
    """Image and sound stand side by side: no gradient of one passes through the other."""
    names = ("vision", "sound", "language")
    terms = tuple(Term(f"{name}.proj", Part.PROJECTION, flops=10, tower=name) for name in names)
    model = Model("any", "Any", terms=terms, towers=names)
    assert model.towers == ("vision", "sound", "language")
    for frozen, trained in (("sound", "vision"), ("vision", "sound")):
        how = flops.How(passes=Passes(frozen=frozenset({frozen})))
        counted = flops.count(model, flops.fixed(1, tokens=8), how)
        assert costs(counted, frozen) == 1
        assert costs(counted, trained) == costs(counted, "language") == 3


def test_what_runs_forward_only_is_not_recomputed() -> None:
    passes = Passes(frozen=frozenset({"vision"}), recompute=Recompute.FULL)
    for line in vision_language(passes).lines:
        assert bool(line.recomputed) == (line.term.tower == "language" and line.term.in_layers)


def test_grpo_runs_reference_and_reward_forward_only() -> None:
    actor = count("qwen3-8b")
    reference = count("qwen3-8b", passes=Passes(forward_only=True))
    total = flops.Total((actor, reference, reference))
    assert 3 * total.model_flops_per_step == 5 * actor.model_flops_per_step
    assert total.hardware_flops_per_step == total.model_flops_per_step


def test_padding_is_in_hfu_and_not_in_mfu() -> None:
    """sum(2 P T + 2 q Q) over the padded and the real lengths, as one padded batch runs them."""
    model, lengths = flops.read(config("llama-3-8b")), flops.packed([4096, 1024, 512])
    bare = flops.count(model, lengths)
    padded = flops.count(model, lengths, executed=flops.fixed(3, tokens=4096))
    assert padded.model_flops_per_step == bare.model_flops_per_step
    whole = flops.count(model, flops.fixed(3, tokens=4096))
    assert padded.hardware_flops_per_step == whole.hardware_flops_per_step
    again = flops.How(passes=Passes(recompute=Recompute.FULL))
    both = flops.count(model, lengths, again, executed=flops.fixed(3, tokens=4096))
    recomputed = flops.count(model, flops.fixed(3, tokens=4096), again)
    assert both.hardware_flops_per_step == recomputed.hardware_flops_per_step
    with pytest.raises(ConfigError, match="a padded step is smaller"):
        flops.count(model, lengths, executed=flops.fixed(3, tokens=1024))


@given(st.integers(1, 50))
def test_timesteps_and_guidance_passes_multiply(repeats: int) -> None:
    once = count("gpt2", tokens=64)
    assert (
        count("gpt2", tokens=64, passes=Passes(repeats=repeats)).model_flops_per_step
        == repeats * once.model_flops_per_step
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Passes(forward_only=True, recompute=Recompute.FULL),
            "recompute: a forward-only pass has no activations",
        ),
        (lambda: Passes(recompute_layers=2), "recompute_layers: also give recompute"),
        (lambda: Passes(lora=Lora(0)), "lora rank: 0 is below 1"),
        (lambda: Passes(repeats=0), "repeats: 0 is below 1"),
    ],
)
def test_passes_that_contradict_themselves(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        (Passes(frozen=frozenset({"vison"})), "frozen: no part vison; known: model"),
        (
            Passes(recompute=Recompute.FULL, recompute_layers=33),
            "recompute_layers: 33 is not between 1 and the model's 32",
        ),
        (
            Passes(lora=Lora(8, ("query_key_value",))),
            "lora targets: none of query_key_value here; known: down_proj, gate_proj, k_proj",
        ),
    ],
)
def test_passes_that_do_not_fit_the_model(passes: Passes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        count("llama-3-8b", passes=passes)
