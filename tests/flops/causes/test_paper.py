"""The miscounted jobs of arXiv:2605.20799, sections V-C and VI, come out with the right first cause."""

from __future__ import annotations

import pytest

from ofu_exporter import flops
from ofu_exporter.flops.causes import CauseFacts
from ofu_exporter.flops.counted_step import CountedStep
from ofu_exporter.flops.explain import Explanation, Observation, explain
from ofu_exporter.values.reported import Verdict
from tests.flops.causes.synthetic import BF16, LATENT
from tests.flops.counting import config

MIXED = "*-MEMEM-*EMEM-MEME"
"""Attention, Mamba, dense and sparse layers: the paper names the kinds and not their order."""


def explained(mfu: float, ofu: float, facts: CauseFacts | None = None) -> Explanation:
    return explain(Observation(mfu, ofu), facts)


def facts_of(of: dict[str, object], tokens: int) -> CauseFacts:
    job = CountedStep(
        flops.read(of), flops.fixed(1, tokens=tokens), flops.Counting(), flops.Passes()
    )
    return CauseFacts(job, precision=BF16, gpu="NVIDIA H100 80GB HBM3", gpus=288)


def test_latent_experts_at_the_full_hidden_size() -> None:
    """16B parameters, hidden size 2048, latent 512, as the paper has them; k is not given and follows from 2.94."""
    of = dict(LATENT.config)
    assert flops.count(flops.read(of), LATENT.lengths).parameters.total == pytest.approx(
        16e9, rel=0.02
    )
    found = explained(0.5427, 0.2558, facts_of(of, 4096))
    first = found.causes[0]
    assert found.divergence.verdict is Verdict.MFU_ABOVE_OFU
    assert first.causes[0] == "latent_moe_full_hidden"
    put_right = float(first.evidence.rpartition("MFU: ")[2].rstrip("%"))
    assert put_right == pytest.approx(18.45, abs=0.05)


def test_every_layer_of_a_hybrid_as_attention_and_mlp() -> None:
    found = explained(0.2451, 0.1556, facts_of(config("nemotron-h-8b"), 8192))
    assert found.causes[0].cause == "hybrid_as_dense"


def test_a_hybrid_of_four_kinds_of_layers() -> None:
    of = config(
        "nemotron-3-nano-30b-a3b",
        hybrid_override_pattern=MIXED,
        num_hidden_layers=len(MIXED),
        n_routed_experts=32,
        intermediate_size=8192,
    )
    found = explained(0.2451, 0.1556, facts_of(of, 8192))
    assert "hybrid_as_dense" in {each.cause for each in found.causes}


def test_recomputation_is_work_that_mfu_leaves_out() -> None:
    found = explained(0.26, 0.34)
    assert found.divergence.verdict is Verdict.MFU_BELOW_OFU
    assert found.causes[0].cause == "activation_recompute"
    assert explained(0.33, 0.34).divergence.verdict is Verdict.AGREE


def test_a_job_that_got_slower_is_not_one_that_miscounts() -> None:
    """TORCH_DISTRIBUTED_DEBUG took 2.5 times the speed: both numbers fall together."""
    found = explained(0.45 / 2.5, 0.46 / 2.5)
    assert found.divergence.verdict is Verdict.AGREE
    assert found.causes == ()
