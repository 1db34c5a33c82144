"""Causes in the peak: a report divides by a peak other than the dense one of its GPU and precision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial

from ofu_exporter.flops.causes import CauseFacts, Hypothesis, cause
from ofu_exporter.flops.mfu import SAME, row_of
from ofu_exporter.hardware import gpu_models
from ofu_exporter.hardware.gpu_models import GpuModel

DENSE_ONLY = ("Volta", "Turing")
"""Architectures before 2:4 sparsity."""
HALF = ("bf16", "fp16")
TIMES_HALF = {"tf32": 0.5, "bf16": 1.0, "fp16": 1.0, "fp8": 2.0, "fp4": 4.0}
"""The usual peaks in units of the BF16 peak, for an unknown GPU."""
TAKEN_FOR: Mapping[str, tuple[str, ...]] = {
    "A100-SXM4-80GB": ("",),
    "H100-SXM5-80GB": ("",),
    "H100-PCIe-80GB": ("H100", "H800"),
    "H100-NVL": ("H100", "H200"),
    "H20": ("H200", "GH200"),
    "B200": ("GB200", "GB300", "B300"),
    "GB200": ("B200", "B300", "GB300"),
    "GB300": ("B300",),
    "L20": ("H200-as-L20X",),
    "L4": ("L40",),
    "L40": ("L40S",),
    "A10": ("A10G",),
    "A40": ("RTX-A4000",),
    "RTX-PRO-6000-WS": ("RTX-PRO-6000",),
}
"""Cards, and how the names of those begin that frameworks take for them, because their tables lack these.

OLMo-core, torchtitan and KempnerForge take an unknown card for an A100. An H100's peak stands in scripts as a number
(nanochat, autoresearch); KempnerForge takes Blackwell for it, and with verl and VeOmni every H100 for the SXM part.
"H200" and "GH200" have the name of an H20 in them. OLMo-core takes a GB200 for a B200, verl an L20X for an L20,
Lightning and nanochat an L40 for an L4, VeOmni an L40S for an L40, KempnerForge, Lightning and Composer an A10G for an
A10, verl and NeMo AutoModel an RTX A4000 for an A40, and OLMo-core every RTX PRO 6000 for that of workstations.
"""
LISTED: Mapping[str, float] = {
    "H100-NVL": 1978.8,
    "A40": 37.4,
    "RTX-A4000": 37.4,
    "RTX-A6000": 38.7,
    "RTX-3070": 20.3,
    "RTX-3070-Ti": 21.75,
    "RTX-3080": 29.8,
    "RTX-3080-Ti": 34.1,
    "RTX-3090": 35.6,
    "RTX-3090-Ti": 40.0,
    "RTX-4080": 48.7,
    "RTX-4080-SUPER": 52.2,
    "RTX-4090": 82.6,
    "RTX-4090-D": 82.6,
}
"""TFLOP/s that Lightning 2.6 (an RTX 3070 Ti's verl 0.9) has for BF16 on a card, and that are no dense BF16 peak of it:
rates outside of the tensor cores, and for an H100 NVL the sparse peak of an H100 SXM."""
IN_ALL_TABLES = "H100-SXM5-80GB"
FALLBACK = 1.5
"""Rarity of such a peak: the commonest mistake with a new card."""
SELDOM = 3.0
"""The same for a card that the tables have, and for another card of the node."""
ABSENT = 10.5
"""Rarity of the peak of any other card: above the rarest simpler mistake, 6.0, with the worst misfit, 2.96^2 / 2."""
OF_BF16 = 3.0
"""Added to the rarity where the math has another precision: most tables of frameworks have BF16 peaks alone."""
ABSENT_AND_GIVEN = 4.0
"""The same if the report states that peak. It ranks after simpler mistakes that give the same peak."""
RATED = {"peak": "is rated"}
GIVEN_PEAK = "given peak"
"""The subject "what the peak is that the report says it divides by"."""
PRECISIONS = ("precision", "peak_tflops")
"""The facts that settle which precision's peak a report divides by."""


def _hypothesis(
    facts: CauseFacts, one: Hypothesis, claimed: Collection[float] = ()
) -> Iterator[Hypothesis]:
    """The hypothesis, unless the report states another peak. `claimed` are the peaks that it may be, if known."""
    stated, right = facts.peak_flops, facts.right_peak()
    is_given = None  # whether the peak of the report is this one
    if stated is not None and right is not None:
        is_given = abs(right / stated / one.ratio - 1) <= SAME
    is_other = stated is not None and all(abs(peak / stated - 1) > SAME for peak in claimed)
    if is_given is False or abs(one.ratio - 1) <= SAME or (claimed and is_other):
        return
    says = {**RATED, **one.says}
    if is_given:  # one peak is one mistake
        evidence = f"{one.evidence}; the peak of the report is that"
        rarity = ABSENT_AND_GIVEN if one.rarity == ABSENT else 0.5
        says[GIVEN_PEAK] = one.evidence
        one = replace(one, evidence=evidence, rarity=rarity)
    yield replace(one, says=says)


def _own_peaks(facts: CauseFacts, times: float) -> list[float]:
    """The GPU's peak in each precision that the math may have, times a factor."""
    row, names = facts.row(), facts.precision or TIMES_HALF
    return [times * peak for name in names if row and (peak := row.peak_flops(name))]


def _peak(facts: CauseFacts, precision: str) -> float | None:
    """A precision's peak in FLOP/s, or in units of the BF16 peak if the GPU is not known."""
    row = facts.row()
    return TIMES_HALF.get(precision) if row is None else row.peak_flops(precision)


def _seconds(shares: Mapping[str, float], peak_of: Callable[[str], float | None]) -> float | None:
    """The time that a FLOP takes at the peaks of the precisions that run; None where one of them is not known."""
    peaks = {precision: peak_of(precision) for precision in shares}
    if None in peaks.values():
        return None
    return sum(shares[precision] / peak for precision, peak in peaks.items() if peak)


@cause(2.0, settled_by=("peak_tflops",), shown_ratio="0.5")
def sparse_peak(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The peak is the one for 2:4 sparse matrices, twice the dense one."""
    row = facts.row()
    if row is None or row.chip.arch not in DENSE_ONLY:
        one = Hypothesis(sparse_peak.meaning, 0.5)
        yield from _hypothesis(facts, one, _own_peaks(facts, 2.0))


def _other_precision(
    used: str, assumed: str, applies: Callable[[set[str]], bool], facts: CauseFacts
) -> Iterator[Hypothesis]:
    """The hypothesis that the report uses the peak of `used` for math in another precision; `assumed` is the math if
    none is given."""
    shares = facts.precision or {assumed: 1.0}
    seconds, peak = _seconds(shares, partial(_peak, facts)), _peak(facts, used)
    if applies({*shares}) and seconds and peak:
        math = "+".join(shares) + ("" if facts.precision else " (assumed)")
        evidence = f"the peak is that of {used}, and the math is {math}"
        says = {"peak's precision": used, "math": math}
        claimed = [] if facts.row() is None else [peak]
        yield from _hypothesis(facts, Hypothesis(evidence, 1 / seconds / peak, says=says), claimed)


def _has_half(names: set[str]) -> bool:
    return bool(names & {*HALF})


@cause(2.5, settled_by=PRECISIONS, shown_ratio="0.5")
def fp8_peak_for_bf16(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The peak is that of FP8, and the math is BF16."""
    return _other_precision("fp8", "bf16", _has_half, facts)


@cause(2.0, settled_by=PRECISIONS, shown_ratio="2, less in a mix")
def bf16_peak_for_fp8(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The peak is that of BF16, and the math is FP8."""
    row = facts.row()
    if facts.precision is None and row and row.peak_flops("fp8") is None:
        return
    for one in _other_precision("bf16", "fp8", lambda names: "fp8" in names, facts):
        # Where the facts name no precision, it is seldom FP8.
        yield one if facts.precision else replace(one, rarity=3.0)


@cause(4.0, settled_by=PRECISIONS, shown_ratio="0.25, 0.17")
def fp4_peak(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The peak is that of FP4, and the math is another."""
    return _other_precision("fp4", "bf16", lambda names: "fp4" not in names, facts)


@cause(4.0, settled_by=PRECISIONS, shown_ratio="2; 0.5")
def tf32_peak(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The peak is that of TF32 and the math is BF16, or the reverse."""
    yield from _other_precision("tf32", "bf16", _has_half, facts)
    yield from _other_precision("bf16", "tf32", lambda names: names == {"tf32"}, facts)


@cause(2.0, needs=("gpu",), settled_by=("peak_tflops",), shown_ratio="0.87 to 0.97")
def max_clock_peak(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The peak is computed at the maximum SM clock, and rated at a lower one."""
    row = facts.row()
    if row is None or row.tensor_clock_hz is None or row.max_sm_clock_hz is None:
        return
    ratio = row.tensor_clock_hz / row.max_sm_clock_hz
    boost, rated = row.max_sm_clock_hz / 1e6, row.tensor_clock_hz / 1e6
    evidence = (
        f"the peak is computed at the boost clock of {boost:.0f} MHz, and rated at {rated:.0f} MHz"
    )
    one = Hypothesis(evidence, ratio, says={"peak's GPU": row.key})
    yield from _hypothesis(facts, one, _own_peaks(facts, 1 / ratio))


@cause(5.5, settled_by=("peak_tflops",), shown_ratio="1.1 to 1.4")
def measured_peak(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The peak is a measured matrix product, not the rated one."""
    if facts.peak_flops is None:
        yield Hypothesis(measured_peak.meaning, 1.4, 1.1, says={"peak": "is measured"})


@cause(SELDOM, needs=("gpu",), settled_by=("peak_tflops",), shown_ratio="peak over peak")
def wrong_device(facts: CauseFacts) -> Iterator[Hypothesis]:
    """The peak is that of another GPU, or one that no GPU has."""
    row = facts.row()
    if row is None:
        return
    half = {next((name for name in HALF if row.peak_flops(name)), HALF[0]): 1.0}
    math = facts.precision or half
    facts = replace(facts, precision=math)
    peak = facts.right_peak() or 0.0
    present = {model.key for name in facts.present if (model := row_of(name))}
    if {*math} <= {*HALF} and (listed := LISTED.get(row.key)):
        evidence = (
            f"the peak is {listed:g} TFLOP/s, which frameworks wrongly have for the {row.key}"
        )
        says = {"peak's GPU": row.key}
        one = Hypothesis(evidence, peak / (1e12 * listed), rarity=FALLBACK, says=says)
        yield from _hypothesis(facts, one, [1e12 * listed])
    for table in [math] if {*math} <= {*HALF} else [math, half]:
        for ratio, keys in _rated_alike(peak, row, table).items():
            key = min(keys, key=lambda each: _rarity(row.key, each, present))
            rarity = _rarity(row.key, key, present) + (0.0 if table is math else OF_BF16)
            others = {1: "", 2: " or one other rated alike"}
            more = others.get(len(keys), f" or {len(keys) - 1} others rated alike")
            more += "" if table is math else f" for {'+'.join(table)}"
            evidence = f"the peak is that of {key}{more}, and the GPU is {row.key}"
            says = {"peak's GPU": key, "peak's precision": "+".join(table)}
            if rarity <= ABSENT:
                yield from _hypothesis(facts, Hypothesis(evidence, ratio, rarity=rarity, says=says))


def _rated_alike(
    peak: float, model: GpuModel, table: Mapping[str, float]
) -> dict[float, list[str]]:
    """The models with another peak than the GPU's in a table's precisions, by the right `peak` over theirs."""
    models: dict[float, list[str]] = {}
    own_ratio = peak * (_seconds(table, model.peak_flops) or 1.0)
    for row in gpu_models.ROWS:
        ratio = peak * (_seconds(table, row.peak_flops) or 0.0)
        if ratio and abs(ratio / own_ratio - 1) > SAME:
            alike = next((each for each in models if abs(each / ratio - 1) <= SAME), ratio)
            models.setdefault(alike, []).append(row.key)
    return models


def _rarity(card: str, other: str, present: Collection[str]) -> float:
    """How rare it is that the peak of another model is used for one's own."""
    if card.startswith(TAKEN_FOR.get(other, ())):
        return SELDOM if card == IN_ALL_TABLES else FALLBACK
    return SELDOM if other in present else ABSENT
