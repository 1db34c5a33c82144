"""No offered cause contradicts itself or what the job has stated, over random reports.

What contradicts what is written down here once more, from the sentences that users read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import combinations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ofu_exporter import flops
from ofu_exporter.flops import Counting, Lora, Passes, Recompute
from ofu_exporter.flops.candidates import Candidate
from ofu_exporter.flops.causes import CauseFacts, causes
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.flops.explain import Observation, explain
from ofu_exporter.hardware.gpu_models import find_row
from ofu_exporter.values.gpu import Gpu
from tests.flops.causes.cards import DEEPSEEK_V32
from tests.flops.causes.synthetic import A100, H100, LATENT
from tests.flops.counting import config

H200, L40S = "NVIDIA H200", "NVIDIA L40S"
CONFIGS = {
    "dense": config("llama-3-8b"),
    "sparse": config("mixtral-8x7b"),
    "hybrid": config("nemotron-3-nano-30b-a3b"),
    "shared": config("deepseek-v2-lite"),
    "latent": LATENT.config,
    "both ways": config("bert-base-uncased"),
    "chosen keys": DEEPSEEK_V32.config(),
}

EXCLUSIVE = (
    # A sentence, and those of which none can be true beside it.
    (
        r"the job runs forward passes only",
        r"recomputes? activations|again in the backward pass|the job trains|are trained|4 forwards",
    ),
    (r"recomputes? activations", r"attention cores run again"),
    (r"the count has the forward pass only", r"4 forwards|the count trains everything"),
    (r"kernels skip the padding", r"the hardware runs the padding"),
    (r"and not the attention cores", r"takes every pair|half of the pairs|whole sequence"),
    (r"takes all of them for sparse", r"nothing for them|each for attention and an MLP"),
    (r"has nothing for them", r"each for attention and an MLP|the count takes all of them$"),
    # Where the math is assumed, another card's peak may be its BF16 peak.
    (
        r"peak is that of .* the GPU is",
        r"the peak is that of \S+, and the math is \S+$|computed at",
    ),
    (r"measured matrix product", r"the peak is the one for|peak is that of|and rated at"),
    (r"convention \S+ counts so", r"the count (?!is|has the forward|has backward)"),
)
ONE_EACH = (r"the peak is that of (\S+), and the math is", r"the math is ([\w+]+)")
"""Of what stands in the brackets only one can be said."""


def parts(cause: Candidate) -> list[str]:
    return cause.evidence.split("; corrected MFU")[0].split("; and ")


def contradiction(cause: Candidate) -> str:
    """The two sentences of a cause that cannot both be true; "" where there are none."""
    for one, other in combinations(parts(cause), 2):
        for sentence, excluded in EXCLUSIVE:
            for this, that in ((one, other), (other, one)):
                if re.search(sentence, this) and re.search(excluded, that):
                    return f"{this} / {that}"
        for pattern in ONE_EACH:
            found = [re.search(pattern, text) for text in (one, other)]
            if found[0] and found[1] and found[0][1] != found[1][1]:
                return f"{one} / {other}"
    return ""


def against_recompute(facts: CauseFacts, said: str) -> bool:
    if facts.recompute is None:
        return False
    activations = bool(re.search(r"recomputes? activations", said))
    cores = "attention cores run again" in said
    return (activations and facts.recompute is not Recompute.FULL) or (
        cores and facts.recompute is not Recompute.SELECTIVE
    )


def against_passes(facts: CauseFacts, said: str) -> bool:
    backward = ("the job trains", "4 forwards", "again in the backward pass")
    if facts.forward_only:
        return any(each in said for each in backward) or "recompute activations" in said
    return facts.forward_only is False and "the job runs forward passes only" in said


def against_precision(facts: CauseFacts, said: str) -> bool:
    math = re.search(r"the math is ([\w+]+)", said)
    return bool(facts.precision and math and set(math[1].split("+")) != set(facts.precision))


def against_gpus(facts: CauseFacts, said: str) -> bool:
    counted = re.search(r"of the (\d+) GPUs|divided by (\d+)", said)
    number = counted and int(counted[1] or counted[2])
    return facts.gpus is not None and ("one GPU in" in said or number not in (None, facts.gpus))


def against_peak(facts: CauseFacts, said: str) -> bool:
    """The peaks of the sentence are read off the table anew."""
    if facts.peak_flops is None or facts.gpu is None:
        return False
    if "measured matrix product" in said:
        return True
    row = find_row(Gpu(index="", uuid="", name=facts.gpu))
    assert row is not None
    precisions = list(facts.precision or ("tf32", "bf16", "fp8", "fp4"))
    used = re.search(r"the peak is that of (\S+), and the math", said)
    if used:
        claimed = [row.peak_flops(used[1])]
    elif "2:4 sparse" in said:
        claimed = [2 * (row.peak_flops(each) or 0) for each in precisions]
    else:
        return False
    if facts.precision is not None and len(facts.precision) > 1:
        return False  # a mix of precisions has a peak of its own
    return all(abs((peak or 0) / facts.peak_flops - 1) > 0.011 for peak in claimed)


AGAINST: tuple[Callable[[CauseFacts, str], bool], ...] = (
    against_recompute,
    against_passes,
    against_precision,
    against_gpus,
    against_peak,
)


@cache
def counted(name: str, passes: Passes) -> CountedStep:
    return CountedStep(flops.read(CONFIGS[name]), flops.fixed(8, tokens=4096), Counting(), passes)


@st.composite
def stated(draw: st.DrawFn) -> CauseFacts:
    """What a job may say of itself; each fact may be missing."""
    forward_only = draw(st.sampled_from([None, False, True]))
    name = draw(st.sampled_from([None, *CONFIGS]))
    lora = None if forward_only else draw(st.sampled_from([None, Lora(64)]))
    passes = Passes(forward_only=bool(forward_only), lora=lora)
    gpu = draw(st.sampled_from([None, H100, A100, H200]))
    half = [None, {"bf16": 1.0}, {"tf32": 1.0}]
    eighth = [] if gpu == A100 else [{"fp8": 1.0}, {"fp8": 0.7, "bf16": 0.3}]
    return CauseFacts(
        step=counted(name, passes) if name else None,
        executed=draw(st.sampled_from([None, flops.fixed(8, tokens=5120)])) if name else None,
        forward_only=forward_only,
        recompute=None if forward_only else draw(st.sampled_from([None, *Recompute])),
        gpu=gpu,
        gpus=draw(st.sampled_from([None, 1, 8, 288])),
        precision=draw(st.sampled_from([*half, *eighth])),
        peak_flops=draw(st.sampled_from([None, 312e12, 494.7e12, 989.4e12, 1978.9e12])),
        present=frozenset()
        if gpu is None
        else draw(st.sampled_from([frozenset({gpu}), frozenset({gpu, L40S})])),
    )


NUMBERS = st.floats(0.02, 0.95)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(stated(), NUMBERS, NUMBERS)
@example(CauseFacts(gpu=H200, present=frozenset({H200})), 0.75, 0.125)
def test_no_offered_cause_contradicts_itself_or_what_was_stated(
    facts: CauseFacts, mfu: float, ofu: float
) -> None:
    for each in explain(Observation(mfu, ofu), facts).causes:
        assert not contradiction(each)
        for said in parts(each):
            assert not any(is_against(facts, said) for is_against in AGAINST), said


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(stated(), NUMBERS, NUMBERS)
@example(CauseFacts(gpu=A100, present=frozenset({A100})), 0.373046875, 0.12947642893600303)
def test_a_gpu_that_no_framework_falls_back_to_is_never_likelier_than_a_plain_mistake(
    facts: CauseFacts, mfu: float, ofu: float
) -> None:
    found = explain(Observation(mfu, ofu), facts).causes
    expected = {row.key for name in facts.present if (row := find_row(Gpu("", "", name=name)))}
    # What several frameworks take an unknown card for, what stands in scripts, and cards of a similar name.
    expected |= {"A100-SXM4-80GB", "H100-SXM5-80GB", "H100-NVL", "H20"}
    absent = False
    for each in found:
        named = re.search(
            r"peak is that of (\S+?)(?: or \d+ others.*)?, and the GPU is", each.evidence
        )
        if "the peak of the report is that" in each.evidence:
            continue  # no guess: the report itself says by what it divides
        if named and named[1] not in expected:
            absent = True
        else:
            assert not absent, f"{each.cause} stands behind a GPU that is not there"


def test_what_was_offered_before_is_a_contradiction() -> None:
    """The judge of this file sees what it is there for."""
    said = (
        "the job runs forward passes only, and the count has backward passes too; and the job may recompute "
        "activations, which the hardware runs and MFU rightly leaves out"
    )
    assert contradiction(Candidate("forward_only+activation_recompute", 2.25, 3.0, 0.0, said, 5.5))


@pytest.mark.parametrize("ratio", [2.25, 2.3])
def test_a_job_that_runs_forward_only_recomputes_nothing(ratio: float) -> None:
    found = explain(Observation(0.3 * ratio, 0.3), CauseFacts(gpu=H100, precision={"bf16": 1.0}))
    assert all(
        {"forward_only", "activation_recompute"} != set(each.causes) for each in found.causes
    )


@pytest.mark.slow
def test_every_pair_that_is_excluded_is_written_down_by_a_cause() -> None:
    """Both names of a subject are in use: a subject that one cause alone speaks of excludes nothing."""
    said: dict[str, set[str]] = {}
    facts = [
        CauseFacts(
            step=counted(name, Passes(lora=Lora(64))),
            executed=flops.fixed(8, tokens=5120),
            gpu=H100,
            precision=precision,
        )
        for name in CONFIGS
        for precision in (None, {"bf16": 1.0}, {"tf32": 1.0}, {"fp8": 1.0})
    ]
    for each in facts:
        for cause in causes():
            for hypothesis in cause.hypotheses(each):
                for subject, word in hypothesis.says.items():
                    said.setdefault(subject, set()).add(word)
    assert {subject for subject, words in said.items() if len(words) < 2} <= {"formula"}
