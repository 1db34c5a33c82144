"""What each cause says of jobs of many kinds, golden: its ratios, its evidence, and what it says of the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ofu_exporter.errors import ConfigError
from ofu_exporter.flops import Recompute
from ofu_exporter.flops.causes import CauseFacts, causes
from ofu_exporter.flops.explain import Observation, explain
from tests.flops.causes import synthetic
from tests.flops.causes.synthetic import A100, Step

STEPS: Mapping[str, Step] = {
    name: value for name, value in vars(synthetic).items() if isinstance(value, Step)
}
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "nothing": {},
    "no GPU": {"gpu": None},
    "A100": {"gpu": A100, "present": frozenset({A100})},
    "no precision": {"precision": None},
    "fp8": {"precision": {"fp8": 1.0}},
    "half fp8": {"precision": {"fp8": 0.5, "bf16": 0.5}},
    "forward": {"forward_only": True},
    "trains": {"forward_only": False},
    "full": {"recompute": Recompute.FULL},
    "no recompute": {"recompute": Recompute.NONE},
    "one GPU": {"gpus": 1},
    "no number of GPUs": {"gpus": None},
    "its peak": {"peak_flops": 989.4e12},
    "another peak": {"peak_flops": 312e12},
    "a sparse peak": {"peak_flops": 1979e12},
    "tiles": {"tile_overhead": 0.05, "tile_overhead_bound": "lower"},
    "exact tiles": {"tile_overhead": 0.05, "tile_overhead_bound": "exact"},
    "accumulation": {"accumulation": 4},
    "one batch": {"accumulation": 1},
    "packs": {"pack_length": 16384},
    "an engine": {"engine": "vllm"},
    "no step": {"step": None, "executed": None},
}


CHANGED = ("LLAMA", "SPARSE_HYBRID", "BERT")


def plain(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def told(facts: CauseFacts) -> Iterator[str]:
    """A line for each hypothesis of each cause."""
    for cause in causes():
        for each in cause.hypotheses(facts):
            ratio = plain(each.ratio)
            if each.miscount is not None and facts.step is not None:
                counted = each.miscount(facts.step)
                ratio = f"counts {plain(counted.flops() / facts.step.flops())} {counted.convention}"
            more = f"{plain(each.lowest)} {plain(each.rarity)} {'alone' * each.is_alone}"
            yield f"{cause.slug}: {ratio} {more} {dict(each.says)} {each.evidence}".rstrip()


def test_every_cause_is_described_as_it_was(golden: Callable[[str, str], None]) -> None:
    lines = [
        f"{each.slug} {each.rarity} {each.needs} {each.settled_by} {each.shown_ratio!r}"
        f" {each.side.value}: {each.meaning}"
        for each in causes()
    ]
    golden("causes/all.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", STEPS)
def test_a_job_has_the_hypotheses_that_it_had(
    name: str, golden: Callable[[str, str], None]
) -> None:
    facts = STEPS[name].facts()
    usual = [*told(facts)]
    lines = [*usual]
    for said, changed in CHANGES.items() if name in CHANGED else ():
        try:
            found = [*told(replace(facts, **changed))]
        except ConfigError as error:
            found = [str(error)]
        lines += [f"{said}: + {line}" for line in found if line not in usual]
        lines += [f"{said}: - {line.partition(':')[0]}" for line in usual if line not in found]
    golden(f"causes/{name.lower()}.txt", "\n".join(lines) + "\n")


SEEN = [
    Observation(mfu, ofu, error, right)
    for mfu in (0.02, 0.2, 0.36, 0.41, 0.62, 1.3)
    for ofu in (0.0, 0.01, 0.04, 0.3, 0.4, 0.75, 1.1, 1.3)
    for error in (0.001, 0.03)
    for right in (None, 0.37)
]


@pytest.mark.parametrize("name", ["nothing known", "a GPU", "LLAMA"])
def test_what_is_seen_is_explained_as_it_was(name: str, golden: Callable[[str, str], None]) -> None:
    h100 = CauseFacts(gpu=synthetic.H100, precision={"bf16": 1.0}, gpus=8, peak_flops=989.4e12)
    facts = {"nothing known": CauseFacts(), "a GPU": h100, "LLAMA": STEPS["LLAMA"].facts()}[name]
    lines = []
    for seen in SEEN if name != "LLAMA" else SEEN[::5]:
        found = explain(seen, facts)
        fitting = [(each.cause, plain(each.misfit)) for each in found.causes[:4]]
        told = f"{found.divergence.verdict.value} {plain(found.observed_ratio)} {fitting}"
        rest = f"{found.tied} {len(found.untried)} {found.telling} {found.looked} {found.advice}"
        numbers = (seen.mfu, seen.ofu, seen.standard_error, seen.right_mfu)
        lines.append(f"{' '.join(map(plain, numbers))}: {told} {rest}")
    golden(f"causes/{name.replace(' ', '-')}-explained.txt", "\n".join(lines) + "\n")
